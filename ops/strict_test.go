package ops_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim"
)

// onStrictCards runs a test with every seed, on cards with every check and every reordering that
// hardware may do.
func onStrictCards(t *testing.T, stream uint64, f func(t *testing.T, b *bench, r *rand.Rand)) {
	// Three rows or columns of cores, of which the queue takes one: more cores take time and test
	// nothing new.
	for _, c := range []struct {
		card    func(...sim.Option) *sim.Card
		harvest uint32
	}{{sim.Wormhole, 0x3F8}, {sim.Blackhole, 0x3FF8}} {
		t.Run(c.card().String(), func(t *testing.T) {
			seeds := effort.Of[uint64](1, 4, 1000)
			if testing.Short() {
				seeds = 1
			}
			for seed := range seeds {
				if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					card := c.card(sim.Strict(seed), sim.Harvesting(chip.Harvesting{Tensix: c.harvest}))
					f(t, open(t, card), rand.New(rand.NewPCG(seed, stream)))
					if err := card.Chip().Fault(); err != nil {
						t.Error(err)
					}
				}) && !effort.Hours {
					return
				}
			}
		})
	}
}

func TestStrict(t *testing.T) {
	onStrictCards(t, 5, func(t *testing.T, b *bench, r *rand.Rand) {
		run := func(check func(room, *bench, *rapid.T, ...string), names []string) {
			bits := make([]byte, 8*1000) // what rapid draws from, some hundred numbers
			for i := range bits {
				bits[i] = byte(r.Uint32())
			}
			rapid.MakeFuzz(func(t *rapid.T) { check(room{side: 2, elements: 600}, b, t, names...) })(t, bits)
		}
		for _, names := range operations {
			run(room.check, names)
		}
		for _, names := range reals {
			run(room.checkReals, names)
		}
	})
}
