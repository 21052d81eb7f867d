package reprise_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

// After a hang every use of the queue fails with the same cause, until Recover brings everything
// back. That can be repeated.
func TestRecoverFromAHungKernel(t *testing.T) {
	b := open(t, sim.Blackhole(), short)
	word, r := b.word(), newRig(b)
	forever := b.spin("forever", word, chip.BRISC, chip.Single(0, 0), chip.Single(3, 3))
	r.before = b.allocated()
	for range 2 {
		b.must(b.queue.Write(b.ctx, word, 0, make([]byte, word.Size())))
		b.must(b.queue.Run(b.ctx, forever))
		b.must(r.trace.Replay(b.ctx))
		h := b.hang(b.queue.Wait(b.ctx))
		for what, err := range map[string]error{
			"write":  b.queue.Write(b.ctx, r.in, 0, make([]byte, 64)),
			"read":   b.queue.Read(b.ctx, r.in, 0, make([]byte, 64)),
			"run":    b.queue.Run(b.ctx, r.first),
			"replay": r.trace.Replay(b.ctx),
			"wait":   b.queue.Wait(b.ctx),
		} {
			var again *dispatch.HangError
			if !errors.As(err, &again) || again != h {
				b.Errorf("%s after a hang: %v, want the hang", what, err)
			}
		}
		r.recovers()
	}
}

// A dispatcher that somebody holds in reset is named in the report, and brought back.
func TestRecoverFromAHeldDispatcher(t *testing.T) {
	target := sim.Wormhole()
	b := open(t, target, short)
	r := newRig(b)
	other, err := kmd.Open(b.ctx, target)
	b.must(err)
	defer func() { b.must(other.Close()) }()
	c, err := chip.New(b.dev.Arch(), chip.Harvesting{})
	b.must(err)
	_, h := c.Grid()
	core, err := c.Virtual(chip.Core{X: 1, Y: h - 1}) // the second core of the last row, the first queue's dispatcher
	b.must(err)
	reg := uint64(b.dev.Arch().Params().SoftReset)
	held, err := other.Read32(core, reg)
	b.must(err)
	b.must(other.Write32(core, reg, held|1<<11)) // BRISC
	b.must(r.trace.Replay(b.ctx))
	hang := b.hang(b.queue.Wait(b.ctx))
	b.says(errors.New(strings.ReplaceAll(hang.Detail(), "\n", " ")), "(dispatch): held in reset: BRISC")
	r.recovers()
}
