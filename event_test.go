package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim"
)

func TestWhatIsNotSubmittedTakesNoWorkers(t *testing.T) {
	target := sim.Blackhole()
	b := open(t, target, reprise.WithQueues(2), reprise.WithQueueMemory(1<<20), reprise.WithHangTimeout(300*time.Millisecond))
	q0, q1 := b.Dev.Queue(0), b.Dev.Queue(1)
	word := b.word()
	one, two := b.Load(b.blank("one", chip.Single(0, 0))), b.Load(b.blank("two", chip.Single(1, 1)))
	tr := value(q1.Capture(b.Ctx, "tr", record(two)))(b)
	x := b.Load(b.Adder("x", chip.Core{X: 2}, b.Pages("in", 1), b.Pages("out", 1), 1))
	named, err := q1.Capture(b.Ctx, "named", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.Param("addend", addend))
	})
	b.Must(err)
	e := b.Dev.NewEvent("e")
	b.Must(errors.Join(q0.Wait(b.Ctx), q1.Wait(b.Ctx)))
	b.Must(q0.Run(b.Ctx, b.spin("spin", word, chip.BRISC, chip.Single(0, 0))))
	b.Must(q0.Record(b.Ctx, e))
	b.Must(q1.WaitEvent(b.Ctx, e))
	never, cancel := context.WithCancel(b.Ctx)
	cancel()
	much := b.Pages("much", 1000)
	for full := false; !full; { // until the device takes nothing more, not even the smallest command
		full = true
		for _, put := range []func() error{
			func() error { return q1.Write(never, much, 0, make([]byte, much.Size())) },
			func() error { return q1.WaitEvent(never, e) },
		} {
			for err = put(); err == nil; err = put() {
				full = false
			}
			if !errors.Is(err, context.Canceled) {
				b.Must(err)
			}
		}
		if err := q1.WaitFunc(b.Ctx, func() bool { return false }); !errors.Is(err, reprise.ErrTimeout) {
			b.Must(err)
		}
	}
	b.Must(named.Set("addend", 2))
	for what, do := range map[string]func() error{
		"run":            func() error { return q1.Run(never, two) },
		"replay":         func() error { return tr.Replay(never) },
		"changed replay": func() error { return named.Replay(never) },
	} {
		b.fails(what, do(), context.Canceled)
	}
	expect.Fails(b, q0.Run(b.Ctx, one), nil, "the owner")
	poke(b, target, chip.Core{}, word.Addr(), 1)
	b.Must(errors.Join(q0.Wait(b.Ctx), q1.Run(b.Ctx, two), tr.Replay(b.Ctx), q1.Wait(b.Ctx)))
}

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
			b := &bench{&devtest.Bench{T: t, Ctx: t.Context()}}
			d, err := reprise.Open(b.Ctx, sim.Blackhole(), append([]reprise.Option{reprise.WithQueues(2)}, tt.opts...)...)
			if err == nil {
				b.Must(d.Close(t.Context()))
			}
			b.Says(err, append([]string{"reprise: open"}, tt.says...)...)
		})
	}
}

func TestWaitsThatNothingEnds(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	other := open(t, sim.Wormhole())
	e, foreign := b.Dev.NewEvent("never"), other.Dev.NewEvent("foreign")
	for what, err := range map[string]error{
		`reprise: wait: dispatch: queue 1: wait for event "never" at event_test.go:`: b.Dev.Queue(1).WaitEvent(b.Ctx, e),
		`reprise: synchronize: dispatch: synchronize with event "never" at event_t`:  e.Wait(b.Ctx),
		`reprise: query: dispatch: query event "never" at event_test.go:`:            second(e.Query()),
	} {
		var ee *dispatch.EventError
		if !errors.Is(err, dispatch.ErrNotRecorded) || !errors.As(err, &ee) || ee.Event != "never" || ee.Recorder != -1 {
			t.Errorf("%s: %v", what, err)
		}
		b.Says(err, what, "never recorded")
	}
	for what, err := range map[string]error{
		"record": b.Queue.Record(b.Ctx, foreign), "wait": b.Queue.WaitEvent(b.Ctx, foreign),
	} {
		b.fails(what+" a foreign event", err, reprise.ErrWrongDevice)
	}
	b.Says(b.Queue.Record(b.Ctx, nil), "reprise: record: no event")
	b.Says((*reprise.Event)(nil).Wait(b.Ctx), "reprise: synchronize: no event")
	b.Must(b.Queue.Record(b.Ctx, e))
	b.Must(b.Queue.WaitEvent(b.Ctx, e))
	b.Must(e.Wait(b.Ctx))
}

