package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

func TestCaptureLeavesOthersAlone(t *testing.T) {
	b, c := open(t, sim.Wormhole(), reprise.WithQueues(2)), open(t, sim.Blackhole())
	in, out := b.Pages("in", 4), b.Pages("out", 4)
	x := b.Load(b.Adder("adder", chip.Core{}, in, out, 5))
	y := c.Load(c.blank("blank", c.Dev.Grid()))
	other := b.Capture("other", x)
	var inner *reprise.Trace
	trace := b.Record("outer", func(r *reprise.Recorder) error {
		done := make(chan error)
		go func() {
			b.Write(in, 1)
			err := errors.Join(b.Queue.Run(b.Ctx, x), other.Replay(b.Ctx), b.Queue.Wait(b.Ctx))
			t2, e := b.Queue.Capture(b.Ctx, "beside", record(x))
			if e == nil {
				e = t2.Release(b.Ctx)
			}
			done <- errors.Join(err, e)
		}()
		var err error
		inner, err = c.Queue.Capture(c.Ctx, "inner", record(y))
		return errors.Join(err, c.Queue.Run(c.Ctx, y), c.Queue.Wait(c.Ctx), r.Run(x), <-done)
	})
	b.Holds(out, 6)
	b.Write(in, 2)
	b.Must(errors.Join(trace.Replay(b.Ctx), inner.Replay(c.Ctx)))
	b.Holds(out, 7)
	c.Wait()
}

func TestLostCaptureLeavesNothing(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithTraceRegion(200_000))
	in, out := b.Pages("in", 4), b.Pages("out", 4)
	keep := b.Load(b.Adder("keep", chip.Core{}, in, out, 5))
	other := b.Capture("other", keep)
	canceled, cancel := context.WithCancel(b.Ctx)
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		runs int // of keep, after the rest
		end  func() error
	}{
		"panic":    {b.Ctx, 1, func() error { panic("mine") }},
		"canceled": {canceled, 1, func() error { return nil }},
		"no room":  {b.Ctx, 2000, func() error { return nil }},
	} {
		before := b.Dev.MemorySnapshot()
		buf := b.Pages("temporary", 9)
		x := b.Load(b.Adder("x", chip.Core{X: 1}, buf, buf, 1))
		func() {
			defer func() {
				if p := recover(); p != nil && p != "mine" {
					panic(p)
				}
			}()
			trace, err := b.Queue.Capture(c.ctx, name, func(_ context.Context, r *reprise.Recorder) error {
				b.Must(r.Run(x))
				b.Must(errors.Join(x.Release(b.Ctx), buf.Release()))
				for range c.runs {
					_ = r.Run(keep)
				}
				return c.end()
			})
			if name == "no room" && !errors.Is(err, reprise.ErrOutOfMemory) {
				b.Errorf("%s: %v", name, err)
			}
			if trace != nil {
				b.Must(trace.Release(b.Ctx))
			}
		}()
		if changes := before.Changes(); len(changes) > 0 {
			t.Errorf("%s: something is left: %v", name, changes)
		}
		b.Must(errors.Join(b.Queue.Run(b.Ctx, keep), other.Replay(b.Ctx), b.Queue.Wait(b.Ctx)))
	}
}

func TestRecoverKeepsParameters(t *testing.T) {
	b := open(t, sim.Blackhole())
	in, out := b.Pages("in", 2), b.Pages("out", 2)
	x := b.Load(b.Adder("adder", chip.Core{}, in, out, 5))
	trace := b.Record("trace", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.Param("addend", addend))
	})
	for i, set := range []uint32{5, 60, 700} {
		b.Must(trace.Set("addend", set))
		if i == 1 {
			b.Replay(trace)
		}
		b.Must(b.Dev.Recover(b.Ctx))
		b.Write(in, 1)
		b.Replay(trace)
		b.Holds(out, 1+set)
	}
}

