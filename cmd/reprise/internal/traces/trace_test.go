package traces

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/deploy"
	"github.com/reprise-tt/reprise/sim"
)

// A trace is read from the DRAM of a device that another process has open. With another page size its
// pages are in another order, which is refused.
func TestReadTraceFromLiveDevice(t *testing.T) {
	for _, card := range []*sim.Card{sim.Blackhole(), sim.Wormhole()} {
		t.Run(card.String(), func(t *testing.T) {
			ctx := context.Background()
			dev, err := reprise.Open(ctx, card)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close(ctx)
			net, err := digits.Trained()
			if err != nil {
				t.Fatal(err)
			}
			dep, err := deploy.New(ctx, dev, net, 16, dev.Grid())
			if err != nil {
				t.Fatal(err)
			}
			trace, err := dev.Queue(0).Capture(ctx, "digits", dep.Record)
			if err != nil {
				t.Fatal(err)
			}
			if err := dev.Queue(0).Wait(ctx); err != nil { // the trace is in DRAM
				t.Fatal(err)
			}
			found := 0
			for _, size := range []int{1024, 2048, 4096} {
				b, ch, err := readDRAM(ctx, card, trace.Parts()[0].Extents[0].Start, size, trace.Size()/size)
				if err != nil {
					continue // it would end beyond a bank
				}
				f := sourceFlags{Revision: cq.Pinned}
				parts, err := f.inspect(cq.Layout(ch.Arch()), b)
				if err != nil {
					continue
				}
				found++
				c := parts[0]
				if got, want := len(c.Steps), len(trace.Parts()[0].Steps); got != want {
					t.Errorf("%d programs, want %d", got, want)
				}
				for i, s := range trace.Parts()[0].Steps {
					if c.Steps[i].Offset != s.Offset || c.Steps[i].Size != s.Size {
						t.Errorf("program %d: %+v, recorded as %+v", i, c.Steps[i], s)
					}
				}
				var own, read strings.Builder
				found, err := trace.Debug().Inspect(t.Context())
				if err := errors.Join(err, trace.Debug().Verify(t.Context())); err != nil {
					t.Fatal(err)
				}
				recorded := found[0]
				c.Steps, recorded.Steps = nil, nil // their names are lines of their own
				if err := errors.Join(c.Print(&read), recorded.Print(&own)); err != nil {
					t.Fatal(err)
				}
				if own.String() != read.String() {
					t.Error("the commands in DRAM aren't those that were recorded")
				}
			}
			if found != 1 {
				t.Errorf("%d sizes of pages give a trace, want 1", found)
			}
		})
	}
}
