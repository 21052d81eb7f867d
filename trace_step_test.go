package reprise_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

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
	time.Sleep(50 * time.Millisecond)
	b.letGo(q0, word)
	b.must(<-done)
	b.must(q1.Wait(b.ctx))
	b.holds(out, 105)
}

func TestInsideOfSteps(t *testing.T) {
	b := split(t, sim.Blackhole())
	q := []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}
	x, y, z := b.pages("x", 2), b.pages("y", 2), b.pages("z", 2)
	there, back := b.load(b.adder("there", chip.Core{X: 1}, x, y, 1)), b.load(b.adder("back", chip.Core{X: 5, Y: 1}, y, z, 2))
	e := b.dev.NewEvent("there")
	trace, err := captureQueues(b.ctx, "both", q, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(there), rs[0].Param("addend", addend), rs[0].Record(e), rs[1].WaitEvent(e), rs[1].Run(back))
	})
	b.must(err)
	before, d := b.allocated(), trace.Debug()
	b.write(x, 10)
	b.must(q[0].Wait(b.ctx))
	calls := 0
	look := func() error {
		calls++
		released := make(chan error)
		go func() { released <- trace.Release(b.ctx) }()
		for op, err := range map[string]error{
			"replay": trace.Replay(b.ctx), "release": trace.Release(b.ctx), "step": d.Step(b.ctx, nil), "split": d.Split(b.ctx, 1, nil),
			"check": d.Check(b.ctx), "bisect": second(d.Bisect(b.ctx, nil, nil)), "another goroutine's release": <-released,
		} {
			if !errors.Is(err, reprise.ErrReserved) {
				t.Errorf("%s from inside: %v, want ErrReserved", op, err)
			}
		}
		if err := d.CheckResults(b.ctx); !errors.Is(err, debug.ErrNoResults) {
			t.Errorf("check results from inside: %v, want ErrNoResults", err)
		}
		return errors.Join(trace.Save(b.ctx, io.Discard), d.Verify(b.ctx))
	}
	b.must(d.Step(b.ctx, func(int) error { return look() }))
	b.holds(z, 13)
	b.must(d.Split(b.ctx, 2, func(int, int) error { return look() }))
	step, err := d.Bisect(b.ctx, func(int) error { return look() }, func(int) (bool, error) { return true, look() })
	b.must(err)
	if step != -1 || calls != 6 {
		t.Errorf("%d calls, step %d", calls, step)
	}
	b.must(errors.Join(trace.Set("addend", 5), trace.Replay(b.ctx), q[1].Wait(b.ctx)))
	b.holds(z, 17)
	if diff := cmp.Diff(before, b.allocated()); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
	for op, err := range map[string]error{
		"step":  d.Step(b.ctx, func(int) error { return b.dev.Recover(b.ctx) }),
		"split": d.Split(b.ctx, 2, func(int, int) error { return b.dev.Recover(b.ctx) }),
	} {
		var at *debug.StepError
		if !errors.As(err, &at) || at.First != 0 || !errors.Is(err, reprise.ErrRecovering) {
			t.Errorf("%s, recovered from inside: %v", op, err)
		}
	}
	b.write(x, 10)
	b.must(errors.Join(q[0].Wait(b.ctx), trace.Replay(b.ctx), q[1].Wait(b.ctx)))
	b.holds(z, 17)
	b.must(trace.Release(b.ctx))
	if err := d.Step(b.ctx, nil); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("stepped after the release: %v", err)
	}
}

func TestCloseInsideOfSteps(t *testing.T) {
	onEmulators(t, func(b *bench) {
		trace, _ := b.chain(3)
		steps := 0
		err := trace.Debug().Step(b.ctx, func(int) error {
			steps++
			return b.dev.Close(t.Context())
		})
		if !errors.Is(err, reprise.ErrClosed) || steps != 1 {
			b.Errorf("%d steps, %v, want ErrClosed", steps, err)
		}
	})
}

func TestReleaseWaitsForOthers(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.load(b.blank("blank", chip.Single(0, 0)))
	trace := b.capture("t", x)
	r, w := make(chan struct{}), make(chan struct{})
	saved := make(chan error)
	go func() { saved <- trace.Save(b.ctx, stopper{r, w}) }()
	<-r
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	err := trace.Release(ctx)
	b.says(err, `release trace "t": it is in use`, "call Release again")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if err := trace.Debug().Verify(b.ctx); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("verified while it is released: %v", err)
	}
	released := make(chan error)
	go func() { released <- trace.Release(b.ctx) }()
	close(w)
	b.must(errors.Join(<-saved, <-released))
	if err := trace.Release(b.ctx); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("released twice: %v", err)
	}
}

type stopper struct{ in, out chan struct{} }

func (s stopper) Write(p []byte) (int, error) {
	select {
	case s.in <- struct{}{}:
	case <-s.out:
	}
	<-s.out
	return len(p), nil
}
