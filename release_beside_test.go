package reprise_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// A trace that calls another may be released while it is replayed: the replay is done, or says that
// the trace is gone.
func TestReplayBesideRelease(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := b.load(b.blank("blank", chip.Single(0, 0)))
	for range 20 {
		inner := b.capture("inner", x)
		outer := b.captureFlow(func(r *reprise.Recorder) error { return r.Call(inner) })
		replayed := make(chan error)
		go func() {
			for {
				if err := outer.Replay(b.ctx); err != nil {
					replayed <- err
					return
				}
			}
		}()
		b.must(outer.Release(b.ctx))
		if err := <-replayed; !errors.Is(err, reprise.ErrReleased) {
			t.Fatalf("replayed beside its release: %v, want ErrReleased", err)
		}
		b.must(inner.Release(b.ctx))
	}
}

// While a program's release waits for the queues, a run of the program ends with its context; and a
// release ends with its own while a run waits for room in a queue.
func TestReleaseOfAProgramHoldsUpNobody(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	word := b.word()
	spin := b.spin("spin", word, chip.BRISC, chip.Single(0, 0))
	x := b.load(b.blank("blank", chip.Single(0, 0)))
	b.must(b.queue.Run(b.ctx, spin)) // until the end of the test no queue is done

	ctx, cancel := context.WithCancel(b.ctx)
	released := make(chan error)
	go func() { released <- x.Release(ctx) }()
	time.Sleep(20 * time.Millisecond) // it waits
	ran := make(chan error)
	go func() { ran <- b.queue.Run(b.ends(), x) }()
	select {
	case err := <-ran:
		if err != nil && !errors.Is(err, reprise.ErrReleased) && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the run waits for the release")
	}
	cancel()
	if err := <-released; !errors.Is(err, context.Canceled) {
		t.Fatalf("release: %v, want context.Canceled", err)
	}

	full, stop := context.WithCancel(b.ctx)
	var runs atomic.Int64
	go func() {
		for {
			if err := b.queue.Run(full, x); err != nil {
				ran <- err
				return
			}
			runs.Add(1)
		}
	}()
	for before := int64(-1); runs.Load() != before; time.Sleep(20 * time.Millisecond) { // until the queue is full
		before = runs.Load()
	}
	if err := x.Release(b.ends()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("release beside a run that waits for room: %v, want its deadline", err)
	}
	stop()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v, want context.Canceled", err)
	}
	b.letGo(b.dev.Queue(1), word)
	b.must(x.Release(b.ctx))
}