func TestCaptureEndedInLoop(t *testing.T) {
	for name, end := range map[string]func(r *reprise.Recorder) error{
		"end":     func(r *reprise.Recorder) error { return second(r.End(context.Background())) },
		"discard": (*reprise.Recorder).Discard,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, sim.Blackhole())
			x := b.Load(b.blank("program", chip.Single(0, 0)))
			r, err := b.Queue.Begin("ended")
			b.Must(err)
			err = r.Loop(2, func() error {
				b.Must(r.Run(x))
				t.Log(end(r))
				return nil
			})
			b.fails("the loop", err, reprise.ErrCaptureEnded)
			r, err = b.Queue.Begin("refused")
			b.Must(err)
			var inner error
			err = r.Loop(2, func() error {
				inner = r.Param("nothing", reprise.Arg{})
				return nil
			})
			if inner == nil || err != inner {
				t.Errorf("the loop: %v, want %v", err, inner)
			}
			t.Log(end(r))
			b.Must(b.Capture("after", x).Replay(b.Ctx))
		})
	}
}

func TestBeginRefuses(t *testing.T) {
	b := open(t, sim.Blackhole())
	in, out := b.Pages("in", 4), b.Pages("out", 4)
	x := b.Load(b.Adder("adder", chip.Core{}, in, out, 5))
	other := b.Capture("other", x)
	before := b.Allocated()
	for name, op := range map[string]struct {
		do func() error
		is error
	}{
		"write":  {func() error { return b.Queue.Write(b.Ctx, in, 0, make([]byte, in.Size())) }, reprise.ErrInCapture},
		"read":   {func() error { return b.Queue.Read(b.Ctx, in, 0, make([]byte, in.Size())) }, reprise.ErrInCapture},
		"wait":   {func() error { return b.Queue.Wait(b.Ctx) }, reprise.ErrInCapture},
		"replay": {func() error { return other.Replay(b.Ctx) }, reprise.ErrReplayInCapture},
		"nested": {func() error { return second(b.Queue.Capture(b.Ctx, "inner", record(x))) }, reprise.ErrNestedCapture},
		"again":  {func() error { return second(b.Queue.Begin("again")) }, reprise.ErrNestedCapture},
	} {
		r := value(b.Queue.Begin(name))(b)
		b.Execute(x)
		got := op.do()
		var ce *reprise.CaptureError
		if !errors.Is(got, op.is) || !errors.As(got, &ce) || filepath.Base(ce.File) != "capture_test.go" || ce.Line == 0 ||
			ce.Instead == "" {
			t.Errorf("%s: %v, want %v", name, got, op.is)
		}
		trace, err := r.End(b.Ctx)
		if err == nil {
			b.Must(trace.Release(b.Ctx))
		}
		equal(t, op.is != reprise.ErrNestedCapture, errors.Is(err, op.is), "%s: the capture ended in %v", name, err)
		for what, err := range map[string]error{"end": second(r.End(b.Ctx)), "discard": r.Discard(),
			"end of nothing": second((*reprise.Recorder)(nil).End(b.Ctx))} {
			b.fails(what+" after the end", err, reprise.ErrNotCapturing)
		}
	}
	r := value(b.Queue.Begin("empty"))(b)
	b.fails("an empty capture", second(r.End(b.Ctx)), reprise.ErrEmptyTrace)
	b.sameMemory(before)
}

func TestKeep(t *testing.T) {
	onEmulators(t, func(b *bench) {
		x := b.Load(b.blank("nothing", chip.Single(0, 0)))
		kept := b.Pages("kept", 1)
		addr := kept.Addr()
		tr := b.Record("keeps", func(r *reprise.Recorder) error {
			if err := r.Run(x); err != nil {
				return err
			}
			return r.Keep(kept, kept)
		})
		b.Must(kept.Release())
		if other := b.Pages("other", 1); other.Addr() == addr {
			b.Error("the memory was given away")
		}
		b.Must(tr.Release(b.Ctx))
		equal(b, b.Pages("again", 1).Addr(), addr, "address of memory that is free again")
		var late *reprise.Recorder
		_, err := b.Queue.Capture(b.Ctx, "freed", func(_ context.Context, r *reprise.Recorder) error {
			late = r
			_ = r.Run(x)
			_ = r.Keep(kept)
			return nil
		})
		b.fails("a freed buffer", err, reprise.ErrReleased)
		b.fails("after the capture", late.Keep(), reprise.ErrCaptureEnded)
	})
}

