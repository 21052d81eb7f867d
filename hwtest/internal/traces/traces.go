// Package traces has the cases of recorded traces: capture, replay, parameters, files, debugging.
package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/programs"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kernels"
)

// Cases are the cases of layer traces.
func Cases() (cs rig.Table) {
	for _, n := range []int{1, 2, 6, 7, 8, 9, 16, 17, 100, 500} {
		rig.Pairs(&cs, "%d programs %d times", "a replay runs each recorded program once, in order, every time",
			func(t *rig.T, n, replays int) { TraceOf(t, n, replays, false) }, []int{n}, []int{1, 10})
		rig.Each(&cs, "%d programs with runs between", "replays and ordinary runs follow each other in order",
			func(t *rig.T, n int) { TraceOf(t, n, 4, true) }, n)
	}
	rig.Each(&cs, "%d traces alive", "several traces replay in any order without touching each other", tracesAlive, 1, 3, 8)
	cs = slices.Concat(cs, captureCases(), debugCases(), fileCases())
	cs.Add("capture runs nothing", "what is recorded doesn't run, and the queue goes on as before", captureRunsNothing)
	cs.Add("hundreds of replays", "replays follow each other without waits, hundreds of times", func(t *rig.T) {
		on := chip.Grid(2, 2)
		f, x := t.Mixing(5, on)
		tr := f.Capture("t", x, x)
		for range t.Size(t.More(1000, 50_000), 100) {
			f.Replay(tr)
		}
		f.Check("after all replays")
	})
	cs.Add("different programs", "programs of all sizes share the kernel-config ring in a replay", mixedSizes)
	cs.Add("long commands", "a program whose commands span fetch entries can be recorded", func(t *rig.T) {
		longTrace(t, func(tr *reprise.Trace) { t.OK(tr.Replay(t.Ctx), t.Queue.Wait(t.Ctx)) })
	})
	cs.Add("input of a replay", "a replay reads what its buffers hold now, not what they held at the capture", inputs)
	cs.Add("release gives memory back", "after a release everything is allocated as before the capture", traceRelease)
	cs.Add("error names the place", "a *CaptureError names the operation and the caller's line", captureErrorPlace)
	cs.Add("closed program in a trace", "a trace keeps the kernels of a program that was closed", closedInTrace)
	cs.Add("freed buffer in a trace", "memory that a trace writes isn't handed out before its release", func(t *rig.T) {
		b := t.L1Buffer(64*t.Grid().Size(), 64)
		x := t.Load(t.StoreProgram("x", t.Grid(), b, 1))
		tr := t.Capture("t", x)
		t.Release(x)
		t.Free(b)
		leavesOthers(t, tr, b)
		t.Release(tr)
		rig.Equal(t, t.L1Buffer(b.Size(), 64).Addr(), b.Addr(), "address of a buffer after the release")
	})
	cs.Add("description", "a trace's size, steps, extents and text agree", traceDescription)
	cs.Add("concurrent use", "a queue takes replays, runs and transfers from several goroutines", concurrentUse)
	cs.Add("replays allocate nothing", "a replay allocates no memory on the host", replayAllocates).Alone = true
	return cs
}

// TraceOf replays a trace of n programs, with runs between replays if asked.
func TraceOf(t *rig.T, n, replays int, between bool) {
	if t.Device.Kind == target.Simulator {
		n, replays = min(n, 60), min(replays, 3)
	}
	f := t.Follow()
	on := chip.Grid(4, 3)
	var xs, seq []*reprise.Executable
	for i := range min(n, 5) {
		xs = append(xs, f.Load(fmt.Sprint(i), uint32(i+1), on))
	}
	for i := range n {
		seq = append(seq, xs[i*3%len(xs)])
	}
	tr := f.Capture("trace", seq...)
	for r := range replays {
		f.Replay(tr)
		for k := 0; between && k <= r; k++ {
			f.Start(xs[k%len(xs)])
		}
	}
	f.Check("after all replays")
}

