package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func TestTraceOfAMesh(t *testing.T) {
	for _, make := range []func(...sim.Option) *sim.Machine{sim.QuietBox, sim.T3000} {
		machine := make()
		t.Cleanup(func() { _ = machine.Close() })
		t.Run(machine.String(), func(t *testing.T) {
			b := open(t, machine, mesh.Shape{2, 2})
			in, out := b.pages("in", 8), b.pages("out", 8)
			same := b.load("same", b.adder("same", in, out, always(7)))
			b.must(b.queue.Write(b.ctx, in, words(in.Size(), 1)))
			calls := 0
			trace, err := b.queue.Capture(b.ctx, "once", func(_ context.Context, r *mesh.Recorder) error {
				calls++
				return errors.Join(r.Run(same), r.Run(same))
			})
			b.must(err)
			if n, bytes := trace.Streams(); calls != 1 || n != 1 || bytes != trace.Parts()[0].Size {
				t.Errorf("recorded %d times, %d streams of %d B for a trace of %d B", calls, n, bytes, trace.Size())
			}
			for _, c := range b.mesh.Chips() {
				if got, want := b.part(trace, c).Extents[0], b.part(trace, b.mesh.Chip(0, 0)).Extents[0]; got != want {
					t.Errorf("chip %v has the trace at %+v, the first at %+v", c.Coord, got, want)
				}
			}
			for range 5 {
				b.must(trace.Replay(b.ctx))
			}
			b.must(b.queue.Wait(b.ctx))
			for _, c := range b.mesh.Chips() {
				b.holds(c, out, 8)
			}
			part, err := b.subset(trace, mesh.At(1, 0))
			b.must(err)
			b.must(b.queue.Write(b.ctx, in, words(in.Size(), 50)))
			b.must(part.Replay(b.ctx))
			b.must(b.queue.Wait(b.ctx))
			for i, want := range []uint32{8, 8, 57, 8} {
				b.holds(b.mesh.Chips()[i], out, want)
			}
			b.must(trace.Release(b.ctx))
			if err := trace.Release(b.ctx); !errors.Is(err, reprise.ErrReleased) {
				t.Errorf("second release: %v", err)
			}
			if err := trace.Replay(b.ctx); !errors.Is(err, reprise.ErrReleased) {
				t.Errorf("replay after release: %v", err)
			}
			b.must(errors.Join(same.Release(b.ctx), in.Release(), out.Release()))
			b.must(b.mesh.InStep(allocator.DRAM))
			if s := b.mesh.Chip(0, 0).Device.Memory(allocator.DRAM); s.Allocated != 0 {
				t.Errorf("%d B are left", s.Allocated)
			}
		})
	}
}

func TestCapturesRefuse(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	x := b.load("x", b.adder("x", in, out, always(1)))
	earlier := b.capture("earlier", x)
	e := b.mesh.NewEvent("e")
	for what, f := range map[string]func(ctx context.Context) error{
		"write":  func(ctx context.Context) error { return b.queue.Write(ctx, in, make([]byte, in.Size())) },
		"read":   func(ctx context.Context) error { return b.queue.Read(ctx, in, make([]byte, in.Size())) },
		"run":    func(ctx context.Context) error { return b.queue.Run(ctx, x) },
		"finish": func(ctx context.Context) error { return b.queue.Wait(ctx) },
		"record": func(ctx context.Context) error { return b.queue.Record(ctx, e) },
		"replay": func(ctx context.Context) error { return earlier.Replay(ctx) },
		"load": func(ctx context.Context) error {
			_, err := b.mesh.Load(ctx, "y", b.adder("y", in, out, always(1)))
			return err
		},
		"capture": func(ctx context.Context) error {
			_, err := b.queue.Capture(ctx, "z", func(context.Context, *mesh.Recorder) error { return nil })
			return err
		},
	} {
		var inside error
		_, err := b.queue.Capture(b.ctx, "t", func(ctx context.Context, r *mesh.Recorder) error {
			inside = f(ctx)
			return r.Run(x)
		})
		var ce *reprise.CaptureError
		if !errors.As(err, &ce) || !errors.Is(inside, reprise.ErrInCapture) || !strings.HasSuffix(ce.File, "trace_test.go") {
			t.Errorf("%s: %v, inside %v", what, err, inside)
		}
	}
	b.must(b.queue.Run(b.ctx, x))
	b.must(b.queue.Wait(b.ctx))
	b.must(earlier.Release(b.ctx))
}

func TestTraceParameters(t *testing.T) {
	b := open(t, sim.P300(), mesh.Shape{1, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	b.must(b.queue.Write(b.ctx, in, words(in.Size(), 0)))
	x := b.load("add", b.adder("add", in, out, always(3)))
	trace, err := b.queue.Capture(b.ctx, "with", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.Run(x), r.Param(x, "addend", reprise.Arg{Kernel: "add", Index: 3}))
	})
	b.must(err)
	if n, _ := trace.Streams(); n != 2 {
		t.Errorf("%d streams, want one for each chip", n)
	}
	for i := range uint32(3) {
		b.must(trace.Set("addend", 40+i))
		b.must(trace.Replay(b.ctx))
		for _, c := range b.mesh.Chips() {
			b.holds(c, out, 40+i)
		}
	}
	other := b.pages("other", 8)
	moved, err := b.queue.Capture(b.ctx, "moved", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer(x, "out", out, reprise.Arg{Kernel: "writer", Index: 0}))
	})
	b.must(err)
	b.must(moved.SetBuffer("out", other.All()...))
	b.must(moved.Replay(b.ctx))
	for _, c := range b.mesh.Chips() {
		b.holds(c, other, 3)
		b.holds(c, out, 42)
	}
	if err := moved.SetBuffer("out", nil); err == nil {
		t.Error("no buffer was set")
	}
	if err := trace.Set("other", 1); !errors.Is(err, reprise.ErrNoParam) {
		t.Errorf("no such parameter: %v", err)
	}
}