func TestTakeFromASnapshot(t *testing.T) {
	onEmulators(t, func(b *bench) {
		before := b.Allocated()
		s := b.Dev.MemorySnapshot()
		var got, want []uint32
		var free []func() error
		for _, size := range []int{64, 4096, 1 << 20} {
			addr, _, f, err := s.Take(reprise.BufferConfig{Kind: allocator.DRAM, Size: size, PageSize: 64, Name: "taken"})
			b.Must(err)
			got, free = append(got, addr), append(free, f)
		}
		b.Must(free[1]())
		addr, _, _, err := s.Take(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4096, PageSize: 64})
		b.Must(err)
		equal(b, addr, got[1], "where the next buffer lies, after one was freed")
		b.sameMemory(before)
		for _, size := range []int{64, 4096, 1 << 20} {
			want = append(want, b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: size, PageSize: 64}).Addr())
		}
		if !slices.Equal(got, want) {
			b.Errorf("taken at %#x, allocated at %#x", got, want)
		}
		if _, _, _, err := s.Take(reprise.BufferConfig{Kind: allocator.L1, Size: 1 << 40, PageSize: 1 << 10}); !errors.Is(err,
			reprise.ErrOutOfMemory) {
			b.Errorf("more than there is: %v", err)
		}
		_, _, _, err = s.Take(reprise.BufferConfig{Kind: allocator.L1})
		expect.Error(b, err)
	})
}

func TestReleasedTraceHasNoneOfTheNext(t *testing.T) {
	b := open(t, sim.Blackhole())
	in, out := b.Pages("in", 2), b.Pages("out", 2)
	x := b.Load(b.Adder("adder", chip.Core{}, in, out, 5))
	capture := func(name string) *reprise.Trace {
		trace := b.Record(name, func(r *reprise.Recorder) error {
			return errors.Join(r.Loop(1, runs(r, x)), r.Run(x), r.Param("addend", addend), r.ParamBuffer("in", in, readFrom))
		})
		return trace
	}
	for _, shown := range []bool{false, true} {
		old := capture("old")
		subset := value(old.Subset(b.Queue))(b)
		b.Must(errors.Join(old.Set("addend", 50), old.Replay(b.Ctx)))
		var image *tracebuf.Image
		var commands []byte
		if shown {
			for _, image = range old.Debug().ControlImages(0) {
				commands = bytes.Clone(image.Bytes)
			}
		}
		steps := old.Parts()[0].Steps
		was := slices.Clone(steps)
		b.Must(old.Release(b.Ctx))
		next := capture("next")
		for name, trace := range map[string]*reprise.Trace{"trace": old, "subset": subset} {
			for what, err := range map[string]error{
				"print":      trace.Print(io.Discard),
				"set":        trace.Set("addend", 9),
				"set buffer": trace.SetBuffer("in", out),
				"replay":     trace.Replay(b.Ctx),
				"save":       trace.Save(b.Ctx, io.Discard),
				"verify":     trace.Debug().Verify(b.Ctx),
				"step":       trace.Debug().Step(b.Ctx, nil),
			} {
				b.fails(fmt.Sprintf("%s of a released %s", what, name), err, reprise.ErrReleased)
			}
		}
		if shown && !bytes.Equal(image.Bytes, commands) {
			b.Error("commands that were given out of a trace have changed")
		}
		noDiff(b, steps, was, "steps that were given out of a trace have changed")
		b.Write(in, 1)
		b.Must(errors.Join(next.Replay(b.Ctx), next.Debug().Verify(b.Ctx)))
		b.Holds(out, 6)
		b.Must(next.Release(b.Ctx))
	}
}

func TestReplayBesideRelease(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := b.Load(b.blank("blank", chip.Single(0, 0)))
	for range 20 {
		inner := b.Capture("inner", x)
		outer := b.captureFlow(func(r *reprise.Recorder) error { return r.Call(inner) })
		replayed := make(chan error)
		go func() {
			for {
				if err := outer.Replay(b.Ctx); err != nil {
					replayed <- err
					return
				}
			}
		}()
		b.Must(outer.Release(b.Ctx))
		if err := <-replayed; !errors.Is(err, reprise.ErrReleased) {
			t.Fatalf("replayed beside its release: %v, want ErrReleased", err)
		}
		b.Must(inner.Release(b.Ctx))
	}
}

