package hwtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels"
)

// firstEvent is the number after which the events of devices with two queues begin: they wrap in the course of the cases.
const firstEvent = 0xFFFFFFC0

// queueOptions are the options of a device with two queues, which share all workers or have some of their own.
func queueOptions(split bool) []reprise.Option {
	opts := []reprise.Option{reprise.WithQueues(2), reprise.WithFirstEvent(firstEvent)}
	for id, r := range splitRanges() {
		if split {
			opts = append(opts, reprise.WithQueueWorkers(id, r))
		}
	}
	return opts
}

func queueCases() []testCase {
	var cs []testCase
	for _, n := range []int{1, 3, 7, 8, 9} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("%d programs in turn", n),
			protects: "workers pass from queue to queue at every place in the ring of launch messages",
			fn:       func(t *fixture) { programsInTurn(t, n) },
		})
	}
	for _, n := range []int{1, 8, 40} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("trace of %d programs on queue 1", n),
			protects: "the second queue replays what was captured on it, between runs of both queues",
			fn:       func(t *fixture) { traceOnQueue1(t, n) },
		})
	}
	return append(cs, []testCase{
		{name: "programs on queue 1", protects: "the second queue runs programs as the first one does", fn: programsOnQueue1},
		{name: "sizes in turn", protects: "programs of all sizes pass with the workers around the kernel-config ring", fn: sizesInTurn},
		{name: "overlap is refused", protects: "programs of two queues on the same workers are an error without an edge, and nothing happens", fn: overlapIsRefused},
		{name: "passed by the host", protects: "what the host has waited for needs no event", fn: passedByHost},
		{name: "traces in turn", protects: "traces of both queues replay in turn", fn: tracesInTurn},
		{name: "captures on both queues", protects: "captures on two queues at the same time don't mix", fn: capturesOnBoth},
		{name: "transfers on both queues", protects: "both queues move data at the same time", fn: transfersOnBoth},
		{name: "transfers beside a program", protects: "one queue moves data while a program of the other runs", fn: transfersBeside},
		{name: "goroutines on both queues", protects: "several goroutines use each queue, and the order is that in which calls return", fn: goroutinesOnBoth},
		{name: "started reads", protects: "started reads complete in order on both queues", fn: startedReads},
	}...)
}

// splitCases run on a device whose queues have workers of their own.
func splitCases() []testCase {
	return []testCase{
		{name: "both at once", protects: "a program of one queue runs while one of the other does, on other workers", fn: bothAtOnce},
		{name: "runs and replays at once", protects: "each queue has its own launch messages, kernel-config memory and completion counts", fn: splitRuns},
		{name: "the other's workers", protects: "a program on another queue's workers is refused, and in a capture as well", fn: splitRefuses},
		{name: "other workers stay idle", protects: "a queue's go signals reach its own workers only", fn: splitIdle},
		{name: "data across", protects: "data pass through DRAM from one queue's workers to the other's, ordered by events", fn: splitAcross},
		{name: "equal counts", protects: "events and finishes of one queue don't wait for the other's workers", fn: splitFinish},
	}
}

// splitRanges are the workers of the queues in the split layer: inside the grid of every chip.
func splitRanges() [2]chip.Range {
	return [2]chip.Range{
		{End: chip.Core{X: 3, Y: 5}},
		{Start: chip.Core{X: 4, Y: 1}, End: chip.Core{X: 7, Y: 5}},
	}
}

func (t *fixture) both() [2]*reprise.Queue { return [2]*reprise.Queue{t.dev.Queue(0), t.dev.Queue(1)} }

func (t *fixture) finishBoth() {
	t.Helper()
	for _, q := range t.both() {
		t.ok(q.Wait(t.ctx))
	}
}

// follows makes the second queue wait for all that is in the first one.
func (t *fixture) follows(second, first *reprise.Queue, e *reprise.Event) {
	t.Helper()
	t.ok(first.Record(t.ctx, e))
	t.ok(second.WaitEvent(t.ctx, e))
}

// captureOn is capture for another queue.
func (t *fixture) captureOn(q *reprise.Queue, name string, xs ...*reprise.Executable) *reprise.Trace {
	t.Helper()
	u := *t
	u.rq = q
	return u.capture(name, xs...)
}

