package reprise_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// chain is a trace that adds 1 in each of n programs, from buffer to buffer and back.
func (b *bench) chain(n int) (t *reprise.Trace, bufs [2]*reprise.Buffer) {
	b.Helper()
	bufs = [2]*reprise.Buffer{b.pages("even", 2), b.pages("odd", 2)}
	x := []*reprise.Executable{
		b.load(b.adder("to odd", chip.Core{X: 1}, bufs[0], bufs[1], 1)),
		b.load(b.adder("to even", chip.Core{X: 2}, bufs[1], bufs[0], 1)),
	}
	t, err := b.queue.Capture(b.ctx, "chain", func(_ context.Context, r *reprise.Recorder) error {
		var errs []error
		for i := range n {
			errs = append(errs, r.Run(x[i%2]))
		}
		return errors.Join(append(errs, r.Param("last", addend))...)
	})
	b.must(err)
	return t, bufs
}

// A difference that a second run of the programs doesn't show is an error without a program.
func TestCheckOfWhatHappensOnce(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, hidden, seen := b.pages("in", 1), b.pages("hidden", 1), b.pages("seen", 1)
		once, other := b.adder("once", chip.Core{}, in, hidden, 0), b.adder("again", chip.Core{X: 3}, hidden, seen, 0)
		before := b.allocated()
		once.Buffers, other.Buffers = nil, []*reprise.Buffer{seen}
		b.write(in, 50)
		b.write(hidden, 0)
		y, z := b.load(other), b.load(once)
		trace := b.capture("lost", y, z)
		var ce *debug.CheckError
		if err := trace.Debug().Check(b.ctx); !errors.As(err, &ce) || ce.Step != -1 || ce.Buffer != "seen" {
			b.Errorf("error %v, want a *CheckError for no step", err)
		}
		b.must(errors.Join(trace.Release(b.ctx), y.Release(b.ctx), z.Release(b.ctx)))
		if diff := cmp.Diff(before, b.allocated()); diff != "" {
			b.Errorf("something is left (-before +after):\n%s", diff)
		}
	})
}

// A trace of the second queue can be stepped through as one of the first. Meanwhile the first queue
// runs nothing on the same workers.
func TestStepOnSecondQueue(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithQueues(2))
	q := b.dev.Queue(1)
	in, out := b.pages("in", 2), b.pages("out", 2)
	x, other := b.load(b.adder("x", chip.Core{X: 2}, in, out, 1)), b.load(b.blank("other", chip.Single(1, 0)))
	r, err := q.Begin("second")
	b.must(err)
	b.must(errors.Join(q.Run(b.ctx, x), r.Param("addend", addend), b.queue.Wait(b.ctx), q.Run(b.ctx, x)))
	trace, err := r.End(b.ctx)
	b.must(err)
	b.write(in, 5)
	b.must(errors.Join(b.queue.Run(b.ctx, other), b.queue.Wait(b.ctx), trace.Set("addend", 9)))
	steps := 0
	b.must(trace.Debug().Step(b.ctx, func(i int) error {
		steps++
		b.holds(out, []uint32{14, 6}[i])
		if err := b.queue.Run(b.ctx, other); !errors.Is(err, reprise.ErrReserved) {
			t.Errorf("queue 0 beside a step: %v", err)
		}
		return b.queue.Wait(b.ctx)
	}))
	if steps != 2 {
		t.Errorf("%d steps", steps)
	}
	b.must(errors.Join(b.queue.Run(b.ctx, other), b.queue.Wait(b.ctx), trace.Replay(b.ctx), trace.Release(b.ctx)))
}

// A Check after a replay that is still running on another queue leaves that replay's results alone.
func TestCheckBehindReplay(t *testing.T) {
	left, right := chip.Range{End: chip.Core{X: 3, Y: 3}}, chip.Range{Start: chip.Core{X: 4}, End: chip.Core{X: 7, Y: 3}}
	b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right))
	q0, q1 := b.dev.Queue(0), b.dev.Queue(1)
	in, mid, out, far, word := b.pages("in", 4), b.pages("mid", 4), b.pages("out", 4), b.pages("far", 4), b.word()
	a0, a1 := b.load(b.adder("a0", chip.Core{X: 0}, in, mid, 1)), b.load(b.adder("a1", chip.Core{X: 4}, far, out, 100))
	wait := b.spin("wait", word, chip.BRISC, chip.Single(4, 0))
	both, err := captureQueues(b.ctx, "both", []*reprise.Queue{q0, q1}, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(a0), rs[1].Run(wait), rs[1].Run(a1))
	})
	b.must(err)
	b.write(in, 1)
	b.write(mid, 0)
	b.write(far, 5)
	b.write(out, 0)
	b.must(q0.Wait(b.ctx))
	b.must(both.Replay(b.ctx))
	done := make(chan error)
	go func() { done <- both.Debug().Check(b.ctx) }()
	time.Sleep(50 * time.Millisecond) // for Check to begin
	b.letGo(q0, word)
	b.must(<-done)
	b.must(q1.Wait(b.ctx))
	b.holds(out, 105)
}