func TestEventsOverARecovery(t *testing.T) {
	onEmulators(t, func(b *bench) {
		word := b.word()
		done, lost := b.Dev.NewEvent("done"), b.Dev.NewEvent("lost")
		b.Must(b.Queue.Record(b.Ctx, done))
		b.Must(done.Wait(b.Ctx))
		b.Execute(b.spin("spin", word, chip.BRISC, chip.Single(0, 0)))
		b.Must(b.Queue.Record(b.Ctx, lost))
		if is, err := lost.Query(); is || err != nil {
			b.Errorf("query before it is done: %v, %v", is, err)
		}
		b.Must(b.Dev.Queue(1).WaitEvent(b.Ctx, lost))
		ctx, cancel := context.WithCancel(b.Ctx)
		cancel()
		b.fails("synchronize", lost.Wait(ctx), context.Canceled)
		b.Must(b.Dev.Recover(b.Ctx))
		err := b.Dev.Queue(1).WaitEvent(b.Ctx, lost)
		expect.Fails(b, err, dispatch.ErrLost, "error")
		expect.Fails(b, err, reprise.ErrRecovering, "error")
		b.Says(err, `queue 1: wait for event "lost" at event_test.go:`, "recorded on queue 0 at event_test.go:", "record it again")
		b.fails("query of a lost recording", second(lost.Query()), reprise.ErrRecovering)
		b.Must(b.Dev.Queue(1).WaitEvent(b.Ctx, done))
		if is, err := done.Query(); !is || err != nil {
			b.Errorf("query of what was done before: %v, %v", is, err)
		}
		b.Must(b.Queue.Record(b.Ctx, lost))
		b.Must(b.Dev.Queue(1).WaitEvent(b.Ctx, lost))
		b.Must(b.Dev.Queue(1).Run(b.Ctx, b.Load(b.blank("blank", chip.Single(0, 0)))))
		b.Must(b.Dev.Queue(1).Wait(b.Ctx))
	}, reprise.WithQueues(2))
}

func TestCloseWithRecordingsUnread(t *testing.T) {
	onEmulators(t, func(b *bench) {
		e := b.Dev.NewEvent("e")
		release := b.word()
		b.Must(b.Dev.Queue(0).Wait(b.Ctx))
		b.Must(b.Dev.Queue(1).Run(b.Ctx, b.spin("spin", release, chip.BRISC, chip.Single(0, 0))))
		for range 400 {
			b.Must(b.Dev.Queue(1).Record(b.Ctx, e))
		}
		b.Must(b.Dev.Queue(0).Write(b.Ctx, release, 0, words(release.Size(), 1)))
		b.Must(b.Dev.Queue(0).WaitEvent(b.Ctx, e))
		b.Must(b.Dev.Close(t.Context()))
	}, reprise.WithQueues(2), reprise.WithQueueMemory(1<<20), reprise.WithHangTimeout(time.Second))
}

func TestWaitForAStoppedQueue(t *testing.T) {
	onEmulators(t, func(b *bench) {
		e := b.Dev.NewEvent("e")
		b.Execute(b.spin("spin", b.word(), chip.BRISC, chip.Single(0, 0)))
		b.Must(b.Queue.Record(b.Ctx, e))
		b.hang(b.Queue.Wait(b.Ctx))
		err := b.Dev.Queue(1).WaitEvent(b.Ctx, e)
		b.hang(err)
		var ee *dispatch.EventError
		if !errors.As(err, &ee) || ee.Queue != 1 || ee.Recorder != 0 || ee.Event != "e" {
			b.Errorf("error %v, want an *EventError", err)
		}
		b.Says(err, `queue 1: wait for event "e" at event_test.go:`, "recorded on queue 0 at event_test.go:", "queue 0 hangs")
		if done, err := e.Query(); done || err == nil {
			b.Errorf("query: %v, %v", done, err)
		}
		b.Must(b.Dev.Queue(1).Wait(b.Ctx)) // it isn't held up
		b.Must(b.Dev.Recover(b.Ctx))
	}, reprise.WithQueues(2), reprise.WithHangTimeout(300*time.Millisecond))
}