func TestReleaseOfAProgramHoldsUpNobody(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	word := b.word()
	spin := b.spin("spin", word, chip.BRISC, chip.Single(0, 0))
	x := b.Load(b.blank("blank", chip.Single(0, 0)))
	b.Execute(spin) // the queue isn't done before the test ends

	ctx, cancel := context.WithCancel(b.Ctx)
	released := make(chan error)
	go func() { released <- x.Release(ctx) }()
	time.Sleep(20 * time.Millisecond) // it waits
	ran := make(chan error)
	go func() { ran <- b.Queue.Run(b.ends(), x) }()
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

	full, stop := context.WithCancel(b.Ctx)
	var runs atomic.Int64
	go func() {
		for {
			if err := b.Queue.Run(full, x); err != nil {
				ran <- err
				return
			}
			runs.Add(1)
		}
	}()
	for before := int64(-1); runs.Load() != before; time.Sleep(20 * time.Millisecond) { // until the queue is full
		before = runs.Load()
	}
	b.fails("release beside a run that waits for room", x.Release(b.ends()), context.DeadlineExceeded)
	stop()
	b.fails("run", <-ran, context.Canceled)
	b.letGo(b.Dev.Queue(1), word)
	b.Must(x.Release(b.Ctx))
}

func TestClosedDeviceIsGarbage(t *testing.T) {
	collected := make(chan struct{})
	func() {
		b := &bench{&devtest.Bench{T: t, Ctx: t.Context()}}
		var err error
		b.Dev, err = reprise.Open(b.Ctx, sim.Blackhole())
		b.Must(err)
		b.Queue = b.Dev.Queue(0)
		x := b.Load(b.blank("blank", chip.Single(0, 0)))
		b.Execute(x)
		b.Must(b.Capture("trace", x).Replay(b.Ctx))
		runtime.AddCleanup(b.Dev, func(c chan struct{}) { close(c) }, collected)
		b.Must(b.Dev.Close(context.Background()))
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-collected:
			return
		case <-time.After(10 * time.Millisecond): // clean-ups run on another goroutine
		}
	}
	t.Error("something keeps a device that was closed")
}

var (
	addend   = reprise.Arg{Kernel: "add", Index: 3}
	readFrom = reprise.Arg{Kernel: "reader", Index: 0}
	writeTo  = reprise.Arg{Kernel: "writer", Index: 0}
)

func TestSetOnAllCores(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n := b.Dev.Grid().Size()
		l1 := func(name string) *reprise.Buffer {
			return b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * n, PageSize: 64, Name: name})
		}
		out, other := l1("out"), l1("other")
		x := b.Load(&reprise.Program{Name: "store", Buffers: []*reprise.Buffer{out}, Kernels: []reprise.Kernel{{
			Name: "store", Image: b.Image(kernels.Store), Processor: chip.NCRISC, Cores: []chip.Range{b.Dev.Grid()}, Common: []uint32{3},
			Args: func(chip.Core) []uint32 { return []uint32{out.Addr(), 1, 4} },
		}}})
		trace := b.Record("all", func(r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Param("base", reprise.Arg{Kernel: "store", Common: true}),
				r.Param("value", reprise.Arg{Kernel: "store", Index: 2}), r.ParamBuffer("out", out, reprise.Arg{Kernel: "store"}))
		})
		check := func(buf *reprise.Buffer, want byte) {
			b.Helper()
			got := b.Read(buf)
			for i := range n {
				if got[64*i] != want {
					b.Fatalf("core %d has %d, want %d", i, got[64*i], want)
				}
			}
		}
		b.Replay(trace)
		check(out, 7)
		b.Must(errors.Join(trace.Set("value", 50), trace.Set("base", 100), trace.SetBuffer("out", other), trace.Replay(b.Ctx)))
		check(other, 150)
		check(out, 7)
		free := b.Allocated()
		b.Must(errors.Join(other.Release(), b.Queue.Wait(b.Ctx)))
		b.sameMemory(free)
		b.Must(errors.Join(trace.SetBuffer("out", out), trace.Replay(b.Ctx), b.Queue.Wait(b.Ctx)))
		b.Must(trace.SetBuffer("out", l1("again"))) // gives the last but one up
		equal(b, b.Allocated()[allocator.L1], free[allocator.L1], "B of L1 that are taken")
		b.Must(trace.Release(b.Ctx))
	})
}