// spinning starts a program that runs until release is called, which another queue has to do.
func (t *fixture) spinning(q *reprise.Queue, on chip.Range) (release func(*reprise.Queue)) {
	t.Helper()
	word := t.perWorker(16)
	x := t.load(&reprise.Program{Name: "spin", Buffers: []*reprise.Buffer{word}, Kernels: []reprise.Kernel{{
		Name: "wait", Image: t.kernel(kernels.Spin), Processor: chip.BRISC, Cores: []chip.Range{on},
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
	t.ok(q.Run(t.ctx, x))
	ones := make([]byte, word.Size())
	for i := 0; i < len(ones); i += word.PageSize() {
		ones[i] = 1
	}
	return func(by *reprise.Queue) { t.Helper(); t.ok(by.Write(t.ctx, word, 0, ones)) }
}

func programsOnQueue1(t *fixture) {
	f, q := t.follow(), t.both()[1]
	x := t.load(t.mixProgram("x", t.grid(), f.b, 3, 0))
	for range t.size(50, 12) {
		t.ok(q.Run(t.ctx, x))
		f.run(3, t.grid())
	}
	t.finishBoth()
	f.check("after all runs")
}

func programsInTurn(t *fixture, n int) { t.inTurn(n, t.size(24, 6)) }

func (t *fixture) inTurn(n, turns int) {
	f, e := t.follow(), t.dev.NewEvent("turn")
	on := chip.Range{End: chip.Core{X: 3, Y: 3}}
	xs := []*reprise.Executable{t.load(t.mixProgram("a", on, f.b, 1, 0)), t.load(t.mixProgram("b", t.grid(), f.b, 2, 0))}
	ranges := []chip.Range{on, t.grid()}
	for turn := range turns {
		q, last := t.both()[turn%2], t.both()[(turn+1)%2]
		t.follows(q, last, e)
		for i := range n {
			k := (turn + i) % 2
			t.ok(q.Run(t.ctx, xs[k]))
			f.run(uint32(k+1), ranges[k])
		}
	}
	t.finishBoth()
	f.check("after all turns")
}

func sizesInTurn(t *fixture) {
	f, e := t.follow(), t.dev.NewEvent("turn")
	on := chip.Range{End: chip.Core{X: 2, Y: 2}}
	var xs []*reprise.Executable
	for i, n := range []int{0, 40_000, 1000, 30_000, 60_000, 5000} {
		xs = append(xs, t.load(t.mixProgram(fmt.Sprintf("size %d", n), on, f.b, uint32(i+1), n&^15)))
	}
	for turn := range t.size(60, 12) {
		q, last := t.both()[turn%2], t.both()[(turn+1)%2]
		t.follows(q, last, e)
		for i := range 1 + turn%4 {
			k := (turn*5 + i) % len(xs)
			t.ok(q.Run(t.ctx, xs[k]))
			f.run(uint32(k+1), on)
		}
	}
	t.finishBoth()
	f.check("after all turns")
}

func overlapIsRefused(t *fixture) {
	f, q := t.follow(), t.both()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 9, 0))
	tr := t.captureOn(q[1], "tr", x)
	t.ok(q[0].Run(t.ctx, x))
	f.run(9, t.grid())
	for what, err := range map[string]error{"run": q[1].Run(t.ctx, x), "replay": tr.Replay(t.ctx)} {
		var o *dispatch.OverlapError
		if !errors.As(err, &o) || o.Queue != 1 || o.Owner != 0 || o.Last != `run program "x"` {
			t.Errorf("%s without an edge: %v", what, err)
		}
	}
	t.ok(q[0].Run(t.ctx, x)) // the owner goes on
	f.run(9, t.grid())
	t.follows(q[1], q[0], t.dev.NewEvent("e"))
	t.ok(tr.Replay(t.ctx))
	f.run(9, t.grid())
	t.finishBoth()
	f.check("after what was taken")
}

func passedByHost(t *fixture) {
	f, q := t.follow(), t.both()
	e := t.dev.NewEvent("e")
	x := t.load(t.mixProgram("x", t.grid(), f.b, 4, 0))
	for i := range t.size(12, 6) {
		by := q[i%2]
		t.ok(by.Run(t.ctx, x))
		f.run(4, t.grid())
		switch i % 3 {
		case 0:
			t.ok(by.Wait(t.ctx))
		case 1:
			t.ok(by.Record(t.ctx, e))
			t.ok(e.Wait(t.ctx))
		case 2:
			t.ok(by.Read(t.ctx, f.b, 0, make([]byte, f.b.Size())))
		}
	}
	t.finishBoth()
	f.check("after all")
}

func traceOnQueue1(t *fixture, n int) {
	f, q, e := t.follow(), t.both(), t.dev.NewEvent("e")
	on := chip.Range{End: chip.Core{X: 3, Y: 2}}
	x := t.load(t.mixProgram("x", on, f.b, 7, 0))
	var xs []*reprise.Executable
	for range n {
		xs = append(xs, x)
	}
	tr := t.captureOn(q[1], "tr", xs...)
	for i := range t.size(6, 3) {
		t.ok(tr.Replay(t.ctx))
		t.ok(q[1].Run(t.ctx, x))
		t.follows(q[0], q[1], e)
		for range i {
			t.ok(q[0].Run(t.ctx, x))
		}
		t.follows(q[1], q[0], e)
		for range n + 1 + i {
			f.run(7, on)
		}
	}
	t.finishBoth()
	f.check("after all replays")
}

func tracesInTurn(t *fixture) {
	f, q, e := t.follow(), t.both(), t.dev.NewEvent("turn")
	on := chip.Range{End: chip.Core{X: 4, Y: 1}}
	x, y := t.load(t.mixProgram("x", on, f.b, 1, 0)), t.load(t.mixProgram("y", on, f.b, 2, 20_000))
	trs := [2]*reprise.Trace{t.captureOn(q[0], "first", x, y, x), t.captureOn(q[1], "second", y, y, x, x, x, y, x, x, y)}
	what := [2][]uint32{{1, 2, 1}, {2, 2, 1, 1, 1, 2, 1, 1, 2}}
	for i := range t.size(40, 8) {
		k := i * 3 / 2 % 2
		t.follows(q[k], q[1-k], e)
		for range 1 + i%3 {
			t.ok(trs[k].Replay(t.ctx))
			for _, number := range what[k] {
				f.run(number, on)
			}
		}
	}
	t.finishBoth()
	f.check("after all turns")
}

func capturesOnBoth(t *fixture) {
	f, q := t.follow(), t.both()
	on := chip.Range{End: chip.Core{X: 2, Y: 2}}
	x := t.load(t.mixProgram("x", on, f.b, 5, 0))
	var trs [2]*reprise.Trace
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			trs[i], errs[i] = q[i].Capture(t.ctx, fmt.Sprint(i), func(_ context.Context, r *reprise.Recorder) error {
				for range 10 + i {
					if err := r.Run(x); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	wg.Wait()
	t.ok(errors.Join(errs...))
	for i := range 2 {
		t.closing(trs[i].Release)
		if n := len(trs[i].Parts()[0].Steps); n != 10+i {
			t.Errorf("trace %d has %d steps, want %d", i, n, 10+i)
		}
		t.ok(trs[i].Replay(t.ctx))
		t.ok(q[i].Wait(t.ctx))
	}
	for range 21 {
		f.run(5, on)
	}
	f.check("after both replays")
}

func transfersOnBoth(t *fixture) {
	var bufs [2]*reprise.Buffer
	for i := range bufs {
		bufs[i] = t.buffer(allocator.DRAM, 2048*t.size(500, 60), 2048)
	}
	var wg sync.WaitGroup
	for i, q := range t.both() {
		wg.Go(func() {
			for round := range t.size(10, 3) {
				want, got := pattern(uint32(100*i+round), bufs[i].Size()), make([]byte, bufs[i].Size())
				if err := errors.Join(q.Write(t.ctx, bufs[i], 0, want), q.Read(t.ctx, bufs[i], 0, got)); err != nil {
					t.Errorf("queue %d, round %d: %v", i, round, err)
				}
				if d := difference(want, got); d != "" {
					t.Errorf("queue %d, round %d: %s", i, round, d)
				}
			}
		})
	}
	wg.Wait()
}

func transfersBeside(t *fixture) {
	q, b := t.both(), t.buffer(allocator.DRAM, 2048*40, 2048)
	release := t.spinning(q[0], t.grid())
	for i := range t.size(5, 2) {
		want, got := pattern(uint32(i), b.Size()), make([]byte, b.Size())
		t.ok(q[1].Write(t.ctx, b, 0, want))
		t.ok(q[1].Read(t.ctx, b, 0, got))
		t.same("beside a program that spins", want, got)
	}
	release(q[1])
	t.finishBoth()
}

func goroutinesOnBoth(t *fixture) {
	// Additions of one number commute; the queues take turns, the goroutines of a queue don't.
	f, q, e := t.follow(), t.both(), t.dev.NewEvent("turn")
	on := chip.Range{End: chip.Core{X: 2, Y: 2}}
	x := t.load(t.mixProgram("x", on, f.b, 5, 0))
	trs := [2]*reprise.Trace{t.captureOn(q[0], "t0", x), t.captureOn(q[1], "t1", x)}
	bufs := []*reprise.Buffer{t.buffer(allocator.DRAM, 64*50, 64), t.buffer(allocator.DRAM, 64*50, 64), t.buffer(allocator.DRAM, 64*50, 64),
		t.buffer(allocator.DRAM, 64*50, 64)}
	rounds := t.size(8, 3)
	for round := range rounds {
		k := round % 2
		t.follows(q[k], q[1-k], e)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				by := q[k]
				if g >= 2 {
					by = q[1-k] // moves data meanwhile
				} else if err := errors.Join(by.Run(t.ctx, x), trs[k].Replay(t.ctx)); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
				}
				want, got := pattern(uint32(100*g+round), bufs[g].Size()), make([]byte, bufs[g].Size())
				if err := errors.Join(by.Write(t.ctx, bufs[g], 0, want), by.Read(t.ctx, bufs[g], 0, got)); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
				}
				if d := difference(want, got); d != "" {
					t.Errorf("goroutine %d: %s", g, d)
				}
			})
		}
		wg.Wait()
	}
	t.finishBoth()
	for range 4 * rounds {
		f.run(5, on)
	}
	f.check("after all")
}

