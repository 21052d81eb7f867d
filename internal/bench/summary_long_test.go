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
	r := runFamily(t, Summarized, Config{
		Target: sim.Wormhole(), Mesh: mesh.Cards(m.Cards()...),
		CountTarget: sim.Wormhole(sim.Synchronous(), sim.Seed(1)),
		Emulated:    func() *sim.Card { return sim.Wormhole() },
		Parallel:    sim.Wormhole(sim.Parallel()),
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
