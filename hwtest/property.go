package hwtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// draw is what a property draws its choices from. Under go test these are rapid's, which shrinks the choices of a failure
// to few; elsewhere those of a generator with a seed.
type draw interface {
	IntRange(from, to int, label string) int // both included
	Uint32(label string) uint32
	Repeat(actions map[string]func(draw)) // some of them, in any order
	Fatalf(format string, args ...any)
}

// sample draws one of several values.
func sample[V any](r draw, from []V, label string) V { return from[r.IntRange(0, len(from)-1, label)] }

// seeded draws from a generator.
type seeded struct {
	t   *fixture
	rng *rand.Rand
}

// seededActions is how many actions a try of a property makes.
const seededActions = 40

// seededProperty tries a property with the seeds from 1 to n, so that a failure comes again.
func seededProperty(t *fixture, n int, prop func(draw)) {
	for seed := range uint64(n) {
		t.sub(fmt.Sprintf("seed %d", seed+1), func(t *fixture) {
			prop(seeded{t, rand.New(rand.NewPCG(seed+1, 2))})
		})
		if t.Failed() {
			return
		}
	}
}

func (s seeded) IntRange(from, to int, _ string) int { return from + s.rng.IntN(to-from+1) }
func (s seeded) Uint32(string) uint32                { return s.rng.Uint32() }

func (s seeded) Fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf(format, args...)
}

func (s seeded) Repeat(actions map[string]func(draw)) {
	names := slices.Sorted(maps.Keys(actions))
	for range seededActions {
		actions[names[s.rng.IntN(len(names))]](s)
	}
}