func startedReads(t *fixture) {
	type pending struct {
		*reprise.Pending
		want, got []byte
	}
	var reads []pending
	for i := range t.size(500, 60) {
		q := t.both()[i%2]
		b := t.buffer(allocator.DRAM, 32*(1+i%40), 32)
		p := pending{want: pattern(uint32(i), b.Size()), got: make([]byte, b.Size())}
		t.ok(q.Write(t.ctx, b, 0, p.want))
		var err error
		p.Pending, err = q.StartRead(t.ctx, b, 0, p.got)
		t.ok(err)
		reads = append(reads, p)
	}
	for i, p := range reads {
		t.ok(p.Wait(t.ctx))
		t.same(fmt.Sprintf("read %d", i), p.want, p.got)
	}
}

func bothAtOnce(t *fixture) {
	f, q, on := t.follow(), t.both(), splitRanges()
	x := t.load(t.mixProgram("x", on[1], f.b, 6, 0))
	tr := t.captureOn(q[1], "tr", x, x)
	release := t.spinning(q[0], on[0])
	for range t.size(10, 4) {
		t.ok(q[1].Run(t.ctx, x))
		t.ok(tr.Replay(t.ctx))
		for range 3 {
			f.run(6, on[1])
		}
	}
	t.ok(q[1].Wait(t.ctx)) // while the other queue's program runs
	release(q[1])
	t.finishBoth()
	f.check("after both")
}