func TestAwait(t *testing.T) {
	onEmulators(t, func(b *bench) {
		// Each counts 10 ms on a slow machine.
		const sleeps = 70
		looks := 0
		b.Must(b.Queue.WaitFunc(b.Ctx, func() bool { looks++; return looks > sleeps }))
		never := func() bool { return false }
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(b.Ctx)
		looks = 0
		enough := func() bool {
			if looks++; looks > sleeps {
				cancel(why)
			}
			return false
		}
		b.fails("error", b.Queue.WaitFunc(ctx, enough), why)
		err := b.Queue.WaitFunc(b.Ctx, never)
		var hang *dispatch.HangError
		if !errors.Is(err, reprise.ErrTimeout) || errors.As(err, &hang) {
			b.Errorf("error %v, want %v and no hang", err, reprise.ErrTimeout)
		}
		b.Wait()
		b.Must(b.Dev.Close(ctx))
		b.fails("of a closed device", b.Queue.WaitFunc(b.Ctx, never), reprise.ErrClosed)
	}, reprise.WithHangTimeout(200*time.Millisecond))
}

// order is the graph of submitted commands, with edges to the commands that each follows.
type order struct {
	after [][]int // by command
	tail  [2]int
	seen  []int
	work  [2]int
	owner int
}

func (o *order) add(q int, also ...int) int {
	n := len(o.after)
	also = append(also, o.seen...)
	if o.tail[q] >= 0 {
		also = append(also, o.tail[q])
	}
	o.after = append(o.after, also)
	o.tail[q] = n
	return n
}

func (o *order) reaches(q, to int) bool {
	next := append([]int{}, o.seen...)
	if o.tail[q] >= 0 {
		next = append(next, o.tail[q])
	}
	been := map[int]bool{}
	for len(next) > 0 {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		if n == to {
			return true
		}
		if !been[n] {
			been[n] = true
			next = append(next, o.after[n]...)
		}
	}
	return false
}

// Programs are refused exactly where nothing orders them after the other queue's last one, and
// every schedule that is taken ends.
func TestOverlapIsRefusedExactly(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithFirstEvent(0xFFFFFF00))
	x := b.Load(b.blank("x", chip.Single(3, 3)))
	q := [2]*reprise.Queue{b.Dev.Queue(0), b.Dev.Queue(1)}
	var traces [2]*reprise.Trace
	for i := range traces {
		var err error
		traces[i], err = q[i].Capture(b.Ctx, "x", record(x, x))
		b.Must(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		must := func(err error) { t.Helper(); devtest.Must(t, err) }
		must(q[0].Wait(b.Ctx))
		must(q[1].Wait(b.Ctx))
		o := &order{tail: [2]int{-1, -1}, work: [2]int{-1, -1}}
		events := [3]*reprise.Event{}
		recorded := [3]int{-1, -1, -1}
		for i := range events {
			events[i] = b.Dev.NewEvent("e")
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i, e := rapid.IntRange(0, 1).Draw(t, "queue"), rapid.IntRange(0, 2).Draw(t, "event")
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); op {
			case 0, 1, 2, 3:
				other := 1 - i
				allowed := o.owner == i || o.work[other] < 0 || o.reaches(i, o.work[other])
				var err error
				if op == 0 {
					err = traces[i].Replay(b.Ctx)
				} else {
					err = q[i].Run(b.Ctx, x)
				}
				var overlap *dispatch.OverlapError
				if allowed != (err == nil) || err != nil && !errors.As(err, &overlap) {
					t.Fatalf("queue %d: allowed %v, error %v", i, allowed, err)
				}
				if err == nil {
					o.work[i], o.owner = o.add(i), i
				}
			case 4, 5:
				must(q[i].Record(b.Ctx, events[e]))
				recorded[e] = o.add(i)
			case 6, 7:
				err := q[i].WaitEvent(b.Ctx, events[e])
				if recorded[e] < 0 {
					if !errors.Is(err, dispatch.ErrNotRecorded) {
						t.Fatalf("wait for what was never recorded: %v", err)
					}
					continue
				}
				must(err)
				o.add(i, recorded[e])
			case 8:
				n := o.add(i)
				must(q[i].Wait(b.Ctx))
				o.seen = append(o.seen, n)
			case 9:
				if recorded[e] >= 0 {
					must(events[e].Wait(b.Ctx))
					o.seen = append(o.seen, recorded[e])
				}
			}
		}
		must(q[0].Wait(b.Ctx))
		must(q[1].Wait(b.Ctx))
	})
}

