package reprise_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/sim"
)

// What doesn't get into a full queue takes no workers from anybody: the queue that had them goes on
// without asking.
func TestWhatIsNotSubmittedTakesNoWorkers(t *testing.T) {
	for _, target := range []*sim.Card{sim.Blackhole()} {
		t.Run(target.String(), func(t *testing.T) {
			b := open(t, target, reprise.WithQueues(2), reprise.WithQueueMemory(1<<20), reprise.WithHangTimeout(300*time.Millisecond))
			q0, q1 := b.dev.Queue(0), b.dev.Queue(1)
			word := b.word()
			one, two := b.load(b.blank("one", chip.Single(0, 0))), b.load(b.blank("two", chip.Single(1, 1)))
			tr, err := q1.Capture(b.ctx, "tr", record(two))
			b.must(err)
			x := b.load(b.adder("x", chip.Core{X: 2}, b.pages("in", 1), b.pages("out", 1), 1))
			named, err := q1.Capture(b.ctx, "named", func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Param("addend", addend))
			})
			b.must(err)
			e := b.dev.NewEvent("e")
			b.must(errors.Join(q0.Wait(b.ctx), q1.Wait(b.ctx)))
			b.must(q0.Run(b.ctx, b.spin("spin", word, chip.BRISC, chip.Single(0, 0))))
			b.must(q0.Record(b.ctx, e))
			b.must(q1.WaitEvent(b.ctx, e))
			never, cancel := context.WithCancel(b.ctx)
			cancel()
			much := b.pages("much", 1000)
			for full := false; !full; { // until the device takes nothing more, neither much nor the smallest command
				full = true
				for _, put := range []func() error{
					func() error { return q1.Write(never, much, 0, make([]byte, much.Size())) },
					func() error { return q1.WaitEvent(never, e) },
				} {
					for err = put(); err == nil; err = put() {
						full = false
					}
					if !errors.Is(err, context.Canceled) {
						b.must(err)
					}
				}
				if err := q1.WaitFunc(b.ctx, func() bool { return false }); !errors.Is(err, reprise.ErrTimeout) {
					b.must(err)
				}
			}
			b.must(named.Set("addend", 2))
			for what, do := range map[string]func() error{
				"run":            func() error { return q1.Run(never, two) },
				"replay":         func() error { return tr.Replay(never) },
				"changed replay": func() error { return named.Replay(never) },
			} {
				if err := do(); !errors.Is(err, context.Canceled) {
					b.Errorf("%s: %v, want %v", what, err, context.Canceled)
				}
			}
			if err := q0.Run(b.ctx, one); err != nil {
				b.Errorf("the owner: %v", err)
			}
			poke(b, target, chip.Core{}, word.Addr(), 1) // both queues stand still
			b.must(errors.Join(q0.Wait(b.ctx), q1.Run(b.ctx, two), tr.Replay(b.ctx), q1.Wait(b.ctx)))
		})
	}
}

// Worker sets are equal or apart; everything else is refused when the device is opened.
func TestQueueWorkersThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []reprise.Option
		says []string
	}{
		{"overlap", []reprise.Option{reprise.WithQueueWorkers(0, chip.Grid(4, 4)), reprise.WithQueueWorkers(1, chip.Range{Start: chip.Core{X: 3, Y: 3}, End: chip.Core{X: 5, Y: 5}})}, []string{"queue 0 uses the workers", "which overlap", "equal or apart"}},
		{"one of two", []reprise.Option{reprise.WithQueueWorkers(1, chip.Single(0, 0))}, []string{"queue 0 uses the workers", "queue without any uses the whole grid"}},
		{"outside", []reprise.Option{reprise.WithQueueWorkers(0, chip.Grid(40, 2)), reprise.WithQueueWorkers(1, chip.Single(0, 5))}, []string{"not a rectangle inside the worker grid"}},
		{"backwards", []reprise.Option{reprise.WithQueueWorkers(0, chip.Range{Start: chip.Core{X: 2}})}, []string{"not a rectangle inside the worker grid"}},
		{"no such queue", []reprise.Option{reprise.WithQueueWorkers(2, chip.Single(0, 0))}, []string{"given to queue 2", "has 2 queues"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{T: t, ctx: t.Context()}
			d, err := reprise.Open(b.ctx, sim.Blackhole(), append([]reprise.Option{reprise.WithQueues(2)}, tt.opts...)...)
			if err == nil {
				b.must(d.Close(t.Context()))
			}
			b.says(err, append([]string{"reprise: open"}, tt.says...)...)
		})
	}
}

