package sim_test

import (
	"testing"

	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim"
)

func TestTopologyIsCleanOnStrictMachines(t *testing.T) {
	for _, m := range []*sim.Machine{
		sim.N300(sim.Strict(3)), sim.T3000(sim.Strict(5), sim.Synchronous()), sim.QuietBox(sim.Strict(4), sim.Synchronous()),
	} {
		machine(t, m)
		var ds []*kmd.Device
		for _, c := range m.Cards() {
			ds = append(ds, open(t, c))
		}
		g, err := topology.Discover(t.Context(), ds)
		if err != nil || len(g.Degraded()) != 0 || len(g.Links) != len(m.Spec().Links) {
			t.Errorf("%v: %d links, %v, %v", m, len(g.Links), g.Degraded(), err)
		}
		for i := range m.Spec().Chips {
			if err := m.Chip(i).Fault(); err != nil {
				t.Errorf("%v: chip %d: %v", m, i, err)
			}
		}
	}
}
