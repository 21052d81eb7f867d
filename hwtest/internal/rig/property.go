package rig

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
)

// Draw is what a property draws its choices from. Under go test these are rapid's, which shrinks the choices of a failure
// to few; elsewhere those of a generator with a seed.
type Draw interface {
	IntRange(from, to int, label string) int // both included
	Uint32(label string) uint32
	Repeat(actions map[string]func(Draw)) // some of them, in any order
	Fatalf(format string, args ...any)
}

// Sample draws one of several values.
func Sample[V any](r Draw, from []V, label string) V { return from[r.IntRange(0, len(from)-1, label)] }

// seeded draws from a generator.
type seeded struct {
	t   *T
	rng *rand.Rand
}

// seededActions is how many actions a try of a property makes.
const seededActions = 40

// SeededProperty tries a property with the seeds from 1 to n, so that a failure comes again.
func SeededProperty(t *T, n int, prop func(Draw)) {
	for seed := range uint64(n) {
		t.Sub(fmt.Sprintf("seed %d", seed+1), func(t *T) {
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

func (s seeded) Repeat(actions map[string]func(Draw)) {
	names := slices.Sorted(maps.Keys(actions))
	for range seededActions {
		actions[names[s.rng.IntN(len(names))]](s)
	}
}

// Random returns random numbers that are the same in every run of a case.
func Random(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}