// What would wait for ever is an error at the call, which names both calls.
func TestWaitsThatNothingEnds(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	other := open(t, sim.Wormhole())
	e, foreign := b.dev.NewEvent("never"), other.dev.NewEvent("foreign")
	for what, err := range map[string]error{
		`reprise: wait: dispatch: queue 1: wait for event "never" at event_test.go:`: b.dev.Queue(1).WaitEvent(b.ctx, e),
		`reprise: synchronize: dispatch: synchronize with event "never" at event_t`:  e.Wait(b.ctx),
		`reprise: query: dispatch: query event "never" at event_test.go:`:            second(e.Query()),
	} {
		var ee *dispatch.EventError
		if !errors.Is(err, dispatch.ErrNotRecorded) || !errors.As(err, &ee) || ee.Event != "never" || ee.Recorder != -1 {
			t.Errorf("%s: %v", what, err)
		}
		b.says(err, what, "never recorded")
	}
	for what, err := range map[string]error{
		"record": b.queue.Record(b.ctx, foreign), "wait": b.queue.WaitEvent(b.ctx, foreign),
	} {
		if !errors.Is(err, reprise.ErrWrongDevice) {
			t.Errorf("%s a foreign event: %v", what, err)
		}
	}
	b.says(b.queue.Record(b.ctx, nil), "reprise: record: no event")
	b.says((*reprise.Event)(nil).Wait(b.ctx), "reprise: synchronize: no event")
	b.must(b.queue.Record(b.ctx, e))
	b.must(b.queue.WaitEvent(b.ctx, e)) // on its own queue: nothing to wait for
	b.must(e.Wait(b.ctx))
}

// A recovery loses recordings that weren't done, and keeps those that were.
func TestEventsOverARecovery(t *testing.T) {
	onEmulators(t, func(b *bench) {
		word := b.word()
		done, lost := b.dev.NewEvent("done"), b.dev.NewEvent("lost")
		b.must(b.queue.Record(b.ctx, done))
		b.must(done.Wait(b.ctx))
		b.must(b.queue.Run(b.ctx, b.spin("spin", word, chip.BRISC, chip.Single(0, 0))))
		b.must(b.queue.Record(b.ctx, lost))
		if is, err := lost.Query(); is || err != nil {
			b.Errorf("query before it is done: %v, %v", is, err)
		}
		b.must(b.dev.Queue(1).WaitEvent(b.ctx, lost))
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		if err := lost.Wait(ctx); !errors.Is(err, context.Canceled) {
			b.Errorf("synchronize: %v, want %v", err, context.Canceled)
		}
		b.must(b.dev.Recover(b.ctx))
		err := b.dev.Queue(1).WaitEvent(b.ctx, lost)
		if !errors.Is(err, dispatch.ErrLost) || !errors.Is(err, reprise.ErrRecovering) {
			b.Errorf("wait for a lost recording: %v", err)
		}
		b.says(err, `queue 1: wait for event "lost" at event_test.go:`, "recorded on queue 0 at event_test.go:", "record it again")
		if err := second(lost.Query()); !errors.Is(err, reprise.ErrRecovering) {
			b.Errorf("query of a lost recording: %v", err)
		}
		b.must(b.dev.Queue(1).WaitEvent(b.ctx, done))
		if is, err := done.Query(); !is || err != nil {
			b.Errorf("query of what was done before: %v, %v", is, err)
		}
		b.must(b.queue.Record(b.ctx, lost))
		b.must(b.dev.Queue(1).WaitEvent(b.ctx, lost))
		b.must(b.dev.Queue(1).Run(b.ctx, b.load(b.blank("blank", chip.Single(0, 0)))))
		b.must(b.dev.Queue(1).Wait(b.ctx))
	}, reprise.WithQueues(2))
}

// A device is closed with more reports on their way than the completion queue holds: they must be
// taken out, or the dispatcher never ends, nor does Close.
func TestCloseWithRecordingsUnread(t *testing.T) {
	onEmulators(t, func(b *bench) {
		e := b.dev.NewEvent("e")
		release := b.word()
		b.must(b.dev.Queue(0).Wait(b.ctx))
		b.must(b.dev.Queue(1).Run(b.ctx, b.spin("spin", release, chip.BRISC, chip.Single(0, 0))))
		for range 400 {
			b.must(b.dev.Queue(1).Record(b.ctx, e))
		}
		b.must(b.dev.Queue(0).Write(b.ctx, release, 0, words(release.Size(), 1)))
		b.must(b.dev.Queue(0).WaitEvent(b.ctx, e))
		b.must(b.dev.Close(t.Context()))
	}, reprise.WithQueues(2), reprise.WithQueueMemory(1<<20), reprise.WithHangTimeout(time.Second))
}

// A recording on a queue that has stopped for good is no use to wait for: the error says why, and
// names both calls.
func TestWaitForAStoppedQueue(t *testing.T) {
	onEmulators(t, func(b *bench) {
		e := b.dev.NewEvent("e")
		b.must(b.queue.Run(b.ctx, b.spin("spin", b.word(), chip.BRISC, chip.Single(0, 0))))
		b.must(b.queue.Record(b.ctx, e))
		b.hang(b.queue.Wait(b.ctx))
		err := b.dev.Queue(1).WaitEvent(b.ctx, e)
		b.hang(err)
		var ee *dispatch.EventError
		if !errors.As(err, &ee) || ee.Queue != 1 || ee.Recorder != 0 || ee.Event != "e" {
			b.Errorf("error %v, want an *EventError", err)
		}
		b.says(err, `queue 1: wait for event "e" at event_test.go:`, "recorded on queue 0 at event_test.go:", "queue 0 hangs")
		if done, err := e.Query(); done || err == nil {
			b.Errorf("query: %v, %v", done, err)
		}
		b.must(b.dev.Queue(1).Wait(b.ctx)) // it isn't held up
		b.must(b.dev.Recover(b.ctx))
	}, reprise.WithQueues(2), reprise.WithHangTimeout(300*time.Millisecond))
}
