package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

var (
	addend   = reprise.Arg{Kernel: "add", Index: 3}
	readFrom = reprise.Arg{Kernel: "reader", Index: 0}
	writeTo  = reprise.Arg{Kernel: "writer", Index: 0}
)

func TestSetOnAllCores(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n := b.dev.Grid().Size()
		l1 := func(name string) *reprise.Buffer {
			return b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * n, PageSize: 64, Name: name})
		}
		out, other := l1("out"), l1("other")
		x := b.load(&reprise.Program{Name: "store", Buffers: []*reprise.Buffer{out}, Kernels: []reprise.Kernel{{
			Name: "store", Image: b.image(kernels.Store), Processor: chip.NCRISC, Cores: []chip.Range{b.dev.Grid()}, Common: []uint32{3},
			Args: func(chip.Core) []uint32 { return []uint32{out.Addr(), 1, 4} },
		}}})
		trace, err := b.queue.Capture(b.ctx, "all", func(_ context.Context, r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Param("base", reprise.Arg{Kernel: "store", Common: true}),
				r.Param("value", reprise.Arg{Kernel: "store", Index: 2}), r.ParamBuffer("out", out, reprise.Arg{Kernel: "store"}))
		})
		b.must(err)
		check := func(buf *reprise.Buffer, want byte) {
			b.Helper()
			got := b.read(buf)
			for i := range n {
				if got[64*i] != want {
					b.Fatalf("core %d has %d, want %d", i, got[64*i], want)
				}
			}
		}
		b.must(trace.Replay(b.ctx))
		check(out, 7)
		b.must(errors.Join(trace.Set("value", 50), trace.Set("base", 100), trace.SetBuffer("out", other), trace.Replay(b.ctx)))
		check(other, 150)
		check(out, 7)
		free := b.allocated()
		b.must(errors.Join(other.Release(), b.queue.Wait(b.ctx)))
		if diff := cmp.Diff(free, b.allocated()); diff != "" {
			b.Errorf("a buffer that replays write was given away (-want +got):\n%s", diff)
		}
		b.must(errors.Join(trace.SetBuffer("out", out), trace.Replay(b.ctx), b.queue.Wait(b.ctx)))
		b.must(trace.SetBuffer("out", l1("again"))) // gives the last but one up
		if after := b.allocated(); after[allocator.L1] != free[allocator.L1] {
			b.Errorf("%d B of L1 are taken, %d B before", after[allocator.L1], free[allocator.L1])
		}
		b.must(trace.Release(b.ctx))
	})
}

func TestParameterErrors(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out, large := b.pages("in", 4), b.pages("out", 4), b.pages("large", 8)
		x := b.load(b.adder("adder", chip.Core{}, in, out, 5))
		before := b.allocated()
		for name, tt := range map[string]struct {
			param func(context.Context, *reprise.Recorder) error
			says  string
		}{
			"no run": {func(_ context.Context, r *reprise.Recorder) error { return r.Param("p", addend) }, "nothing was recorded yet"},
			"no kernel": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Param("p", reprise.Arg{Kernel: "sub"}))
			}, `it has "add", "reader", "writer"`},
			"no index": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Param("p", reprise.Arg{Kernel: "add", Index: 4}))
			}, "core (0,0) has 4"},
			"negative": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Param("p", reprise.Arg{Kernel: "add", Index: -1}))
			}, "core (0,0) has 4"},
			"no common": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Param("p", reprise.Arg{Kernel: "add", Common: true}))
			}, "it has 0"},
			"no such core": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Param("p", reprise.Arg{Kernel: "add", Cores: []chip.Range{chip.Single(1, 1)}}))
			}, "none of the cores"},
			"no argument": {func(_ context.Context, r *reprise.Recorder) error { return errors.Join(r.Run(x), r.Param("p")) },
				"no argument is named"},
			"other values": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Param("p", addend, readFrom))
			}, "the arguments have different values"},
			"no address": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.ParamBuffer("p", out, readFrom))
			}, `buffer "out" is at`},
			"no buffer": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.ParamBuffer("p", nil, readFrom))
			}, "no buffer: it is nil"},
			"used for both": {func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Param("p", addend), r.ParamBuffer("p", in, readFrom))
			}, "use another name"},
		} {
			_, err := b.queue.Capture(b.ctx, name, func(_ context.Context, r *reprise.Recorder) error { _ = tt.param(b.ctx, r); return nil })
			var ce *reprise.CaptureError
			if !errors.As(err, &ce) {
				b.Errorf("%s: %v", name, err)
				continue
			}
			b.says(err, "name parameter", "trace_patch_test.go:", tt.says)
			if diff := cmp.Diff(before, b.allocated()); diff != "" {
				b.Errorf("%s: something is left (-before +after):\n%s", name, diff)
			}
		}
		trace, err := b.queue.Capture(b.ctx, "good", func(_ context.Context, r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Param("addend", addend), r.ParamBuffer("in", in, readFrom))
		})
		b.must(err)
		l1 := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 256, PageSize: 64, Name: "l1"})
		small := b.pages("small", 2)
		freed := b.pages("freed", 4)
		b.must(freed.Release())
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
			b.says(tt.err, `trace "good": set `, tt.says)
		}
		b.write(large, 9)
		b.must(errors.Join(trace.SetBuffer("in", large), trace.Set("addend", 1), trace.Replay(b.ctx)))
		b.holds(out, 10)
		b.must(trace.Release(b.ctx))
		for name, err := range map[string]error{"set": trace.Set("addend", 1), "set buffer": trace.SetBuffer("in", in)} {
			if !errors.Is(err, reprise.ErrReleased) {
				b.Errorf("%s after the release: %v", name, err)
			}
		}
	})
}

