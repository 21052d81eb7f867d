// Package queues has the cases of two command queues: order, events, workers of their own.
package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// Split are the cases of queues that have workers of their own.
func Split() (cs rig.Table) {
	cs.Add("both at once", "a program of one queue runs while one of the other does, on other workers", bothAtOnce)
	cs.Add("runs and replays at once", "queues have their own launch messages, kernel-config memory and counts", splitRuns)
	cs.Add("the other's workers", "a program on another queue's workers is refused, and in a capture as well", refuses)
	cs.Add("data across", "events order data between the queues' workers", splitAcross)
	cs.Add("equal counts", "events and finishes of one queue don't wait for the other's workers", finish)
	rig.Each(&cs, "trace over both queues handing over %d times", "edges inside a trace order its parts at every replay",
		func(t *rig.T, n int) { HandOver(t, n, t.Size(30, 4)) }, 1, 2, 9)
	cs.Add("parts run at once", "parts of a trace without an edge between them run at the same time", spanPartsAtOnce)
	cs.Add("traces over one and both queues", "traces over both queues and other work follow in any order", spanAmongOthers)
	cs.Add("edges that nothing waits for", "recordings that nothing waits for don't reach into the next replay",
		func(t *rig.T) { LooseEdges(t, t.Size(30, 5)) })
	cs.Add("trace over both queues released", "a release frees everything of all parts of a trace", spanRelease)
	cs.Add("trace over both queues in steps and pieces", "a trace over both queues does the same in pieces and whole", spanInPieces)
	cs.Add("trace over both queues from a file", "a trace over both queues from a file has its edges", spanFromFile)
	cs.Add("bisect over both queues", "the program that goes wrong is found, whichever queue it is on", func(t *rig.T) {
		r := newRelay(t)
		tr := r.captured("bisected", 3)
		prepare := func(int) error {
			return errors.Join(t.Queue.Write(t.Ctx, r.a, 0, make([]byte, r.a.Size())), t.Queue.Wait(t.Ctx))
		}
		t.Bisects(tr, prepare, 0, 3, 4, -1)
		r.check(3, "the whole trace")
	})
	return cs
}

// Cases are the cases of layer queues.
func Cases() (cs rig.Table) {
	rig.Each(&cs, "%d programs in turn", "workers pass from queue to queue at every launch message",
		func(t *rig.T, n int) { InTurn(t, n, t.Size(24, 6)) }, 1, 3, 7, 8, 9)
	rig.Each(&cs, "trace of %d programs on queue 1", "the second queue replays what was captured on it, between runs of both queues",
		traceOnQueue1, 1, 8, 40)
	cs.Add("programs on queue 1", "the second queue runs programs as the first one does", func(t *rig.T) {
		f, x := t.Mixing(3)
		for range t.Size(50, 12) {
			f.On(t.Both()[1]).Start(x)
		}
		t.FinishBoth()
		f.Check("after all runs")
	})
	cs.Add("sizes in turn", "programs of all sizes pass with the workers around the kernel-config ring", func(t *rig.T) {
		f := t.Follow()
		xs := f.LoadSizes(1, []int{0, 40_000, 1000, 30_000, 60_000, 5000}, chip.Grid(3, 3))
		inTurn(f, t.Size(60, 12), func(f *rig.Mix, turn int) {
			for i := range 1 + turn%4 {
				f.Start(xs[(turn*5+i)%len(xs)])
			}
		})
	})
	cs.Add("overlap is refused", "programs of two queues on the same workers need an edge", overlapIsRefused)
	cs.Add("traces in turn", "traces of both queues replay in turn", tracesInTurn)
	cs.Add("transfers on both queues", "both queues move data at the same time", transfersOnBoth)
	cs.Add("transfers beside a program", "one queue moves data while a program of the other runs", func(t *rig.T) {
		q, b := t.Both(), t.DRAMBuffer(2048*40, 2048)
		release := t.Spinning(q[0], t.Grid())
		for i := range t.Size(5, 2) {
			t.OK(t.On(q[1]).ComesBack(b, i))
		}
		release(q[1])
		t.FinishBoth()
	})
	cs.Add("goroutines on both queues", "goroutines share the queues in the order in which calls return", goroutinesOnBoth)
	cs.Add("sub-devices", "programs of one sub-device run while one of another doesn't end", subDevices)
	cs.Add("started reads", "started reads complete in order on both queues", startedReads)
	return cs
}

