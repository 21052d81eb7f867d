package measures

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func TestQueueExecuted(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		t.Run(arch.String(), func(t *testing.T) {
			ctx := t.Context()
			card := sim.Blackhole(sim.Synchronous(), sim.Seed(1))
			if arch == chip.Wormhole {
				card = sim.Wormhole(sim.Synchronous(), sim.Seed(1))
			}
			d, err := reprise.Open(ctx, card)
			devtest.Must(t, err)
			defer d.Close(ctx)
			card.Chip().QueueExecuted() // from here on
			im, err := kernels.Prebuilt(arch, kernels.Blank)
			devtest.Must(t, err)
			x, err := d.Load(ctx, &reprise.Program{Name: "nothing", Kernels: []reprise.Kernel{{
				Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
			}}})
			devtest.Must(t, err)
			devtest.Must(t, errors.Join(d.Queue(0).Run(ctx, x), d.Queue(0).Wait(ctx)))
			ran := card.Chip().QueueExecuted()
			for i, n := range ran {
				if n == 0 {
					t.Errorf("%s executed nothing", []string{"prefetcher", "dispatcher", "subordinate"}[i])
				}
			}
			if again := card.Chip().QueueExecuted(); again != ran {
				t.Errorf("%v without work, after %v", again, ran)
			}
		})
	}
}