func tracesAlive(t *rig.T, n int) {
	f := t.Follow()
	var traces []*reprise.Trace
	for i := range n {
		x := f.Load(fmt.Sprint(i), uint32(100+i))
		traces = append(traces, f.Capture(fmt.Sprint(i), x, x))
	}
	for k := range 5 * n {
		f.Replay(traces[k*k%n])
	}
	f.Check("all traces")
}

func captureRunsNothing(t *rig.T) {
	f, x := t.Mixing(9)
	f.Start(x)
	tr := t.Capture("t", x, x, x)
	f.Check("after the capture")
	f.Start(x)
	f.Check("after a run after the capture")
	t.Release(tr)
	f.Start(x)
	f.Check("after a trace that never ran was released")
}

func mixedSizes(t *rig.T) {
	f := t.Follow()
	xs := f.LoadSizes(1, []int{0, 40_000, 1000, 30_000, 69_000, 5000, 20_000})
	var seq []*reprise.Executable
	for i := range t.Size(120, 20) {
		seq = append(seq, xs[i*i%len(xs)])
	}
	tr := f.Capture("t", seq...)
	for r := range 3 {
		f.Replay(tr)
		f.Start(xs[r])
	}
	f.Check("after three replays")
}

// longTrace records runs of a program whose commands are longer than a fetch entry may be.
func longTrace(t *rig.T, play func(*reprise.Trace)) {
	x, lengthen, check := programs.LongProgram(t)
	lengthen()
	play(t.Capture("t", x, x))
	check()
}

func inputs(t *rig.T) {
	const size, pages = 512, 40
	in, out, room := t.DRAMBuffer(pages*size, size), t.DRAMBuffer(pages*size, size), t.PerWorker(size)
	x := t.Load(t.CopyProgram("copy", chip.NCRISC, t.Grid().End, in, out, room))
	tr := t.Capture("copy", x)
	for i := range 5 {
		want := t.Fill(in, i)
		t.Replay(tr)
		t.Holds(out, want, "replay %d", i)
	}
}

func traceRelease(t *rig.T) {
	f, x := t.Mixing(5)
	before := t.Allocated()
	for range 3 {
		tr := f.Capture("t", x)
		if t.Allocated().Trace <= before.Trace {
			t.Error("a trace takes no memory")
		}
		f.Replay(tr)
		t.Release(tr)
		t.SameMemory(before)
	}
	f.Check("after the releases")
}

func captureErrorPlace(t *rig.T) {
	x := t.Load(t.BlankProgram("gone"))
	t.Release(x)
	_, err := t.Record("t", func(r *reprise.Recorder) error { return r.Run(x) })
	c := rig.As[*reprise.CaptureError](t, err)
	if !strings.HasSuffix(c.File, "traces/traces.go") || c.Line == 0 || !strings.Contains(c.Op, "gone") {
		t.Errorf("error %#v: %v", c, err)
	}
	_, err = t.Record("t", func(r *reprise.Recorder) error { _ = r.Run(x); return nil })
	t.Fails("a swallowed error", err, reprise.ErrReleased)
}

func closedInTrace(t *rig.T) {
	f := t.Follow()
	x := f.LoadLong("x", 5, 8192)
	tr := f.Capture("t", x)
	t.Release(x)
	// New buffers must not lie where the closed program's kernels are.
	b := t.DRAMBuffer(1<<20, 2048)
	t.Fill(b, 3)
	y := f.LoadLong("y", 6, 8192)
	for range 3 {
		f.Replay(tr)
		f.Start(y)
	}
	f.Check("replays of a closed program")
}

// leavesOthers replays a trace that writes a released buffer, beside buffers that are new.
func leavesOthers(t *rig.T, tr *reprise.Trace, b *reprise.Buffer) {
	var others []*reprise.Buffer
	for range 4 {
		o := t.L1Buffer(b.Size(), 64)
		if o.Addr() < b.Addr()+64 && b.Addr() < o.Addr()+64 {
			t.Errorf("a buffer at %#x overlaps the one at %#x that a trace writes", o.Addr(), b.Addr())
		}
		t.Write(o, rig.Pattern(o.Addr(), o.Size()))
		others = append(others, o)
	}
	t.Replay(tr)
	for _, o := range others {
		t.Holds(o, rig.Pattern(o.Addr(), o.Size()), "another buffer after the replay")
	}
}