func TestParametersAgainstModel(t *testing.T) {
	b := open(t, emulators[1]())
	bufs := []*reprise.Buffer{b.pages("in", 1), b.pages("a", 1), b.pages("b", 1)}
	in := bufs[0]
	names := []string{"a", "b", "c", "d", "e", "f"}
	value := map[string]uint32{}
	var xs []*reprise.Executable
	for i := range names {
		from := in
		if i > 0 {
			from = bufs[1+i%2]
		}
		xs = append(xs, b.load(b.adder(names[i], chip.Core{X: i}, from, bufs[1+(i+1)%2], uint32(i))))
	}
	trace, err := b.queue.Capture(b.ctx, "chain", func(_ context.Context, r *reprise.Recorder) error {
		for i, n := range names {
			value[n] = uint32(i)
			if err := errors.Join(r.Run(xs[i]), r.Param(n, addend)); err != nil {
				return err
			}
		}
		return nil
	})
	b.must(err)
	b.write(in, 0)
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 4).Draw(t, "replays") {
			for range rapid.IntRange(0, 4).Draw(t, "sets") {
				n, v := rapid.SampledFrom(names).Draw(t, "name"), rapid.Uint32().Draw(t, "value")
				value[n] = v
				b.must(trace.Set(n, v))
			}
			b.must(trace.Replay(b.ctx))
		}
		sum := uint32(0)
		for _, v := range value {
			sum += v
		}
		b.holds(bufs[1], sum)
	})
}

func TestSetArguments(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out, other := b.pages("in", 4), b.pages("out", 4), b.pages("other", 4)
		x := b.load(b.adder("adder", chip.Core{}, in, out, 5))
		b.write(in, 1)
		trace := b.capture("before", x)
		b.must(errors.Join(x.SetArg(addend, 70), b.queue.Run(b.ctx, x)))
		b.holds(out, 71)
		b.must(errors.Join(x.SetBuffer(other, writeTo), other.Release(), x.SetArg(addend, 0), b.queue.Run(b.ctx, x)))
		if again := b.pages("again", 4); again.Addr() == other.Addr() {
			b.Error("a buffer that a program writes was handed out")
		}
		after := b.capture("after", x)
		b.must(errors.Join(trace.Replay(b.ctx), after.Replay(b.ctx)))
		b.holds(out, 6)
		b.must(x.Release(b.ctx))
		if err := x.SetArg(addend, 1); !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("set after close: %v", err)
		}
		if err := (*reprise.Executable)(nil).SetArg(addend, 1); err == nil {
			b.Error("arguments of nothing were set")
		}
	})
}

func TestParametersInFiles(t *testing.T) {
	onEmulators(t, func(b *bench) {
		b.pages("below", 4000) // so that addresses don't look like small numbers
		in, out := b.pages("in", 400), b.pages("out", 400)
		x := b.load(b.adder("adder", chip.Core{}, in, out, 5))
		save := func(named bool) []byte {
			trace, err := b.queue.Capture(b.ctx, "saved", func(_ context.Context, r *reprise.Recorder) error {
				errs := []error{r.Run(x), r.Param("addend", addend), r.ParamBuffer("from", in, readFrom)}
				if named {
					errs = append(errs, r.ParamBuffer("to", out, writeTo))
				}
				return errors.Join(errs...)
			})
			b.must(err)
			var file bytes.Buffer
			b.must(errors.Join(trace.Set("addend", 70), trace.Save(b.ctx, &file), trace.Release(b.ctx)))
			return file.Bytes()
		}
		named, unnamed := save(true), save(false)

		if _, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(unnamed)); err == nil {
			b.Error("a trace was loaded whose buffers have no place")
		} else {
			b.says(err, `buffer "out" must lie where it lay`, "inside of the buffer, and no parameter")
		}
		before := b.allocated()
		trace, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(named))
		b.must(err)
		bufs := trace.Buffers()
		if len(bufs) != 2 || bufs[0].Name() != "in" || bufs[0].Addr() == in.Addr() || bufs[1].Addr() == out.Addr() {
			b.Fatalf("buffers %v", bufs)
		}
		b.write(bufs[0], 1)
		b.write(in, 1000)
		b.write(out, 2000)
		b.must(trace.Replay(b.ctx))
		b.holds(bufs[1], 71)
		b.holds(out, 2000)
		b.must(errors.Join(trace.Set("addend", 3), trace.SetBuffer("from", in), trace.Replay(b.ctx)))
		b.holds(bufs[1], 1003)
		b.must(errors.Join(trace.SetBuffer("to", out), trace.Replay(b.ctx), trace.Debug().Check(b.ctx)))
		b.holds(out, 1003)
		b.must(trace.Release(b.ctx))
		if diff := cmp.Diff(before, b.allocated()); diff != "" {
			b.Errorf("something is left (-before +after):\n%s", diff)
		}
		in2, out2 := b.pages("in", 400), b.pages("out", 400)
		trace, err = b.dev.LoadTrace(b.ctx, bytes.NewReader(named), reprise.WithBuffers(in2, out2))
		b.must(err)
		b.write(in2, 6)
		b.must(trace.Replay(b.ctx))
		b.holds(out2, 76)
		b.must(trace.Release(b.ctx))
	})
}
