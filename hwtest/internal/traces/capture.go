package traces

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

func captureCases() rig.Table {
	var cs rig.Table
	cs.Add("begin and end", "between Begin and End a queue records what it is given, before and after it runs it", beginAndEnd)
	cs.Add("begin fails and leaves nothing", "captures that fail, are empty or are discarded leave memory and queue as before", beginLeavesNothing)
	cs.Add("buffer freed inside a capture", "memory that is freed inside a capture isn't handed out beside the trace", freedInCapture)
	cs.Add("release with replays in the queue", "a release waits for replays, and new traces work in its place, over and over", releaseBehindReplays)
	cs.Add("traces share a pool", "traces whose intermediates share memory each compute what they should", tracesSharePool)
	for _, op := range []string{"write", "read", "queue wait", "run", "replay", "capture", "begin", "allocate", "load", "record",
		"event wait", "synchronize"} {
		cs.Add(op+" inside a capture", "what a trace can't hold is a *CaptureError, the capture fails with it, and the queue works on",
			func(t *rig.T) { insideCapture(t, op) })
	}
	return cs
}

// forbidden performs an operation that a capture can't hold.
func forbidden(t *rig.T, ctx context.Context, op string, x *reprise.Executable, tr *reprise.Trace, b *reprise.Buffer,
	e *reprise.Event) error {
	data := make([]byte, b.Size())
	var err error
	switch op {
	case "write":
		err = t.Queue.Write(ctx, b, 0, data)
	case "read":
		err = t.Queue.Read(ctx, b, 0, data)
	case "queue wait":
		err = t.Queue.Wait(ctx)
	case "run":
		err = t.Queue.Run(ctx, x)
	case "replay":
		err = tr.Replay(ctx)
	case "capture":
		_, err = t.Queue.Capture(ctx, "inner", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	case "begin":
		_, err = t.Queue.Begin("inner")
	case "load":
		_, err = t.Dev.Load(ctx, t.StoreProgram("late", t.Grid(), b, 1))
	case "record":
		err = t.Queue.Record(ctx, e)
	case "event wait":
		err = t.Queue.WaitEvent(ctx, e)
	case "synchronize":
		err = e.Wait(ctx)
	default:
		err = fmt.Errorf("no operation %q", op)
	}
	return err
}

func insideCapture(t *rig.T, op string) {
	f := t.Follow()
	x := f.Load("x", 5)
	other := t.Capture("other", x)
	e := t.Dev.NewEvent("e")
	t.OK(t.Queue.Record(t.Ctx, e))
	before := t.Allocated()
	var err error
	switch op {
	case "allocate": // has no context, so that only Begin's captures know of it
		err = allocateInCapture(t, x)
	case "begin": // the same; the capture goes on
		tr, failed := t.Queue.Capture(t.Ctx, "t", func(ctx context.Context, r *reprise.Recorder) error {
			err = forbidden(t, ctx, op, x, other, f.Buffer, e)
			return r.Run(x)
		})
		t.OK(failed)
		t.Release(tr)
	default:
		_, err = t.Queue.Capture(t.Ctx, "t", func(ctx context.Context, r *reprise.Recorder) error {
			if err := r.Run(x); err != nil {
				return err
			}
			_ = forbidden(t, ctx, op, x, other, f.Buffer, e)
			return r.Run(x)
		})
	}
	var ce *reprise.CaptureError
	if !errors.Is(err, reprise.ErrInCapture) || !errors.As(err, &ce) || ce.Instead == "" {
		t.Errorf("error %v", err)
	}
	t.SameMemory(before)
	t.RunAndWait(x)
	f.Run(5)
	t.Replay(other)
	f.Run(5)
	f.Check("after the capture")
}

// allocateInCapture allocates between Begin and Discard.
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
	forward := func() { t.OK(errors.Join(t.Queue.Run(t.Ctx, x), t.Queue.Run(t.Ctx, y))) }
	count := func() { f.Run(5); f.Run(6) }
	forward()
	count()
	r, err := t.Queue.Begin("t")
	t.OK(err)
	forward()
	forward()
	tr := t.Hold(r.End(t.Ctx))
	if n := len(tr.Parts()[0].Steps); n != 4 {
		t.Errorf("%d programs were recorded, want 4", n)
	}
	forward()
	count()
	f.Check("nothing ran in between")
	t.Replay(tr)
	count()
	count()
	f.Check("the replay")
}

func beginLeavesNothing(t *rig.T) {
	f := t.Follow()
	x := f.Load("x", 5)
	before := t.Allocated()
	for _, end := range []func(*reprise.Recorder) error{
		func(r *reprise.Recorder) error { return r.Discard() },
		func(r *reprise.Recorder) error {
			_ = t.Queue.Wait(t.Ctx)
			if _, err := r.End(t.Ctx); !errors.Is(err, reprise.ErrInCapture) {
				return fmt.Errorf("the capture ended in %v", err)
			}
			return nil
		},
	} {
		r, err := t.Queue.Begin("t")
		t.OK(err)
		t.Start(x)
		t.OK(end(r))
		if _, err := r.End(t.Ctx); !errors.Is(err, reprise.ErrNotCapturing) {
			t.Errorf("ended again: %v", err)
		}
		t.SameMemory(before)
		t.RunAndWait(x)
		f.Run(5)
		f.Check("after the capture")
	}
}

func freedInCapture(t *rig.T) {
	const n = 64
	size := n * t.Grid().Size()
	b := t.BufferOf(reprise.BufferConfig{Kind: allocator.L1, Size: size, PageSize: n, Name: "intermediate"})
	x := t.Load(t.StoreProgram("x", t.Grid(), b, 1))
	tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(x), x.Release(t.Ctx), b.Release())
	}))
	var others []*reprise.Buffer
	for range 4 {
		o := t.Buffer(allocator.L1, size, n)
		t.Write(o, rig.Pattern(o.Addr(), size))
		others = append(others, o)
	}
	t.Replay(tr)
	for _, o := range others {
		t.Holds("a buffer that was allocated after the capture", o, rig.Pattern(o.Addr(), size))
	}
}

func releaseBehindReplays(t *rig.T) {
	f := t.Follow()
	x, y := f.Load("x", 5), f.Load("y", 6)
	before := t.Allocated()
	for i := range t.Size(20, 4) {
		x, n := x, uint32(5)
		if i%2 == 1 {
			x, n = y, 6
		}
		tr, err := t.Record("t", func(r *reprise.Recorder) error { return errors.Join(r.Run(x), r.Run(x)) })
		t.OK(err)
		for range 3 {
			t.Replay(tr)
			f.Run(n)
			f.Run(n)
		}
		t.Release(tr)
	}
	f.Check("all replays")
	t.SameMemory(before)
}

// tracesSharePool copies through a buffer of a pool, each trace through its own in the same place.
func tracesSharePool(t *rig.T) {
	const page, pages = 512, 24
	in, out, room := t.Buffer(allocator.DRAM, pages*page, page), t.Buffer(allocator.DRAM, pages*page, page), t.PerWorker(page)
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
	if places[0] != places[1] {
		t.Errorf("intermediates lie at %#x", places)
	}
	for i := range 4 {
		want := t.Fill(in, uint32(i))
		t.OK(traces[i%2].Replay(t.Ctx))
		t.Holds(fmt.Sprintf("replay %d", i), out, want)
	}
}