func traceDescription(t *rig.T) {
	f := t.Follow()
	x, y := f.Load("first", 5), f.Load("second", 6)
	if x.Cores() != t.Grid().Size() || x.Commands().Bytes <= 0 {
		t.Errorf("a program has %d cores and %d B of commands", x.Cores(), x.Commands().Bytes)
	}
	before := t.Dev.Memory(allocator.Trace)
	tr := t.Capture("two", x, y, x)
	if tr.Name() != "two" || len(tr.Parts()[0].Steps) != 3 || tr.Parts()[0].Steps[1].Name != "second" {
		t.Errorf("%q: %+v", tr.Name(), tr.Parts()[0].Steps)
	}
	at := 0
	for _, s := range tr.Parts()[0].Steps {
		if s.Offset != at || s.Size <= 0 {
			t.Errorf("step %+v, want one at %d", s, at)
		}
		at += s.Size
	}
	total := 0
	for i, e := range tr.Parts()[0].Extents {
		if e.Bank != i || e.End <= e.Start || e.End > t.Dev.DRAMBankSize() {
			t.Errorf("extent %+v", e)
		}
		total += int(e.End - e.Start)
	}
	if total != tr.Size() || tr.Size() < at {
		t.Errorf("extents have %d B, the trace %d B, its steps %d B", total, tr.Size(), at)
	}
	if m := t.Dev.Memory(allocator.Trace); m.Extents != before.Extents+1 || (m.Allocated-before.Allocated)*uint64(m.Banks) < uint64(total) {
		t.Errorf("the banks hold %d B, the allocator has %+v, before %+v", total, m, before)
	}
	if n := tr.Parts()[0].ReplayBytes; n <= 0 || n > 512 {
		t.Errorf("a replay writes %d B", n)
	}
	var text bytes.Buffer
	t.OK(tr.Print(&text))
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if last := lines[len(lines)-1]; len(lines) < 10 || !strings.Contains(last, "EXEC_BUF_END") {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
	for _, w := range []string{"WRITE_PACKED", "SEND_GO_SIGNAL", "WRITE_PACKED_LARGE", "EXEC_BUF_END"} {
		t.Says(errors.New(text.String()), w)
	}
}

func concurrentUse(t *rig.T) {
	on := chip.Grid(3, 3)
	f, x := t.Mixing(5, on)
	tr := t.Capture("t", x)
	n := t.Size(40, 10)
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for g := range 4 {
		b := t.DRAMBuffer(64*50, 64)
		wg.Go(func() {
			for i := range n {
				if g%2 == 0 {
					errs <- t.Queue.Run(t.Ctx, x)
				} else {
					errs <- tr.Replay(t.Ctx)
				}
				errs <- t.ComesBack(b, 100*g+i)
			}
		})
	}
	go func() { wg.Wait(); close(errs) }()
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	t.Wait()
	for range 4 * n {
		f.Ran(x)
	}
	f.Check("all runs and replays")
}

func replayAllocates(t *rig.T) {
	on := t.Grid().Start.Range()
	f, x := t.Mixing(5, on)
	tr := t.Capture("t", x)
	replay := func() {
		t.Replay(tr)
		f.Run(5, on)
	}
	replay()
	t.AllocatesNothing("a replay", replay)
	f.Check("all replays")
}

func captureCases() (cs rig.Table) {
	cs.Add("begin and end", "between Begin and End a queue records what it is given", beginAndEnd)
	cs.Add("buffer freed inside a capture", "memory that is freed inside a capture isn't handed out beside the trace", func(t *rig.T) {
		b := t.L1Buffer(64*t.Grid().Size(), 64)
		x := t.Load(t.StoreProgram("x", t.Grid(), b, 1))
		tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error { return errors.Join(r.Run(x), x.Release(t.Ctx), b.Release()) }))
		leavesOthers(t, tr, b)
	})
	cs.Add("release with replays in the queue", "a release waits for replays, and new traces work in its place", releaseBehindReplays)
	cs.Add("traces share a pool", "traces whose intermediates share memory each compute what they should", tracesSharePool)
	rig.Each(&cs, "%s inside a capture", "what a trace can't hold is a *CaptureError, and the queue works on", insideCapture,
		"write", "read", "queue wait", "run", "replay", "capture", "begin", "allocate", "load", "record", "event wait", "synchronize")
	rig.Each(&cs, "parameter of %d programs", "a replay has the value that was set last before it, in all programs",
		func(t *rig.T, n int) { ParamRounds(t, t.Size(n, min(n, 6)), t.Size(50, 8)) }, 1, 2, 9, 40)
	cs.Add("parameters of single cores", "an argument of one core changes without those of its neighbours", paramOfCores)
	cs.Add("last argument of many", "words anywhere in long lists of arguments can be set", paramOfMany)
	cs.Add("buffers as parameters", "replays read and write the buffers that were set before them", ParamBuffers)
	cs.Add("replay with parameters allocates nothing", "a replay allocates nothing, whether parameters have changed or not",
		paramAllocates).Alone = true
	cs.Add("arguments of programs", "a run has the arguments set last, a trace those of its capture", func(t *rig.T) {
		f, x := t.Mixing(5)
		tr := f.Capture("t", x)
		for i := range uint32(6) {
			t.OK(x.SetArg(rig.MixNumber, 10*i), t.Queue.Run(t.Ctx, x))
			f.Run(10 * i)
			f.Replay(tr)
		}
		f.Check("runs and replays")
	})
	return cs
}