func TestReplayAllocatesNothing(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{4})
	in, out := b.pages("in", 1), b.pages("out", 1)
	trace := b.capture("t", b.load("add", b.adder("add", in, out, always(1))))
	b.must(trace.Replay(b.ctx))
	n := math.Inf(1) // the emulator may allocate now and then
	for range 5 {
		b.must(b.queue.Wait(b.ctx))
		n = min(n, testing.AllocsPerRun(20, func() { b.must(trace.Replay(b.ctx)) }))
	}
	b.must(b.queue.Wait(b.ctx))
	if n != 0 {
		t.Errorf("a replay on 4 chips takes memory %v times", n)
	}
}

func TestReplayWithAChipGone(t *testing.T) {
	machine := sim.QuietBox()
	b := open(t, machine, mesh.Shape{2, 2})
	in, out := b.pages("in", 4), b.pages("out", 4)
	x := b.load("add", b.adder("add", in, out, always(9)))
	trace := b.capture("t", x)
	b.must(b.queue.Write(b.ctx, in, words(in.Size(), 1)))
	b.must(b.queue.Wait(b.ctx))
	lost := b.mesh.Chip(1, 0)
	card := 0
	for i, c := range machine.Cards() {
		if c.String() == lost.Device.Name() {
			card = i
		}
	}
	drv, err := machine.Driver()
	b.must(err)
	b.must(drv.Unplug(card))
	var failed error
	for range 1000 {
		if failed = trace.Replay(b.ctx); failed != nil {
			break
		}
	}
	if failed == nil {
		failed = b.queue.Wait(b.ctx)
	}
	var e *reprise.PartsError
	if !errors.As(failed, &e) || len(e.Parts) != 4 || len(e.Failed()) != 1 || e.Failed()[0].Queue.Device() != lost.Device ||
		!errors.Is(failed, reprise.ErrDeviceLost) {
		t.Fatalf("with a chip gone: %v", failed)
	}
	if err := trace.Replay(b.ctx); !errors.As(err, &e) || !errors.Is(err, reprise.ErrSkipped) {
		t.Errorf("the next replay: %v", err)
	}
	for _, r := range []mesh.Range{{Start: mesh.Coord{0, 0}, End: mesh.Coord{0, 1}}, mesh.At(1, 1)} {
		part, err := b.subset(trace, r)
		b.must(err)
		b.must(part.Replay(b.ctx))
	}
	for _, c := range []*mesh.Chip{b.mesh.Chip(0, 0), b.mesh.Chip(0, 1), b.mesh.Chip(1, 1)} {
		b.holds(c, out, 10)
	}
}

func TestTraceFileOfAMesh(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2})
	in, out := b.pages("in", 8), b.pages("out", 8)
	part := b.adder("some", in, out, func(c *mesh.Chip) uint32 { return uint32(10 * (1 + c.Coord[1])) })
	part.Range = mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{0, 1}}
	x := b.load("some", part)
	trace := b.capture("some", x)
	b.must(b.queue.Write(b.ctx, in, words(in.Size(), 1)))
	b.must(b.queue.Wait(b.ctx))
	var file bytes.Buffer
	b.must(trace.Save(b.ctx, &file, reprise.WithData(in.All()[0], in.All()[1])))
	b.must(errors.Join(trace.Release(b.ctx), x.Release(b.ctx), in.Release(), out.Release()))

	loaded, err := b.mesh.LoadTrace(b.ctx, bytes.NewReader(file.Bytes()))
	b.must(err)
	if n := len(loaded.Parts()); n != 2 {
		t.Fatalf("it has %d parts, want 2", n)
	}
	b.must(loaded.Replay(b.ctx))
	b.must(b.queue.Wait(b.ctx))
	for i, c := range b.mesh.Chips()[:2] {
		for _, buf := range loaded.Buffers() {
			if buf.Name() != "out" || buf.Device() != c.Device {
				continue
			}
			got := make([]byte, buf.Size())
			b.must(b.queue.On(c).Read(b.ctx, buf, 0, got))
			if want := words(len(got), uint32(1+10*(1+i))); !bytes.Equal(got, want) {
				t.Errorf("chip %v has % x, want % x", c.Coord, got[:8], want[:8])
			}
		}
	}
	b.must(loaded.Debug().Verify(b.ctx))
	b.must(loaded.Release(b.ctx))
	if _, err := b.mesh.Chip(0, 0).Device.LoadTrace(b.ctx, bytes.NewReader(file.Bytes())); !errors.Is(err, reprise.ErrOtherTarget) {
		t.Errorf("loaded on one chip: %v", err)
	}
	if s := b.mesh.Chip(0, 0).Device.Memory(allocator.DRAM); s.Allocated != 0 {
		t.Errorf("%d B are left", s.Allocated)
	}
}
