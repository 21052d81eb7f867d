package measures

import (
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// What is counted for the summary are the three processors of the first queue, on both architectures: each executes something for
// a program that runs, and none after it.
func TestQueueExecuted(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		t.Run(arch.String(), func(t *testing.T) {
			ctx := t.Context()
			card := sim.Blackhole(sim.Synchronous(), sim.Seed(1))
			if arch == chip.Wormhole {
				card = sim.Wormhole(sim.Synchronous(), sim.Seed(1))
			}
			d, err := reprise.Open(ctx, card)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close(ctx)
			queueExecuted(card) // from here on
			im, err := kernels.Prebuilt(arch, kernels.Blank)
			if err != nil {
				t.Fatal(err)
			}
			x, err := d.Load(ctx, &reprise.Program{Name: "nothing", Kernels: []reprise.Kernel{{
				Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Queue(0).Run(ctx, x); err != nil {
				t.Fatal(err)
			}
			if err := d.Queue(0).Wait(ctx); err != nil {
				t.Fatal(err)
			}
			ran := queueExecuted(card)
			for i, n := range ran {
				if n == 0 {
					t.Errorf("%s executed nothing", []string{"prefetcher", "dispatcher", "subordinate"}[i])
				}
			}
			if again := queueExecuted(card); again != ran {
				t.Errorf("%v without work, after %v", again, ran)
			}
		})
	}
}
