package traces

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
)

func captureCases() (cs rig.Table) {
	cs.Add("begin and end", "between Begin and End a queue records what it is given", beginAndEnd)
	cs.Add("buffer freed inside a capture", "memory that is freed inside a capture isn't handed out beside the trace", freedInCapture)
	cs.Add("release with replays in the queue", "a release waits for replays, and new traces work in its place", releaseBehindReplays)
	cs.Add("traces share a pool", "traces whose intermediates share memory each compute what they should", tracesSharePool)
	rig.Each(&cs, "%s inside a capture", "what a trace can't hold is a *CaptureError, and the queue works on", insideCapture,
		"write", "read", "queue wait", "run", "replay", "capture", "begin", "allocate", "load", "record", "event wait", "synchronize")
	rig.Each(&cs, "parameter of %d programs", "a replay has the value that was set last before it, in all programs",
		paramOf, 1, 2, 9, 40)
	cs.Add("parameters of single cores", "an argument of one core changes without those of its neighbours", paramOfCores)
	cs.Add("last argument of many", "words anywhere in long lists of arguments can be set", paramOfMany)
	cs.Add("buffers as parameters", "replays read and write the buffers that were set before them", ParamBuffers)
	cs.Add("replay with parameters allocates nothing", "a replay allocates nothing, whether parameters have changed or not",
		paramAllocates).Alone = true
	cs.Add("arguments of programs", "a run has the arguments set last, a trace those of its capture", setArguments)
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
	f := t.Follow()
	x := f.Load("x", 5)
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

func freedInCapture(t *rig.T) {
	b := t.L1Buffer(64*t.Grid().Size(), 64)
	x := t.Load(t.StoreProgram("x", t.Grid(), b, 1))
	tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error { return errors.Join(r.Run(x), x.Release(t.Ctx), b.Release()) }))
	leavesOthers(t, tr, b)
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

func paramOf(t *rig.T, n int) { ParamRounds(t, t.Size(n, min(n, 6)), t.Size(50, 8)) }

// ParamRounds replays a trace of n programs so many times, with a parameter that all of them have.
func ParamRounds(t *rig.T, n, rounds int) {
	f := t.Follow()
	x := f.Load("x", 5)
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
	f := t.Follow()
	x := f.Load("x", 5)
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

func setArguments(t *rig.T) {
	f := t.Follow()
	x := f.Load("x", 5)
	tr := f.Capture("t", x)
	for i := range uint32(6) {
		t.OK(x.SetArg(rig.MixNumber, 10*i), t.Queue.Run(t.Ctx, x))
		f.Run(10 * i)
		f.Replay(tr)
	}
	f.Check("runs and replays")
}