func forbidden(t *rig.T, ctx context.Context, x *reprise.Executable, tr *reprise.Trace, b *reprise.Buffer,
	e *reprise.Event) map[string]func() error {
	data := make([]byte, b.Size())
	return map[string]func() error{
		"write":      func() error { return t.Queue.Write(ctx, b, 0, data) },
		"read":       func() error { return t.Queue.Read(ctx, b, 0, data) },
		"queue wait": func() error { return t.Queue.Wait(ctx) },
		"run":        func() error { return t.Queue.Run(ctx, x) },
		"replay":     func() error { return tr.Replay(ctx) },
		"capture": func() error {
			return rig.Error(t.Queue.Capture(ctx, "inner", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) }))
		},
		"begin":       func() error { return rig.Error(t.Queue.Begin("inner")) },
		"load":        func() error { return rig.Error(t.Dev.Load(ctx, t.StoreProgram("late", t.Grid(), b, 1))) },
		"record":      func() error { return t.Queue.Record(ctx, e) },
		"event wait":  func() error { return t.Queue.WaitEvent(ctx, e) },
		"synchronize": func() error { return e.Wait(ctx) },
	}
}

func insideCapture(t *rig.T, op string) {
	f, x := t.Mixing(5)
	other := f.Capture("other", x)
	e := t.Dev.NewEvent("e")
	t.OK(t.Queue.Record(t.Ctx, e))
	before := t.Allocated()
	var err error
	switch op {
	case "allocate": // has no context, so that only Begin's captures know
		err = allocateInCapture(t, x)
	case "begin":
		tr, failed := t.Queue.Capture(t.Ctx, "t", func(ctx context.Context, r *reprise.Recorder) error {
			err = forbidden(t, ctx, x, other, f.Buffer, e)[op]()
			return r.Run(x)
		})
		t.OK(failed)
		t.Release(tr)
	default:
		_, err = t.Queue.Capture(t.Ctx, "t", func(ctx context.Context, r *reprise.Recorder) error {
			if err := r.Run(x); err != nil {
				return err
			}
			_ = forbidden(t, ctx, x, other, f.Buffer, e)[op]()
			return r.Run(x)
		})
	}
	t.Fails(op, err, reprise.ErrInCapture)
	if ce := rig.As[*reprise.CaptureError](t, err); ce.Instead == "" {
		t.Errorf("error %v", err)
	}
	t.SameMemory(before)
	f.Start(x)
	f.Replay(other)
	f.Check("after the capture")
}

