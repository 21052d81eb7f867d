//go:build long || hours

package bench

import (
	"testing"

	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// The network is the command's.
func TestSummaryOfAll(t *testing.T) {
	m := sim.N300()
	defer m.Close()
	count := sim.Wormhole(sim.Synchronous(), sim.Seed(1))
	r := runFamily(t, Summarized, Config{
		Target: sim.Wormhole(), Mesh: mesh.Cards(m.Cards()...),
		CountTarget: count, Executed: func() [3]uint64 { return count.Chip().QueueExecuted() },
		Emulated: func() Emulated { return emulatedBy(sim.Wormhole()) },
		Parallel: func() Emulated { return emulatedBy(sim.Wormhole(sim.Parallel())) },
	})
	for _, row := range r.Summary {
		if row.Now == nil && row.Missing != "this program has no network" {
			t.Errorf("%s isn't measured: %s", row.What, row.Missing)
		}
		if row.Now != nil && row.Now.Value <= 0 {
			t.Errorf("%s: %v", row.What, row.Now)
		}
	}
}

func emulatedBy(card *sim.Card) Emulated {
	return Emulated{Target: card, Work: func() Work { return Work(card.Chip().Work()) }}
}