func InTurn(t *rig.T, n, turns int) {
	f := t.Follow()
	xs := []*reprise.Executable{f.Load("a", 1, chip.Grid(4, 4)), f.Load("b", 2)}
	inTurn(f, turns, func(f *rig.Mix, turn int) {
		for i := range n {
			f.Start(xs[(turn+i)%2])
		}
	})
}

// inTurn has the queues take turns, each after all that the other has done.
func inTurn(f *rig.Mix, turns int, do func(f *rig.Mix, turn int)) {
	q, e := f.T.Both(), f.T.Dev.NewEvent("turn")
	for turn := range turns {
		f.T.Follows(q[turn%2], q[(turn+1)%2], e)
		do(f.On(q[turn%2]), turn)
	}
	f.T.FinishBoth()
	f.Check("after all turns")
}

func overlapIsRefused(t *rig.T) {
	f, x := t.Mixing(9)
	q := t.Both()
	tr := f.On(q[1]).Capture("tr", x)
	f.Start(x)
	for what, err := range map[string]error{"run": q[1].Run(t.Ctx, x), "replay": tr.Replay(t.Ctx)} {
		if o := rig.As[*dispatch.OverlapError](t, err); o.Queue != 1 || o.Owner != 0 || o.Last != `run program "x"` {
			t.Errorf("%s without an edge: %v", what, err)
		}
	}
	f.Start(x)
	t.Follows(q[1], q[0], t.Dev.NewEvent("e"))
	f.Replay(tr)
	t.FinishBoth()
	f.Check("after what was taken")
}

func traceOnQueue1(t *rig.T, n int) {
	f, q, e := t.Follow(), t.Both(), t.Dev.NewEvent("e")
	x := f.Load("x", 7, chip.Grid(4, 3))
	tr := f.On(q[1]).Capture("tr", slices.Repeat([]*reprise.Executable{x}, n)...)
	for i := range t.Size(6, 3) {
		f.Replay(tr)
		f.On(q[1]).Start(x)
		t.Follows(q[0], q[1], e)
		for range i {
			f.Start(x)
		}
		t.Follows(q[1], q[0], e)
	}
	t.FinishBoth()
	f.Check("after all replays")
}

func tracesInTurn(t *rig.T) {
	f, q, e := t.Follow(), t.Both(), t.Dev.NewEvent("turn")
	on := chip.Grid(5, 2)
	x, y := f.Load("x", 1, on), f.LoadLong("y", 2, 20_000, on)
	trs := [2]*reprise.Trace{f.Capture("first", x, y, x), f.On(q[1]).Capture("second", y, y, x, x, x, y, x, x, y)}
	for i := range t.Size(40, 8) {
		k := i * 3 / 2 % 2
		t.Follows(q[k], q[1-k], e)
		for range 1 + i%3 {
			f.Replay(trs[k])
		}
	}
	t.FinishBoth()
	f.Check("after all turns")
}

func transfersOnBoth(t *rig.T) {
	var bufs [2]*reprise.Buffer
	for i := range bufs {
		bufs[i] = t.DRAMBuffer(2048*t.Size(500, 60), 2048)
	}
	var wg sync.WaitGroup
	for i, q := range t.Both() {
		wg.Go(func() {
			for round := range t.Size(10, 3) {
				if err := t.On(q).ComesBack(bufs[i], 100*i+round); err != nil {
					t.Errorf("queue %d, round %d: %v", i, round, err)
				}
			}
		})
	}
	wg.Wait()
}

