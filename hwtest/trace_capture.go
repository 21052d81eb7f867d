package hwtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

func captureCases() []testCase {
	cs := []testCase{
		{name: "begin and end", protects: "between Begin and End a queue records what it is given, before and after it runs it", fn: beginAndEnd},
		{name: "begin fails and leaves nothing", protects: "captures that fail, are empty or are discarded leave memory and queue as before", fn: beginLeavesNothing},
		{name: "buffer freed inside a capture", protects: "memory that is freed inside a capture isn't handed out beside the trace", fn: freedInCapture},
		{name: "release with replays in the queue", protects: "a release waits for replays, and new traces work in its place, over and over", fn: releaseBehindReplays},
		{name: "traces share a pool", protects: "traces whose intermediates share memory each compute what they should", fn: tracesSharePool},
	}
	for _, op := range []string{"write", "read", "queue wait", "run", "replay", "capture", "begin", "allocate", "load", "record",
		"event wait"} {
		cs = append(cs, testCase{
			name:     op + " inside a capture",
			protects: "what a trace can't hold is a *CaptureError, the capture fails with it, and the queue works on",
			fn:       func(t *fixture) { insideCapture(t, op) },
		})
	}
	return cs
}

// forbidden performs an operation that a capture can't hold.
func (t *fixture) forbidden(ctx context.Context, op string, x *reprise.Executable, tr *reprise.Trace, b *reprise.Buffer,
	e *reprise.Event) error {
	data := make([]byte, b.Size())
	var err error
	switch op {
	case "write":
		err = t.rq.Write(ctx, b, 0, data)
	case "read":
		err = t.rq.Read(ctx, b, 0, data)
	case "queue wait":
		err = t.rq.Wait(ctx)
	case "run":
		err = t.rq.Run(ctx, x)
	case "replay":
		err = tr.Replay(ctx)
	case "capture":
		_, err = t.rq.Capture(ctx, "inner", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	case "begin":
		_, err = t.rq.Begin("inner")
	case "load":
		_, err = t.dev.Load(ctx, t.storeProgram("late", t.grid(), b, 1))
	case "record":
		err = t.rq.Record(ctx, e)
	case "event wait":
		err = t.rq.WaitEvent(ctx, e)
	default:
		err = fmt.Errorf("no operation %q", op)
	}
	return err
}

func insideCapture(t *fixture, op string) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	other := t.capture("other", x)
	e := t.dev.NewEvent("e")
	t.ok(t.rq.Record(t.ctx, e))
	before := t.allocated()
	var err error
	switch op {
	case "allocate": // has no context, so that only Begin's captures know of it
		err = t.allocateInCapture(x)
	case "begin": // the same; the capture goes on
		tr, failed := t.rq.Capture(t.ctx, "t", func(ctx context.Context, r *reprise.Recorder) error {
			err = t.forbidden(ctx, op, x, other, f.b, e)
			return r.Run(x)
		})
		t.ok(failed)
		t.ok(tr.Release(t.ctx))
	default:
		_, err = t.rq.Capture(t.ctx, "t", func(ctx context.Context, r *reprise.Recorder) error {
			if err := r.Run(x); err != nil {
				return err
			}
			_ = t.forbidden(ctx, op, x, other, f.b, e)
			return r.Run(x)
		})
	}
	var ce *reprise.CaptureError
	if !errors.Is(err, reprise.ErrInCapture) || !errors.As(err, &ce) || ce.Instead == "" {
		t.Errorf("error %v", err)
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	t.runAndWait(x)
	f.run(5, t.grid())
	t.ok(other.Replay(t.ctx))
	f.run(5, t.grid())
	f.check("after the capture")
}

// allocateInCapture allocates between Begin and Discard.
func (t *fixture) allocateInCapture(x *reprise.Executable) error {
	r, err := t.rq.Begin("t")
	t.ok(err)
	t.ok(t.rq.Run(t.ctx, x))
	_, err = t.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "late"})
	t.ok(r.Discard())
	return err
}

func beginAndEnd(t *fixture) {
	f := t.follow()
	x, y := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0)), t.load(t.mixProgram("y", t.grid(), f.b, 6, 0))
	forward := func() { t.ok(errors.Join(t.rq.Run(t.ctx, x), t.rq.Run(t.ctx, y))) }
	count := func() { f.run(5, t.grid()); f.run(6, t.grid()) }
	forward()
	count()
	r, err := t.rq.Begin("t")
	t.ok(err)
	forward()
	forward()
	tr, err := r.End(t.ctx)
	t.ok(err)
	t.closing(tr.Release)
	if n := len(tr.Parts()[0].Steps); n != 4 {
		t.Errorf("%d programs were recorded, want 4", n)
	}
	forward()
	count()
	f.check("nothing ran in between")
	t.ok(tr.Replay(t.ctx))
	count()
	count()
	f.check("the replay")
}