func TestParameterErrors(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out, large := b.Pages("in", 4), b.Pages("out", 4), b.Pages("large", 8)
		x := b.Load(b.Adder("adder", chip.Core{}, in, out, 5))
		before := b.Allocated()
		for name, tt := range map[string]struct {
			param func(*reprise.Recorder) error
			says  string
		}{
			"no kernel": {func(r *reprise.Recorder) error { return r.Param("p", reprise.Arg{Kernel: "sub"}) }, `it has "add", "reader", "writer"`},
			"no index":  {func(r *reprise.Recorder) error { return r.Param("p", reprise.Arg{Kernel: "add", Index: 4}) }, "core (0,0) has 4"},
			"negative":  {func(r *reprise.Recorder) error { return r.Param("p", reprise.Arg{Kernel: "add", Index: -1}) }, "core (0,0) has 4"},
			"no common": {func(r *reprise.Recorder) error { return r.Param("p", reprise.Arg{Kernel: "add", Common: true}) }, "it has 0"},
			"no such core": {func(r *reprise.Recorder) error {
				return r.Param("p", reprise.Arg{Kernel: "add", Cores: []chip.Range{chip.Single(1, 1)}})
			}, "none of the cores"},
			"no argument":  {func(r *reprise.Recorder) error { return r.Param("p") }, "no argument is named"},
			"other values": {func(r *reprise.Recorder) error { return r.Param("p", addend, readFrom) }, "the arguments have different values"},
			"no address":   {func(r *reprise.Recorder) error { return r.ParamBuffer("p", out, readFrom) }, `buffer "out" is at`},
			"no buffer":    {func(r *reprise.Recorder) error { return r.ParamBuffer("p", nil, readFrom) }, "no buffer: it is nil"},
			"used for both": {func(r *reprise.Recorder) error {
				return errors.Join(r.Param("p", addend), r.ParamBuffer("p", in, readFrom))
			}, "use another name"},
			"no run": {nil, "nothing was recorded yet"},
		} {
			_, err := b.Queue.Capture(b.Ctx, name, func(_ context.Context, r *reprise.Recorder) error {
				if tt.param == nil {
					_ = r.Param("p", addend)
				} else {
					_ = errors.Join(r.Run(x), tt.param(r))
				}
				return nil
			})
			var ce *reprise.CaptureError
			if !errors.As(err, &ce) {
				b.Errorf("%s: %v", name, err)
				continue
			}
			b.Says(err, "name parameter", "capture_test.go:", tt.says)
			b.sameMemory(before)
		}
		trace := b.Record("good", func(r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Param("addend", addend), r.ParamBuffer("in", in, readFrom))
		})
		l1 := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 256, PageSize: 64, Name: "l1"})
		small := b.Pages("small", 2)
		freed := b.Pages("freed", 4)
		b.Must(freed.Release())
		for name, tt := range map[string]struct {
			err  error
			is   error
			says string
		}{
			"unknown":     {trace.Set("addent", 1), reprise.ErrNoParam, `it has "addend", "in"`},
			"other kind":  {trace.Set("in", 1), reprise.ErrNoParam, "SetBuffer"},
			"other kind2": {trace.SetBuffer("addend", in), reprise.ErrNoParam, "use Set"},
			"in L1":       {trace.SetBuffer("in", l1), nil, "256 B of L1"},
			"small":       {trace.SetBuffer("in", small), nil, "128 B of DRAM"},
			"freed":       {trace.SetBuffer("in", freed), reprise.ErrReleased, `buffer "freed"`},
		} {
			if tt.is != nil && !errors.Is(tt.err, tt.is) {
				b.Errorf("%s: %v, want %v", name, tt.err, tt.is)
			}
			b.Says(tt.err, `trace "good": set `, tt.says)
		}
		b.Write(large, 9)
		b.Must(errors.Join(trace.SetBuffer("in", large), trace.Set("addend", 1), trace.Replay(b.Ctx)))
		b.Holds(out, 10)
		b.Must(trace.Release(b.Ctx))
		for name, err := range map[string]error{"set": trace.Set("addend", 1), "set buffer": trace.SetBuffer("in", in)} {
			b.fails(name+" after the release", err, reprise.ErrReleased)
		}
	})
}

