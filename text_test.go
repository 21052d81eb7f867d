package reprise_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// A trace brings the kernels of a program when it runs first, and not again; the queue that replays
// it, whose own programs lie in the same memory, brings its own anew. All compute what they should.
func TestKernelsAreSentOnce(t *testing.T) {
	onAll(t, func(b *bench) {
		trace, bufs := b.chain(8)
		var sizes []int
		for _, s := range trace.Parts()[0].Steps {
			sizes = append(sizes, s.Size)
		}
		if sizes[0] <= sizes[2] || sizes[1] <= sizes[3] {
			b.Errorf("steps of %d B: the first two should be longer", sizes)
		}
		for i := 4; i < 8; i++ {
			if sizes[i] != sizes[i-2] {
				b.Errorf("steps of %d B: from the third on all should be short", sizes)
			}
		}
		var text strings.Builder
		b.must(trace.Print(&text))
		if n := strings.Count(text.String(), "type=binaries"); n != 2 {
			b.Errorf("the trace brings kernels %d times, want 2:\n%s", n, text.String())
		}
		eager := b.load(b.adder("eager", chip.Core{X: 1}, bufs[0], bufs[1], 100))
		for range 3 {
			b.write(bufs[0], 1)
			b.must(trace.Replay(b.ctx))
			b.holds(bufs[0], 9)
			b.must(b.queue.Run(b.ctx, eager))
			b.must(b.queue.Run(b.ctx, eager))
			b.holds(bufs[1], 109)
		}
	})
}

// The stock wire format has one command of the dispatcher in each relay, its go signals pass
// through the prefetcher, and it computes the same; the form of this runtime is shorter.
func TestStockWireFormat(t *testing.T) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) {
			var sizes []int
			for _, opts := range [][]reprise.Option{nil, {reprise.WithStockWireFormat()}} {
				b := open(t, card, opts...)
				trace, bufs := b.chain(6)
				b.write(bufs[0], 7)
				b.must(trace.Replay(b.ctx))
				b.holds(bufs[0], 13)
				var text strings.Builder
				b.must(trace.Print(&text))
				got := map[string]bool{}
				for _, name := range []string{"SEQUENCE", "FORWARD_SUBORDINATE", "NOTIFY_SUBORDINATE_GO_SIGNAL", "dispatch_s  SEND_GO_SIGNAL"} {
					got[name] = strings.Contains(text.String(), name)
				}
				own := opts == nil
				want := map[string]bool{"SEQUENCE": own, "FORWARD_SUBORDINATE": own, "NOTIFY_SUBORDINATE_GO_SIGNAL": !own,
					"dispatch_s  SEND_GO_SIGNAL": !own}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("pinned %v (-want +got):\n%s\n%s", !own, diff, text.String())
				}
				sizes = append(sizes, trace.Parts()[0].Steps[5].Size, trace.Parts()[0].ReplayBytes)
				b.must(b.dev.Close(t.Context()))
			}
			if sizes[0] >= sizes[2] || sizes[1] > sizes[3] {
				t.Errorf("a program and a replay have %d B, in the stock wire format %d B", sizes[:2], sizes[2:])
			}
		})
	}
}