func goroutinesOnBoth(t *rig.T) {
	f, q, e := t.Follow(), t.Both(), t.Dev.NewEvent("turn")
	x := f.Load("x", 5, chip.Grid(3, 3))
	trs := [2]*reprise.Trace{t.Capture("t0", x), t.On(q[1]).Capture("t1", x)}
	var bufs [4]*reprise.Buffer
	for i := range bufs {
		bufs[i] = t.DRAMBuffer(64*50, 64)
	}
	rounds := t.Size(8, 3)
	for round := range rounds {
		k := round % 2
		t.Follows(q[k], q[1-k], e)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				by := q[k]
				if g >= 2 {
					by = q[1-k]
				} else if err := errors.Join(by.Run(t.Ctx, x), trs[k].Replay(t.Ctx)); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
				}
				if err := t.On(by).ComesBack(bufs[g], 100*g+round); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
				}
			})
		}
		wg.Wait()
	}
	t.FinishBoth()
	for range 4 * rounds {
		f.Ran(x)
	}
	f.Check("after all")
}

func startedReads(t *rig.T) {
	var reads []func(string, ...any)
	for i := range t.Size(500, 60) {
		on := t.On(t.Both()[i%2])
		b := t.DRAMBuffer(32*(1+i%40), 32)
		reads = append(reads, on.StartRead(b, 0, on.Fill(b, i)))
	}
	for i, check := range reads {
		check("read %d", i)
	}
}

func bothAtOnce(t *rig.T) {
	f, q, on := t.Follow(), t.Both(), rig.SplitRanges()
	x := f.Load("x", 6, on[1])
	tr := f.On(q[1]).Capture("tr", x, x)
	release := t.Spinning(q[0], on[0])
	for range t.Size(10, 4) {
		f.On(q[1]).Start(x)
		f.Replay(tr)
	}
	t.WaitFor(q[1])
	release(q[1])
	t.FinishBoth()
	f.Check("after both")
}

