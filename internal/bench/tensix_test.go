package bench

import (
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim"
)

// With every check of the emulator.
func TestTileOperationsCompute(t *testing.T) {
	effort.Long(t)
	for arch, device := range map[chip.Arch]func(...sim.Option) *sim.Card{chip.Wormhole: sim.Wormhole, chip.Blackhole: sim.Blackhole} {
		t.Run(arch.String(), func(t *testing.T) {
			r := runFamily(t, "tensix", Config{Target: device(sim.Strict(1)), Against: &Against{Target: device(), Name: "the other"}})
			found := map[string]*report.Figure{}
			for _, f := range r.Figures {
				found[f.ID()] = f
			}
			for _, op := range tileOperations {
				id := fmt.Sprintf("tensix/tile/op=%s", op.name)
				if f := found[id]; f == nil || len(f.Ratios) > 1 || len(f.Ratios) == 1 && f.Ratios[0].To != "the other" {
					t.Errorf("%s: %+v", id, f)
				}
				if found[id+"/device=the other"] == nil {
					t.Errorf("%s isn't measured of the other device", id)
				}
			}
		})
	}
}