func allocateInCapture(t *rig.T, x *reprise.Executable) error {
	r, err := t.Queue.Begin("t")
	t.OK(err)
	t.Start(x)
	_, err = t.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "late"})
	t.OK(r.Discard())
	return err
}

func beginAndEnd(t *rig.T) {
	f := t.Follow()
	x, y := f.Load("x", 5), f.Load("y", 6)
	f.Start(x, y)
	r, err := t.Queue.Begin("t")
	t.OK(err)
	recorded := []*reprise.Executable{x, y, x, y}
	for _, x := range recorded {
		t.Start(x)
	}
	tr := t.Hold(r.End(t.Ctx))
	rig.Equal(t, len(tr.Parts()[0].Steps), 4, "programs that were recorded")
	f.Start(x, y)
	f.Check("nothing ran in between")
	t.Replay(tr)
	for _, x := range recorded {
		f.Ran(x)
	}
	f.Check("the replay")
}

func releaseBehindReplays(t *rig.T) {
	f := t.Follow()
	xs := []*reprise.Executable{f.Load("x", 5), f.Load("y", 6)}
	before := t.Allocated()
	for i := range t.Size(20, 4) {
		tr := f.Capture("t", xs[i%2], xs[i%2])
		for range 3 {
			f.Replay(tr)
		}
		t.Release(tr)
	}
	f.Check("all replays")
	t.SameMemory(before)
}

func tracesSharePool(t *rig.T) {
	const page, pages = 512, 24
	in, out, room := t.DRAMBuffer(pages*page, page), t.DRAMBuffer(pages*page, page), t.PerWorker(page)
	pool, err := t.Dev.NewPool(reprise.PoolConfig{Kind: allocator.DRAM, Size: pages * page, Name: "scratch"})
	t.OK(err)
	copyProgram := func(name string, from, to *reprise.Buffer) *reprise.Executable {
		return t.Load(t.CopyProgram(name, chip.NCRISC, chip.Core{}, from, to, room))
	}
	first, second := copyProgram("first", in, out), copyProgram("second", in, out)
	var traces []*reprise.Trace
	var places []uint32
	for range 2 {
		tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error {
			mid, err := pool.NewBuffer(reprise.BufferConfig{Size: pages * page, PageSize: page, Name: "mid"})
			if err != nil {
				return err
			}
			places = append(places, mid.Addr())
			return errors.Join(
				first.SetBuffer(mid, reprise.Arg{Kernel: "copy", Index: 1}), r.Run(first),
				second.SetBuffer(mid, reprise.Arg{Kernel: "copy", Index: 0}), r.Run(second), mid.Release())
		}))
		traces = append(traces, tr)
	}
	t.Free(pool)
	rig.Equal(t, places[0], places[1], "places of intermediates")
	for i := range 4 {
		want := t.Fill(in, i)
		t.Replay(traces[i%2])
		t.Holds(out, want, "replay %d", i)
	}
}

// ParamRounds replays a trace of n programs so many times, with a parameter that all of them have.
func ParamRounds(t *rig.T, n, rounds int) {
	f, x := t.Mixing(5)
	tr := t.Trace("t", func(r *reprise.Recorder) {
		for range n {
			r.Run(x)
			r.Param("number", rig.MixNumber)
		}
	})
	values := []uint32{5, 5, 1000, 7, 7, 1 << 31, 5}
	for i := range rounds {
		v := values[i%len(values)]
		t.OK(tr.Set("number", v))
		t.Replay(tr)
		for range n {
			f.Run(v)
		}
		if i%9 == 0 {
			f.Start(x)
		}
	}
	f.Check("all replays")
	t.OK(tr.Debug().Verify(t.Ctx))
}