func (b *bench) programTimes(p *dispatch.ProgramTimes, n int) []dispatch.ProgramTime {
	b.Helper()
	var out []dispatch.ProgramTime
	b.Must(b.Queue.WaitFunc(b.Ctx, func() bool {
		var lost int
		var err error
		out, lost, err = p.Append(out)
		b.Must(err)
		if lost != 0 {
			b.Fatalf("%d programs were lost", lost)
		}
		return len(out) >= n
	}))
	if len(out) != n {
		b.Fatalf("%d programs have run, want %d", len(out), n)
	}
	for i, t := range out {
		if t.End < t.Start || i > 0 && t.Start < out[i-1].End {
			b.Fatalf("program %d ran from %d to %d, the one before to %d", i, t.Start, t.End, out[max(i, 1)-1].End)
		}
	}
	return out
}

func TestProgramTimes(t *testing.T) {
	onAll(t, func(b *bench) {
		word := b.word()
		short, long := b.Load(b.blank("short", b.Dev.Grid())), b.spin("long", word, chip.BRISC, chip.Single(0, 0))
		p := value(b.Queue.ProgramTimes())(b)
		for _, x := range []*reprise.Executable{short, long, short} {
			b.Execute(x)
		}
		b.programTimes(p, 1)
		if more, _, err := p.Append(nil); len(more) != 0 || err != nil {
			b.Fatalf("a program that runs has times %v (%v)", more, err)
		}
		during := value(b.Queue.Clock())(b)
		b.letGo(b.Dev.Queue(1), word)
		b.Wait()
		after := value(b.Queue.Clock())(b)
		rest := b.programTimes(p, 2)
		if rest[0].End < during.Cycles || rest[1].End > after.Cycles {
			b.Errorf("programs ran %v; at %d the first was not done, at %d both were", rest, during.Cycles, after.Cycles)
		}
	}, reprise.WithQueues(2))
}

func TestProgramTimesOfTraces(t *testing.T) {
	onAll(t, func(b *bench) {
		x := b.Load(b.blank("blank", chip.Single(0, 0)))
		p, err := b.Queue.ProgramTimes()
		b.Must(err)
		loop := b.captureFlow(func(r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Loop(5, func() error { return errors.Join(r.Run(x), r.Run(x)) }))
		})
		for range 2 {
			b.Replay(loop)
		}
		b.programTimes(p, 2*(1+5*2))
		const programs, replays, kept = 600, 4, 1023
		long := b.Capture("long", slices.Repeat([]*reprise.Executable{x}, programs)...)
		for range replays {
			b.Replay(long)
		}
		b.Wait()
		var all []dispatch.ProgramTime
		var lost int
		b.Must(b.Queue.WaitFunc(b.Ctx, func() bool {
			var n int
			all, n, err = p.Append(all)
			b.Must(err)
			lost += n
			return len(all)+lost == programs*replays
		}))
		equal(b, lost, programs*replays-kept, "of %d", programs*replays)
		equal(b, len(all), kept, "of %d", programs*replays)
	})
}

func TestProgramTimesAfterRecover(t *testing.T) {
	b := openAs(t, sim.Blackhole())
	p := value(b.Queue.ProgramTimes())(b)
	b.Must(b.Dev.Recover(b.Ctx))
	if _, _, err := p.Append(nil); !errors.Is(err, dispatch.ErrTimesLost) {
		t.Errorf("after Recover: %v, want %v", err, dispatch.ErrTimesLost)
	}
}

type heard struct{ calls []string }

func (h *heard) Begin(_ context.Context, c *reprise.Call) {
	h.calls = append(h.calls, fmt.Sprintf("%v %s", c.Kind, c.Name))
}

func (h *heard) End(_ context.Context, c *reprise.Call) {
	if c.Err != nil {
		h.calls = append(h.calls, "failed")
	}
}