func beginLeavesNothing(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	before := t.allocated()
	for _, end := range []func(*reprise.Recorder) error{
		func(r *reprise.Recorder) error { return r.Discard() },
		func(r *reprise.Recorder) error {
			_ = t.rq.Wait(t.ctx)
			if _, err := r.End(t.ctx); !errors.Is(err, reprise.ErrInCapture) {
				return fmt.Errorf("the capture ended in %v", err)
			}
			return nil
		},
	} {
		r, err := t.rq.Begin("t")
		t.ok(err)
		t.ok(t.rq.Run(t.ctx, x))
		t.ok(end(r))
		if _, err := r.End(t.ctx); !errors.Is(err, reprise.ErrNotCapturing) {
			t.Errorf("ended again: %v", err)
		}
		if after := t.allocated(); after != before {
			t.Errorf("allocated before %v, after %v", before, after)
		}
		t.runAndWait(x)
		f.run(5, t.grid())
		f.check("after the capture")
	}
}

func freedInCapture(t *fixture) {
	const n = 64
	size := n * t.grid().Size()
	b, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: size, PageSize: n, Name: "intermediate"})
	t.ok(err)
	x, err := t.dev.Load(t.ctx, t.storeProgram("x", t.grid(), b, 1))
	t.ok(err)
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(x), x.Release(t.ctx), b.Release())
	})
	t.ok(err)
	t.closing(tr.Release)
	var others []*reprise.Buffer
	for range 4 {
		o := t.buffer(allocator.L1, size, n)
		t.ok(t.rq.Write(t.ctx, o, 0, pattern(o.Addr(), size)))
		others = append(others, o)
	}
	t.ok(tr.Replay(t.ctx))
	for _, o := range others {
		t.same("a buffer that was allocated after the capture", pattern(o.Addr(), size), t.readAll(o))
	}
}

func releaseBehindReplays(t *fixture) {
	f := t.follow()
	x, y := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0)), t.load(t.mixProgram("y", t.grid(), f.b, 6, 0))
	before := t.allocated()
	for i := range t.size(20, 4) {
		x, n := x, uint32(5)
		if i%2 == 1 {
			x, n = y, 6
		}
		tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return errors.Join(r.Run(x), r.Run(x)) })
		t.ok(err)
		for range 3 {
			t.ok(tr.Replay(t.ctx))
			f.run(n, t.grid())
			f.run(n, t.grid())
		}
		t.ok(tr.Release(t.ctx))
	}
	f.check("all replays")
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
}

// tracesSharePool copies through a buffer of a pool, each trace through its own in the same place.
func tracesSharePool(t *fixture) {
	const page, pages = 512, 24
	in, out, room := t.buffer(allocator.DRAM, pages*page, page), t.buffer(allocator.DRAM, pages*page, page), t.perWorker(page)
	pool, err := t.dev.NewPool(reprise.PoolConfig{Kind: allocator.DRAM, Size: pages * page, Name: "scratch"})
	t.ok(err)
	copyProgram := func(name string, from, to *reprise.Buffer) *reprise.Executable {
		return t.load(&reprise.Program{Name: name, Buffers: []*reprise.Buffer{from, to, room}, Kernels: []reprise.Kernel{{
			Name: "copy", Image: t.kernel(kernels.Copy), Processor: chip.NCRISC, Cores: []chip.Range{{}},
			Args: func(chip.Core) []uint32 {
				return []uint32{from.Addr(), to.Addr(), 0, pages, from.PageStride(), room.Addr()}
			},
		}}})
	}
	first, second := copyProgram("first", in, out), copyProgram("second", in, out)
	var traces []*reprise.Trace
	var places []uint32
	for range 2 {
		tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
			mid, err := pool.NewBuffer(reprise.BufferConfig{Size: pages * page, PageSize: page, Name: "mid"})
			if err != nil {
				return err
			}
			places = append(places, mid.Addr())
			return errors.Join(
				first.SetBuffer(mid, reprise.Arg{Kernel: "copy", Index: 1}), r.Run(first),
				second.SetBuffer(mid, reprise.Arg{Kernel: "copy", Index: 0}), r.Run(second), mid.Release())
		})
		t.ok(err)
		t.closing(tr.Release)
		traces = append(traces, tr)
	}
	t.ok(pool.Release())
	if places[0] != places[1] {
		t.Errorf("intermediates lie at %#x", places)
	}
	for i := range 4 {
		want := pattern(uint32(i), in.Size())
		t.ok(t.rq.Write(t.ctx, in, 0, want))
		t.ok(traces[i%2].Replay(t.ctx))
		t.same(fmt.Sprintf("replay %d", i), want, t.readAll(out))
	}
}