func splitRuns(t *rig.T) {
	f, q, on := t.Follow(), t.Both(), rig.SplitRanges()
	var xs [2][]*reprise.Executable
	var trs [2]*reprise.Trace
	sizes := []int{0, 30_000, 1000, 60_000}
	for i := range 2 {
		xs[i] = f.LoadSizes(uint32(10*i), sizes, on[i])
		trs[i] = f.On(q[i]).Capture(fmt.Sprint(i), xs[i][2], xs[i][0], xs[i][1])
	}
	n := t.Size(40, 8)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for k := range n {
				err := q[i].Run(t.Ctx, xs[i][k*(i+3)%len(sizes)])
				if k%3 == i {
					err = errors.Join(err, trs[i].Replay(t.Ctx))
				}
				if err != nil {
					t.Errorf("queue %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 2 {
		for k := range n {
			f.Ran(xs[i][k*(i+3)%len(sizes)])
			if k%3 == i {
				f.Ran(trs[i])
			}
		}
	}
	t.FinishBoth()
	f.Check("after both")
}

func refuses(t *rig.T) {
	f, q, on := t.Follow(), t.Both(), rig.SplitRanges()
	rig.Equal(t, [2]chip.Range{q[0].Workers(), q[1].Workers()}, on, "the queues have the workers")
	for _, wrong := range []chip.Range{t.Grid(), on[0], {Start: on[0].End, End: on[1].End}, chip.Single(4, 0)} {
		x := f.Load("x", 6, wrong)
		_, err := t.On(q[1]).Record("tr", rig.Running(x))
		for what, err := range map[string]error{"run": q[1].Run(t.Ctx, x), "capture": err} {
			if w := rig.As[*dispatch.WorkersError](t, err); w.Queue != 1 || w.Workers != on[1] || w.Cores != wrong {
				t.Errorf("%s on %v: %v", what, wrong, err)
			}
		}
		t.Says(err, `run program "x" at `, "the queue starts the workers")
	}
	t.FinishBoth()
	f.Check("nothing ran")
}

func splitAcross(t *rig.T) {
	q, on := t.Both(), rig.SplitRanges()
	there, back := t.Dev.NewEvent("there"), t.Dev.NewEvent("back")
	a, b := t.DRAMBuffer(64*8, 64), t.DRAMBuffer(64*8, 64)
	xs := [2]*reprise.Executable{t.Load(t.AddProgram("there", on[0].End, a, b, 1)), t.Load(t.AddProgram("back", on[1].Start, b, a, 2))}
	tr := t.On(q[1]).Capture("back", xs[1])
	t.Clear(a)
	n := t.Size(30, 8)
	for i := range n {
		t.Start(xs[0])
		t.Follows(q[1], q[0], there)
		if i%2 == 0 {
			t.Replay(tr)
		} else {
			t.OK(q[1].Run(t.Ctx, xs[1]))
		}
		t.Follows(q[0], q[1], back)
	}
	t.Holds(a, rig.Repeated(a.Size(), uint32(3*n)), "handed to and fro")
	t.FinishBoth()
}

func finish(t *rig.T) {
	q, on := t.Both(), rig.SplitRanges()
	release := t.Spinning(q[0], on[0])
	e, held := t.Dev.NewEvent("e"), t.Dev.NewEvent("held")
	t.OK(q[0].Record(t.Ctx, held))
	for range t.Size(20, 5) {
		t.OK(q[1].Record(t.Ctx, e))
		t.WaitFor(e)
		t.WaitFor(q[1])
	}
	t.Done("an event after a program that spins", held, false)
	release(q[1])
	t.WaitFor(held)
	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	if err := held.Wait(ctx); err != nil {
		t.Errorf("synchronize with what is done: %v", err)
	}
	t.FinishBoth()
}

// subDevices divides the workers, and runs programs and replays on all but the first row while a
// program on that row doesn't end.
func subDevices(t *rig.T) {
	f, q, g := t.Follow(), t.Both(), t.Grid()
	above, below := chip.Range{End: chip.Core{X: g.End.X}}, chip.Range{Start: chip.Core{Y: 1}, End: g.End}
	x := f.Load("x", 6, below)
	s, err := t.Dev.NewSubDevices(0, []chip.Range{above}, []chip.Range{below})
	t.OK(err)
	for range 2 {
		t.OK(s.Load(t.Ctx))
		tr := f.On(q[1]).Capture("tr", x, x)
		release := t.Spinning(q[0], above)
		for _, q := range q {
			t.OK(q.SetStallGroup(1))
		}
		for range t.Size(10, 4) {
			f.On(q[1]).Start(x)
			f.Replay(tr)
			t.WaitFor(q[1])
		}
		release(q[1])
		for _, q := range q {
			t.OK(q.SetStallGroup())
		}
		t.FinishBoth()
		f.Check("with sub-devices")
		t.OK(tr.Release(t.Ctx))
		t.OK(t.Dev.ClearSubDevices(t.Ctx))
		f.Start(x)
		t.FinishBoth()
		f.Check("without them")
	}
}

type relay struct {
	t           *rig.T
	a, b        *reprise.Buffer
	there, back *reprise.Executable
	e, f        *reprise.Event
}

func newRelay(t *rig.T) *relay {
	on := rig.SplitRanges()
	conf := func(name string) reprise.BufferConfig {
		return reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 * 8, PageSize: 64, Name: name}
	}
	r := &relay{t: t, a: t.BufferOf(conf("a")), b: t.BufferOf(conf("b")), e: t.Dev.NewEvent("there"), f: t.Dev.NewEvent("back")}
	r.there, r.back = t.Load(t.AddProgram("there", on[0].End, r.a, r.b, 1)), t.Load(t.AddProgram("back", on[1].Start, r.b, r.a, 2))
	t.Clear(r.a)
	t.Wait()
	return r
}

// spans captures a trace over both queues, whose Recorders record gets.
func spans(t *rig.T, name string, record func(a, b *reprise.Recorder)) *reprise.Trace {
	q := t.Both()[1]
	return t.Trace(name, func(r *reprise.Recorder) { record(r, r.On(q)) }, q)
}

func (r *relay) record(a, b *reprise.Recorder, rounds int) {
	for i := range rounds {
		if i > 0 {
			a.WaitEvent(r.f)
		}
		a.Run(r.there)
		a.Record(r.e)
		b.WaitEvent(r.e)
		b.Run(r.back)
		b.Record(r.f)
	}
}

// captured is a trace over both queues that hands data over so many times.
func (r *relay) captured(name string, rounds int) *reprise.Trace {
	return spans(r.t, name, func(a, b *reprise.Recorder) { r.record(a, b, rounds) })
}

func (r *relay) check(rounds int, what string, args ...any) {
	r.t.FinishBoth()
	r.t.Holds(r.a, rig.Repeated(r.a.Size(), uint32(3*rounds)), what, args...)
}

// HandOver replays a trace over two queues that hands data over n times.
func HandOver(t *rig.T, n, replays int) {
	r := newRelay(t)
	tr := r.captured("hand over", n)
	for range replays {
		t.Replay(tr)
	}
	r.check(n*replays, "after all replays")
}

func spanPartsAtOnce(t *rig.T) {
	// In the middle each part waits for the other: in turn, neither would end.
	f, on := t.Follow(), rig.SplitRanges()
	left, right := f.Load("left", 1, on[0]), f.Load("right", 2, on[1])
	e, g := t.Dev.NewEvent("e"), t.Dev.NewEvent("g")
	tr := spans(t, "at once", func(a, b *reprise.Recorder) {
		a.Run(left)
		a.Record(e)
		b.Run(right)
		b.Record(g)
		a.WaitEvent(g)
		b.WaitEvent(e)
		a.Run(left)
		b.Run(right)
	})
	for range t.Size(20, 4) {
		t.Replay(tr)
		for range 2 {
			f.Run(1, on[0])
			f.Run(2, on[1])
		}
	}
	t.FinishBoth()
	f.Check("after all replays")
}

func spanAmongOthers(t *rig.T) {
	r, q := newRelay(t), t.Both()
	both := r.captured("both", 2)
	once := r.captured("once", 1)
	back := t.On(q[1]).Capture("back", r.back)
	rounds := 0
	for i := range t.Size(20, 6) {
		t.Replay(both)
		t.Replay(once)
		rounds += 3
		if i%2 == 0 {
			t.Start(r.there)
			t.Follows(q[1], q[0], r.e)
			t.Replay(back)
			t.Follows(q[0], q[1], r.f)
			rounds++
		}
		if i%3 == 0 {
			t.OK(q[i%2].Read(t.Ctx, r.b, 0, make([]byte, r.b.Size())))
		}
	}
	r.check(rounds, "after all")
}

// LooseEdges replays a trace over two queues of which one doesn't wait for the other.
func LooseEdges(t *rig.T, replays int) {
	r := newRelay(t)
	tr := spans(t, "loose", func(a, b *reprise.Recorder) {
		loose := t.Dev.NewEvent("loose")
		r.record(a, b, 1)
		for range 2 {
			a.Record(loose)
			b.Record(loose)
		}
	})
	for range replays {
		t.Replay(tr)
	}
	r.check(replays, "after all replays")
}

func spanRelease(t *rig.T) {
	r := newRelay(t)
	before := t.Allocated()
	for range 3 {
		tr := r.captured("released", 4)
		t.Replay(tr)
		t.Release(tr)
		t.Fails("replay after the release", tr.Replay(t.Ctx), reprise.ErrReleased)
		t.SameMemory(before)
	}
	r.check(12, "after three replays")
}

func spanInPieces(t *rig.T) {
	r := newRelay(t)
	const n = 3
	tr := r.captured("in pieces", n)
	before := t.Allocated()
	rounds := 0
	var names string
	for _, s := range tr.Debug().Programs() {
		names += s.Name + " "
	}
	rig.Equal(t, names, "there back there back there back ", "programs")
	for _, pieces := range []int{0, 4, 1, 2, 2 * n}[:t.Size(5, 2)] {
		if pieces == 0 {
			steps := 0
			t.OK(tr.Debug().Step(t.Ctx, func(i int) error {
				if steps++; i != steps-1 {
					t.Errorf("step %d is reported as %d", steps-1, i)
				}
				t.AllFail(reprise.ErrReserved, map[string]error{
					"replay": tr.Replay(t.Ctx), "release": tr.Release(t.Ctx), "check": tr.Debug().Check(t.Ctx),
				})
				return nil
			}))
		} else {
			t.OK(tr.Debug().Split(t.Ctx, pieces, nil))
		}
		rounds += n
		r.check(rounds, "%d pieces", pieces)
		t.Replay(tr)
		rounds += n
	}
	r.check(rounds, "a replay after it all")
	t.OK(tr.Debug().Check(t.Ctx))
	r.check(rounds, "after the check")
	mine := errors.New("enough")
	err := tr.Debug().Step(t.Ctx, func(i int) error { return map[bool]error{true: mine}[i == 2] })
	t.Fails("cut short", err, mine)
	if at := rig.As[*debug.StepError](t, err); at.First != 2 {
		t.Errorf("cut short: %v", err)
	}
	t.Replay(tr)
	t.FinishBoth()
	t.OK(tr.Debug().Verify(t.Ctx))
	t.SameMemory(before)
}

func spanFromFile(t *rig.T) {
	r, q := newRelay(t), t.Both()
	const n = 2
	tr := t.On(q[1]).Trace("file", func(b *reprise.Recorder) { r.record(b.On(q[0]), b, n) }, q[0])
	file := t.Save(tr, reprise.WithData())
	t.Release(tr)
	before := t.Allocated()
	for range 2 {
		loaded := t.LoadTrace(file, reprise.WithBuffers(r.a, r.b))
		rounds := 0
		for range t.Size(5, 2) {
			t.Replay(loaded)
			rounds += n
		}
		t.FinishBoth()
		t.OK(loaded.Debug().Step(t.Ctx, nil))
		t.OK(loaded.Debug().Split(t.Ctx, 2, nil))
		rounds += 2 * n
		t.OK(loaded.Debug().Verify(t.Ctx))
		r.check(rounds, "after all replays of the file")
		t.Save(loaded)
		t.Release(loaded)
		t.SameMemory(before)
	}
}

// Events follows tt-metal's EnqueueWaitForEvent and MeshEventsTestSuite.
func Events() (cs rig.Table) {
	cs.Add("ten events", "events of a queue are done in order, and each can be queried", tenEvents)
	cs.Add("write here, read there", "an event that is recorded again orders writes and reads of a buffer", writeHereReadThere)
	cs.Add("meaning at the call", "a wait means the recording that was the newest when it was called", meaningAtTheCall)
	cs.Add("query", "a query is true once everything before the recording has run", queryEvents)
	cs.Add("wait holds the queue", "nothing after a wait runs before the recording is done", WaitHolds)
	cs.Add("never recorded", "a wait that nothing ends is an error at the call", neverRecorded)
	cs.Add("two waits for one recording", "a recording can be waited for any number of times", func(t *rig.T) {
		q, e := t.Both(), t.Dev.NewEvent("e")
		t.OK(q[0].Record(t.Ctx, e))
		for range 10 {
			t.OK(q[1].WaitEvent(t.Ctx, e))
			t.WaitFor(e)
		}
		t.FinishBoth()
	})
	cs.Add("recordings without a waiting reader", "the dispatcher never stops because the host reads no reports", func(t *rig.T) {
		q := t.Both()
		e, f := t.Dev.NewEvent("e"), t.Dev.NewEvent("f")
		for range t.Size(1500, 100) { // more than the completion queue has room for
			t.Follows(q[1], q[0], e)
			t.Follows(q[0], q[1], f)
		}
		t.WaitFor(f)
		t.FinishBoth()
	})
	cs.Add("ids wrap", "ids of events wrap at 32 bits in the middle of a long exchange", idsWrap)
	cs.Add("device time", "timed events carry times in the order in which they happened", deviceTime)
	cs.Add("four events", "overlapping work of two queues touches no other data", func(t *rig.T) { FourEvents(t, t.Size(12, 4)) })
	return cs
}

func tenEvents(t *rig.T) {
	var es []*reprise.Event
	q := t.Both()[1]
	for i := range 10 {
		e := t.Dev.NewEvent(fmt.Sprint(i))
		t.OK(q.Record(t.Ctx, e))
		es = append(es, e)
	}
	t.WaitFor(es[9])
	for i, e := range es {
		t.Done(fmt.Sprintf("event %d after the last one", i), e, true)
		if _, ok := e.DeviceTime(); ok {
			t.Errorf("event %d isn't timed and has a time", i)
		}
	}
}

func writeHereReadThere(t *rig.T) {
	q := t.Both()
	written, read := t.Dev.NewEvent("written"), t.Dev.NewEvent("read")
	b := t.DRAMBuffer(2048*t.Size(1000, 50), 2048)
	t.OK(q[0].Record(t.Ctx, read))
	var reads []func(string, ...any)
	for i := range t.Size(20, 4) {
		t.OK(q[1].WaitEvent(t.Ctx, read))
		want := t.On(q[1]).Fill(b, i)
		t.Follows(q[0], q[1], written)
		reads = append(reads, t.StartRead(b, 0, want))
		t.OK(q[0].Record(t.Ctx, read))
	}
	for i, check := range reads {
		check("round %d", i)
	}
	t.FinishBoth()
}

func meaningAtTheCall(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	b := t.DRAMBuffer(64*16, 64)
	want := t.On(q[1]).Fill(b, 1)
	t.OK(q[1].Record(t.Ctx, e))
	t.OK(q[0].WaitEvent(t.Ctx, e))
	release := t.Spinning(q[1], chip.Single(0, 0))
	t.OK(q[1].Record(t.Ctx, e)) // not this one, which isn't done before queue 0 has released it
	t.Holds(b, want, "read after the older recording")
	t.Done("the newer recording", e, false)
	release(q[0])
	t.WaitFor(e)
	t.FinishBoth()
}

func queryEvents(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	release := t.Spinning(q[0], t.Grid())
	t.OK(q[0].Record(t.Ctx, e))
	for range 20 {
		t.Done("after a program that spins", e, false)
	}
	release(q[1])
	for done := false; !done; {
		var err error
		done, err = e.Query()
		t.OK(err)
		t.OK(t.Ctx.Err())
	}
	t.Done("what was done", e, true)
	t.FinishBoth()
}

// WaitHolds checks that a queue does nothing while it waits for an event.
func WaitHolds(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	b := t.DRAMBuffer(64, 64)
	t.Clear(b)
	t.Wait()
	release := t.Spinning(q[0], t.Grid())
	want := t.Fill(b, 5)
	t.OK(q[0].Record(t.Ctx, e))
	t.Same(make([]byte, 64), t.ReadOn(q[1], b), "before the wait")
	release(q[1])
	t.OK(q[1].WaitEvent(t.Ctx, e))
	t.Same(want, t.ReadOn(q[1], b), "after the wait")
}

func neverRecorded(t *rig.T) {
	e := t.Dev.NewEvent("never")
	for i, q := range t.Both() {
		err := q.WaitEvent(t.Ctx, e)
		t.Fails("wait", err, dispatch.ErrNotRecorded)
		if ee := rig.As[*dispatch.EventError](t, err); ee.Queue != i || ee.Site == "" {
			t.Errorf("wait on queue %d: %v", i, err)
		}
	}
	t.AllFail(dispatch.ErrNotRecorded, map[string]error{"synchronize": e.Wait(t.Ctx), "query": rig.Error(e.Query())})
	t.FinishBoth()
}

func idsWrap(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	b := t.DRAMBuffer(64*4, 64)
	for i := range 1 + -rig.FirstEvent&0xFF { // more than are left before the wrap
		want := t.On(q[i%2]).Fill(b, i)
		t.Follows(q[1-i%2], q[i%2], e)
		check := t.On(q[1-i%2]).StartRead(b, 0, want)
		t.Follows(q[i%2], q[1-i%2], e)
		check("round %d", i)
	}
	t.FinishBoth()
}

func deviceTime(t *rig.T) {
	f, x := t.Mixing(1)
	for i, q := range t.Both() {
		before, err := q.Clock()
		t.OK(err)
		var es []*reprise.Event
		for range 5 {
			f.On(q).Start(x)
			e := t.Dev.NewEvent("timed", reprise.Timed())
			t.OK(q.Record(t.Ctx, e))
			es = append(es, e)
		}
		t.WaitFor(q)
		after, err := q.Clock()
		t.OK(err)
		last := before.Cycles
		for k, e := range es {
			at, ok := e.DeviceTime()
			if !ok || at <= last {
				t.Errorf("queue %d, event %d: time %d (%v) after %d", i, k, at, ok, last)
			}
			last = at
		}
		if after.Cycles <= last {
			t.Errorf("queue %d: the clock shows %d after an event at %d", i, after.Cycles, last)
		}
	}
	f.Check("after all runs")
}

// FourEvents orders two queues by four events.
func FourEvents(t *rig.T, n int) {
	q := t.Both()
	in, out := t.DRAMBuffer(64*16, 64), t.DRAMBuffer(64*16, 64)
	mid := t.DRAMBuffer(64*16, 64)
	first := t.Load(t.AddProgram("first", chip.Core{X: 1}, in, mid, 1))
	rest := t.Load(t.AddProgram("rest", chip.Core{X: 2}, mid, mid, 1))
	final := t.Load(t.AddProgram("last", chip.Core{X: 3}, mid, out, 1))
	model := t.Capture("rest", rest, rest, rest)
	written, firstDone := t.Dev.NewEvent("written"), t.Dev.NewEvent("first done")
	lastDone, read := t.Dev.NewEvent("last done"), t.Dev.NewEvent("read")
	input := func(i int) []byte {
		return rig.MakeWords(in.Size(), func(k uint32) uint32 { return uint32(3*i)&0xFF | 4*k&0xFF<<8 })
	}
	t.OK(q[0].Record(t.Ctx, firstDone))
	t.OK(q[1].Record(t.Ctx, read))
	write := func(i int) {
		t.OK(q[1].WaitEvent(t.Ctx, firstDone), q[1].Write(t.Ctx, in, 0, input(i)), q[1].Record(t.Ctx, written))
	}
	var reads []func(string, ...any)
	write(0)
	for i := range n {
		t.OK(q[0].WaitEvent(t.Ctx, written), q[0].Run(t.Ctx, first), q[0].Record(t.Ctx, firstDone))
		t.Replay(model)
		t.OK(q[0].WaitEvent(t.Ctx, read), q[0].Run(t.Ctx, final), q[0].Record(t.Ctx, lastDone))
		if i+1 < n {
			write(i + 1)
		}
		t.OK(q[1].WaitEvent(t.Ctx, lastDone))
		in := input(i)
		want := rig.MakeWords(len(in), func(k int) uint32 { return rig.Word(in[4*k:]) + 5 })
		reads = append(reads, t.On(q[1]).StartRead(out, 0, want))
		t.OK(q[1].Record(t.Ctx, read))
	}
	for i, check := range reads {
		check("output %d", i)
	}
	t.FinishBoth()
}