func TestSetArguments(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out, other := b.Pages("in", 4), b.Pages("out", 4), b.Pages("other", 4)
		x := b.Load(b.Adder("adder", chip.Core{}, in, out, 5))
		b.Write(in, 1)
		trace := b.Capture("before", x)
		b.Must(errors.Join(x.SetArg(addend, 70), b.Queue.Run(b.Ctx, x)))
		b.Holds(out, 71)
		b.Must(errors.Join(x.SetBuffer(other, writeTo), other.Release(), x.SetArg(addend, 0), b.Queue.Run(b.Ctx, x)))
		if again := b.Pages("again", 4); again.Addr() == other.Addr() {
			b.Error("a buffer that a program writes was handed out")
		}
		after := b.Capture("after", x)
		b.Must(errors.Join(trace.Replay(b.Ctx), after.Replay(b.Ctx)))
		b.Holds(out, 6)
		b.Must(x.Release(b.Ctx))
		b.fails("set after close", x.SetArg(addend, 1), reprise.ErrReleased)
		expect.Error(b, (*reprise.Executable)(nil).SetArg(addend, 1))
	})
}

func TestParametersInFiles(t *testing.T) {
	onEmulators(t, func(b *bench) {
		b.Pages("below", 4000) // so that addresses don't look like small numbers
		in, out := b.Pages("in", 400), b.Pages("out", 400)
		x := b.Load(b.Adder("adder", chip.Core{}, in, out, 5))
		save := func(named bool) []byte {
			trace := b.Record("saved", func(r *reprise.Recorder) error {
				errs := []error{r.Run(x), r.Param("addend", addend), r.ParamBuffer("from", in, readFrom)}
				if named {
					errs = append(errs, r.ParamBuffer("to", out, writeTo))
				}
				return errors.Join(errs...)
			})
			var file bytes.Buffer
			b.Must(errors.Join(trace.Set("addend", 70), trace.Save(b.Ctx, &file), trace.Release(b.Ctx)))
			return file.Bytes()
		}
		named, unnamed := save(true), save(false)

		if _, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(unnamed)); err == nil {
			b.Error("a trace was loaded whose buffers have no place")
		} else {
			b.Says(err, `buffer "out" must lie where it lay`, "inside of the buffer, and no parameter")
		}
		before := b.Allocated()
		trace := value(b.Dev.LoadTrace(b.Ctx, bytes.NewReader(named)))(b)
		bufs := trace.Buffers()
		if len(bufs) != 2 || bufs[0].Name() != "in" || bufs[0].Addr() == in.Addr() || bufs[1].Addr() == out.Addr() {
			b.Fatalf("buffers %v", bufs)
		}
		b.Write(bufs[0], 1)
		b.Write(in, 1000)
		b.Write(out, 2000)
		b.Replay(trace)
		b.Holds(bufs[1], 71)
		b.Holds(out, 2000)
		b.Must(errors.Join(trace.Set("addend", 3), trace.SetBuffer("from", in), trace.Replay(b.Ctx)))
		b.Holds(bufs[1], 1003)
		b.Must(errors.Join(trace.SetBuffer("to", out), trace.Replay(b.Ctx), trace.Debug().Check(b.Ctx)))
		b.Holds(out, 1003)
		b.Must(trace.Release(b.Ctx))
		b.sameMemory(before)
		in2, out2 := b.Pages("in", 400), b.Pages("out", 400)
		trace = value(b.Dev.LoadTrace(b.Ctx, bytes.NewReader(named), reprise.WithBuffers(in2, out2)))(b)
		b.Write(in2, 6)
		b.Replay(trace)
		b.Holds(out2, 76)
		b.Must(trace.Release(b.Ctx))
	})
}
