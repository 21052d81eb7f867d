package ops_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// Every kernel computes the same as plain Go on drawn shapes, types, layouts and places, on a card with every check and every
// reordering that hardware may do, and no access is refused.
func TestStrict(t *testing.T) {
	// Three rows or columns of cores, of which the queue takes one: more cores take time and test nothing new.
	for _, c := range []struct {
		card    func(...sim.Option) *sim.Card
		harvest uint32
	}{{sim.Wormhole, 0x3F8}, {sim.Blackhole, 0x3FF8}} {
		t.Run(c.card().String(), func(t *testing.T) {
			seeds := uint64(strictSeeds)
			if testing.Short() {
				seeds = 1
			}
			for seed := range seeds {
				if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					strict(t, c.card(sim.Strict(seed), sim.Harvesting(chip.Harvesting{Tensix: c.harvest})), seed)
				}) && !strictAll {
					return
				}
			}
		})
	}
}

func strict(t *testing.T, card *sim.Card, seed uint64) {
	b := open(t, card)
	r := rand.New(rand.NewPCG(seed, 5))
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
	if err := card.Chip().Fault(); err != nil {
		t.Error(err)
	}
}
