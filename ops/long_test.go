//go:build long

package ops_test

import (
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

// Strict chips with other networks, orders and delays give the same.
func TestOperationsOnStrictSeeds(t *testing.T) {
	for seed := range uint64(200) {
		for _, card := range []func(...sim.Option) *sim.Card{sim.Wormhole, sim.Blackhole} {
			target := card(sim.Strict(100 + seed))
			t.Run(fmt.Sprintf("%v seed %d", target, 100+seed), func(t *testing.T) { fixed(open(t, target)) })
		}
	}
}

// Chips that are linked in a ring, and more of them.
func TestCollectivesOfManyChips(t *testing.T) {
	collectives(t, sim.QuietBox(), mesh.Shape{2, 2}, ops.RowMajor, ops.Float32, 2, 4, 6)
	collectives(t, sim.T3000(), mesh.Shape{2, 2}, ops.Tile, ops.BFloat16, 32, 64)
}