func TestObserver(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	var h, second heard
	stop := b.Dev.Observe(&h)
	stopSecond := b.Dev.Observe(&second)
	b.Dev.Observe(nil)()
	in := b.Pages("in", 2)
	x := b.Load(b.Adder("add", chip.Core{}, in, in, 1))
	tr := b.Capture("adds", x)
	b.Write(in, 1)
	b.Execute(x)
	stopSecond()
	b.Replay(tr)
	b.Holds(in, 3)
	e := b.Dev.NewEvent("e")
	expect.Error(t, b.Queue.WaitEvent(b.Ctx, e))
	b.Must(b.Queue.Record(b.Ctx, e))
	b.Wait()
	b.Must(tr.Release(b.Ctx))
	b.Must(x.Release(b.Ctx))
	b.Must(in.Release())
	stop()
	b.Pages("later", 1)
	want := []string{
		"allocate in", "load add", "capture adds", "write in", "run add", "replay adds", "read in", "pending wait in", "wait event e", "failed",
		"record e", "queue wait ", "release trace adds", "release executable add", "release buffer in",
	}
	noDiff(t, h.calls, want, "calls")
	noDiff(t, second.calls, want[:5], "calls that the second one heard")
}

type stamper struct {
	stamps []*reprise.Event
	errs   []error
	first  *reprise.Call
	before *reprise.Event
}

func (s *stamper) Begin(ctx context.Context, c *reprise.Call) {
	if s.first == nil {
		s.first = c
		for _, q := range c.Queues {
			var err error
			if s.before, err = c.Stamp(ctx, q); err != nil {
				s.errs = append(s.errs, err)
			}
		}
	}
}

func (s *stamper) End(ctx context.Context, c *reprise.Call) {
	for _, q := range c.Queues {
		e, err := c.Stamp(ctx, q)
		if err != nil {
			s.errs = append(s.errs, err)
			continue
		}
		s.stamps = append(s.stamps, e)
	}
}

func TestStamps(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithQueues(2))
	in := b.Pages("in", 2)
	x := b.Load(b.Adder("add", chip.Core{}, in, in, 1))
	var s stamper
	var h heard
	defer b.Dev.Observe(&s)()
	defer b.Dev.Observe(&h)()
	b.Write(in, 1)
	b.Execute(x)
	b.Wait()
	b.Must(b.Dev.Queue(1).Wait(b.Ctx))
	if want := []string{"write in", "run add", "queue wait ", "queue wait "}; !cmp.Equal(want, h.calls) {
		t.Errorf("observers heard of %q, want %q", h.calls, want)
	}
	if len(s.stamps) != 2 || len(s.errs) != 2 {
		t.Fatalf("%d stamps, %d refused: %v", len(s.stamps), len(s.errs), s.errs)
	}
	for _, err := range s.errs {
		b.Says(err, "reprise: stamp", "not in an Observer's Begin or End")
	}
	before, okBefore := s.before.DeviceTime()
	wrote, okWrote := s.stamps[0].DeviceTime()
	ran, okRan := s.stamps[1].DeviceTime()
	if !okBefore || !okWrote || !okRan || before >= wrote || wrote >= ran {
		t.Errorf("written at %d (%v), run at %d (%v)", wrote, okWrote, ran, okRan)
	}
	expect.Error(t, second(s.first.Stamp(b.Ctx, b.Queue))) // after the end of the call
}

func TestQueueThatIsMissing(t *testing.T) {
	b := open(t, sim.Wormhole())
	in, e := b.Pages("in", 1), b.Dev.NewEvent("e")
	x := b.Load(b.Adder("add", chip.Core{}, in, in, 1))
	for _, id := range []int{-1, 1} {
		q := b.Dev.Queue(id)
		if q.ID() != id || q.Device() != b.Dev || q.Workers().Size() > 1 {
			t.Errorf("queue %d: %d of %v", id, q.ID(), q.Workers())
		}
		_, abort := q.Abort(b.Ctx)
		_, clock := q.Clock()
		_, times := q.ProgramTimes()
		_, begin := q.Begin("t")
		_, capture := q.Capture(b.Ctx, "t", func(context.Context, *reprise.Recorder) error { return nil })
		_, both := b.Queue.Capture(b.Ctx, "t", func(context.Context, *reprise.Recorder) error { return nil }, q)
		for i, err := range []error{abort, clock, times, begin, capture, both, q.Run(b.Ctx, x), q.Wait(b.Ctx), q.Record(b.Ctx, e),
			q.WaitFunc(b.Ctx, func() bool { return true }), q.WaitEvent(b.Ctx, e), q.SetStallGroup(), q.Write(b.Ctx, in, 0, nil),
			q.Read(b.Ctx, in, 0, nil), q.ReadTo(b.Ctx, in, 0, nil, 0, 0)} {
			expect.Fails(t, err, reprise.ErrNoQueue, "queue %d, call %d", id, i)
		}
	}
}