func splitRuns(t *fixture) {
	f, q, on := t.follow(), t.both(), splitRanges()
	var xs [2][]*reprise.Executable
	var trs [2]*reprise.Trace
	sizes := []int{0, 30_000, 1000, 60_000}
	for i := range 2 {
		for k, size := range sizes {
			xs[i] = append(xs[i], t.load(t.mixProgram(fmt.Sprint(k), on[i], f.b, uint32(10*i+k), size&^15)))
		}
		trs[i] = t.captureOn(q[i], fmt.Sprint(i), xs[i][2], xs[i][0], xs[i][1])
	}
	n := t.size(40, 8)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for k := range n {
				err := q[i].Run(t.ctx, xs[i][k*(i+3)%len(sizes)])
				if k%3 == i {
					err = errors.Join(err, trs[i].Replay(t.ctx))
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
			f.run(uint32(10*i+k*(i+3)%len(sizes)), on[i])
			if k%3 == i {
				for _, number := range []int{2, 0, 1} {
					f.run(uint32(10*i+number), on[i])
				}
			}
		}
	}
	t.finishBoth()
	f.check("after both")
}

func splitRefuses(t *fixture) {
	f, q, on := t.follow(), t.both(), splitRanges()
	if got := [2]chip.Range{q[0].Workers(), q[1].Workers()}; got != on {
		t.Errorf("the queues have the workers %v, want %v", got, on)
	}
	for _, wrong := range []chip.Range{t.grid(), on[0], {Start: on[0].End, End: on[1].End}, chip.Single(4, 0)} {
		x := t.load(t.mixProgram("x", wrong, f.b, 6, 0))
		_, err := q[1].Capture(t.ctx, "tr", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
		for what, err := range map[string]error{"run": q[1].Run(t.ctx, x), "capture": err} {
			var w *dispatch.WorkersError
			if !errors.As(err, &w) || w.Queue != 1 || w.Workers != on[1] || w.Cores != wrong {
				t.Errorf("%s on %v: %v", what, wrong, err)
			}
		}
		t.says(err, `run program "x" at `, "the queue starts the workers")
	}
	t.finishBoth()
	f.check("nothing ran")
}

func splitIdle(t *fixture) {
	f, q, on := t.follow(), t.both(), splitRanges()
	xs := [2]*reprise.Executable{t.load(t.mixProgram("left", on[0], f.b, 1, 0)), t.load(t.mixProgram("right", on[1], f.b, 2, 0))}
	// If the other queue's workers took these for theirs, they would be out of step for what they run next.
	for i := range t.size(30, 8) {
		k := i / 5 % 2
		t.ok(q[k].Run(t.ctx, xs[k]))
		f.run(uint32(k+1), on[k])
	}
	t.finishBoth()
	f.check("after all")
}

func splitAcross(t *fixture) {
	q, on := t.both(), splitRanges()
	there, back := t.dev.NewEvent("there"), t.dev.NewEvent("back")
	a, b := t.buffer(allocator.DRAM, 64*8, 64), t.buffer(allocator.DRAM, 64*8, 64)
	xs := [2]*reprise.Executable{t.load(t.addProgram("there", on[0].End, a, b, 1)), t.load(t.addProgram("back", on[1].Start, b, a, 2))}
	tr := t.captureOn(q[1], "back", xs[1])
	t.ok(q[0].Write(t.ctx, a, 0, make([]byte, a.Size())))
	n := t.size(30, 8)
	for i := range n {
		t.ok(q[0].Run(t.ctx, xs[0]))
		t.follows(q[1], q[0], there)
		if i%2 == 0 {
			t.ok(tr.Replay(t.ctx))
		} else {
			t.ok(q[1].Run(t.ctx, xs[1]))
		}
		t.follows(q[0], q[1], back)
	}
	got := make([]byte, a.Size())
	t.ok(q[0].Read(t.ctx, a, 0, got))
	want := make([]byte, a.Size())
	for i := 0; i < len(want); i += 4 {
		want[i] = byte(3 * n)
	}
	t.same("handed to and fro", want, got)
	t.finishBoth()
}

func splitFinish(t *fixture) {
	q, on := t.both(), splitRanges()
	release := t.spinning(q[0], on[0])
	e, held := t.dev.NewEvent("e"), t.dev.NewEvent("held")
	t.ok(q[0].Record(t.ctx, held))
	for range t.size(20, 5) {
		t.ok(q[1].Record(t.ctx, e))
		t.ok(e.Wait(t.ctx))
		t.ok(q[1].Wait(t.ctx))
	}
	if done, err := held.Query(); done || err != nil {
		t.Errorf("an event after a program that spins: %v, %v", done, err)
	}
	release(q[1])
	t.ok(held.Wait(t.ctx))
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	if err := held.Wait(ctx); err != nil { // what is done needs no time
		t.Errorf("synchronize with what is done: %v", err)
	}
	t.finishBoth()
}

// addProgram adds a number to every word of a buffer of pages of 64 B into another, on one core.
func (t *fixture) addProgram(name string, at chip.Core, in, out *reprise.Buffer, addend uint32) *reprise.Program {
	t.Helper()
	const from, to = 0, 16
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	n := uint32(in.Size() / in.PageSize())
	args := func(a ...uint32) func(chip.Core) []uint32 { return func(chip.Core) []uint32 { return a } }
	return &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{
			{Name: "reader", Image: t.kernel(kernels.CopyReader), Processor: chip.BRISC, Cores: cores, Args: args(in.Addr(), 0, n, 64, from)},
			{Name: "add", Image: t.kernel(kernels.Add), Processor: chip.TRISC0, Cores: cores, Args: args(from, to, n, addend)},
			{Name: "writer", Image: t.kernel(kernels.CopyWriter), Processor: chip.NCRISC, Cores: cores, Args: args(out.Addr(), 0, n, 64, to)},
		},
		CircularBuffers: []reprise.CircularBuffer{
			{Index: from, Cores: cores, PageSize: 64, Pages: 2},
			{Index: to, Cores: cores, PageSize: 64, Pages: 2},
		},
		Buffers: []*reprise.Buffer{in, out},
	}
}