func paramOfCores(t *rig.T) {
	b := t.PerWorker(16)
	prog := t.MixProgram("x", t.Grid(), b, 0, 0)
	prog.Kernels[0].Args = rig.Args(b.Addr(), 0)
	x := t.Load(prog)
	tr := t.Trace("t", func(r *reprise.Recorder) {
		r.Run(x)
		for c := range t.Grid().Cores() {
			r.Param(c.String(), reprise.Arg{Kernel: "mix", Index: 1, Cores: []chip.Range{c.Range()}})
		}
	})
	value := make([]uint32, t.Grid().Size())
	words := make([]uint32, t.Grid().Size())
	for round := range uint32(4) {
		for c := range t.Grid().Cores() {
			if i := t.WorkerIndex(c); uint32(i)%4 <= round {
				value[i] = 100*round + uint32(i)
				t.OK(tr.Set(c.String(), value[i]))
			}
		}
		t.Replay(tr)
		for i := range words {
			words[i] = rig.Mixed(words[i], 0, int(value[i]))
		}
	}
	t.WantWords("mixed", b, 0, func(c chip.Core) uint32 { return words[t.WorkerIndex(c)] })
}

func paramOfMany(t *rig.T) {
	const n = 300
	b := t.PerWorker(4 * n)
	x := t.Load(rig.OneKernel(reprise.Kernel{
		Name: "store", Image: t.Kernel(kernels.Store), Processor: chip.TRISC0, Cores: []chip.Range{t.Grid()}, Common: []uint32{0},
		Args: rig.Args(append([]uint32{b.Addr(), n}, make([]uint32, n)...)...),
	}, b))
	tr := t.Trace("t", func(r *reprise.Recorder) {
		r.Run(x)
		for i := range n {
			r.Param(fmt.Sprint(i), reprise.Arg{Kernel: "store", Index: 2 + i})
		}
	})
	value := make([]uint32, n)
	for round := range 3 {
		for i := round; i < n; i += 7*round + 1 {
			value[i] = uint32(1000*round + i)
			t.OK(tr.Set(fmt.Sprint(i), value[i]))
		}
		t.Replay(tr)
	}
	for _, i := range []int{0, 1, 2, 3, 4, n / 2, n - 2, n - 1} {
		t.WantWords(fmt.Sprintf("word %d", i), b, i, func(chip.Core) uint32 { return value[i] })
	}
}

func ParamBuffers(t *rig.T) {
	const page, pages = 256, 30
	var bufs []*reprise.Buffer
	for range 4 {
		bufs = append(bufs, t.DRAMBuffer(page*pages, page))
	}
	room := t.PerWorker(page)
	x := t.Load(t.CopyProgram("copy", chip.NCRISC, chip.Core{}, bufs[0], bufs[1], room))
	tr := t.Trace("t", func(r *reprise.Recorder) {
		r.Run(x)
		r.ParamBuffer("from", bufs[0], reprise.Arg{Kernel: "copy"})
		r.ParamBuffer("to", bufs[1], reprise.Arg{Kernel: "copy", Index: 1})
	})
	holds := make([][]byte, len(bufs))
	for i, b := range bufs {
		holds[i] = rig.Pattern(i, b.Size())
		t.Write(b, holds[i])
	}
	for i := range t.Size(20, 5) {
		from, to := i*3%len(bufs), (i*3+1+i%3)%len(bufs)
		if i%4 == 3 {
			holds[from] = rig.Pattern(100+i, page*pages)
			t.Write(bufs[from], holds[from])
		}
		t.OK(tr.SetBuffer("from", bufs[from]), tr.SetBuffer("to", bufs[to]), tr.Replay(t.Ctx))
		holds[to] = holds[from]
	}
	for i, b := range bufs {
		t.Holds(b, holds[i], "buffer %d", i)
	}
}

func paramAllocates(t *rig.T) {
	f, x := t.Mixing(5)
	tr := t.Trace("t", func(r *reprise.Recorder) {
		r.Run(x)
		r.Param("number", rig.MixNumber)
	})
	v := uint32(5)
	replay := func() {
		t.Replay(tr)
		f.Run(v)
	}
	replay()
	t.AllocatesNothing("a replay", replay)
	t.AllocatesNothing("a replay with a changed parameter", func() {
		v++
		t.OK(tr.Set("number", v))
		replay()
	})
	f.Check("all replays")
}
