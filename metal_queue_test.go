package reprise_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// tt-metal's command-queue firmware replays a trace of 100 programs on the workers of this
// runtime's own firmware, hands its result to the other queue by an event, and does so again after
// a recovery.
func TestQueueFirmware(t *testing.T) {
	if len(queueFirmware) == 0 {
		t.Skip("no -metal-queues DIR: folders with command-queue firmware of two queues that tt-metal built")
	}
	for arch, q := range queueFirmware {
		if q.Base.Layout.L1.Go != abi.Own(arch).L1.Go {
			t.Skipf("queues of %v don't drive this runtime's own workers", q.Base.Layout.Revision)
		}
	}
	onAll(t, func(b *bench) {
		const programs = 100
		in, out, copied := b.pages("in", 8), b.pages("out", 8), b.pages("copied", 8)
		var xs []*reprise.Executable
		for i := range programs - 1 {
			x, y := i%7, i/7%6
			xs = append(xs, b.load(b.blank(fmt.Sprint("blank ", i), chip.Range{End: chip.Core{X: x, Y: y}})))
		}
		trace := b.capture("100 programs", append(xs, b.load(b.adder("last", chip.Core{X: 3, Y: 2}, in, out, 7)))...)
		other, after := b.dev.Queue(1), b.load(b.adder("after", chip.Core{X: 1}, out, copied, 100))
		done := b.dev.NewEvent("done")
		for round := range uint32(2) {
			for i := range uint32(3) {
				b.write(in, 10*i+round)
				b.must(trace.Replay(b.ctx))
				b.must(b.queue.Record(b.ctx, done))
				b.must(other.WaitEvent(b.ctx, done))
				b.must(other.Run(b.ctx, after))
				b.must(other.Wait(b.ctx))
				b.holds(out, 10*i+round+7)
				b.holds(copied, 10*i+round+107)
			}
			if round == 0 {
				b.must(b.dev.Recover(context.WithoutCancel(b.ctx)))
			}
		}
	}, reprise.WithQueues(2))
}
