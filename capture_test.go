package reprise_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// A function that captures has no say in what others do meanwhile, on this device or another.
func TestCaptureLeavesOthersAlone(t *testing.T) {
	b, c := open(t, sim.Wormhole(), reprise.WithQueues(2)), open(t, sim.Blackhole())
	in, out := b.pages("in", 4), b.pages("out", 4)
	x := b.load(b.adder("adder", chip.Core{}, in, out, 5))
	y := c.load(c.blank("blank", c.dev.Grid()))
	other := b.capture("other", x)
	var inner *reprise.Trace
	trace, err := b.queue.Capture(b.ctx, "outer", func(_ context.Context, r *reprise.Recorder) error {
		done := make(chan error)
		go func() {
			b.write(in, 1)
			err := errors.Join(b.queue.Run(b.ctx, x), other.Replay(b.ctx), b.queue.Wait(b.ctx))
			t2, e := b.queue.Capture(b.ctx, "beside", record(x))
			if e == nil {
				e = t2.Release(b.ctx)
			}
			done <- errors.Join(err, e)
		}()
		// Another device is another matter.
		var err error
		inner, err = c.queue.Capture(c.ctx, "inner", record(y))
		return errors.Join(err, c.queue.Run(c.ctx, y), c.queue.Wait(c.ctx), r.Run(x), <-done)
	})
	b.must(err)
	b.holds(out, 6)
	b.write(in, 2)
	b.must(errors.Join(trace.Replay(b.ctx), inner.Replay(c.ctx)))
	b.holds(out, 7)
	c.must(c.queue.Wait(c.ctx))
}

// A capture that ends in a panic, under a context that is over, or without room for its trace
// leaves the memory as it was and the queue usable, also when its function has released what it
// recorded.
func TestLostCaptureLeavesNothing(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithTraceRegion(200_000))
	in, out := b.pages("in", 4), b.pages("out", 4)
	keep := b.load(b.adder("keep", chip.Core{}, in, out, 5))
	other := b.capture("other", keep)
	canceled, cancel := context.WithCancel(b.ctx)
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		runs int // of keep, after the rest
		end  func() error
	}{
		"panic":    {b.ctx, 1, func() error { panic("mine") }},
		"canceled": {canceled, 1, func() error { return nil }},
		"no room":  {b.ctx, 2000, func() error { return nil }},
	} {
		before := b.dev.MemorySnapshot()
		buf := b.pages("temporary", 9)
		x := b.load(b.adder("x", chip.Core{X: 1}, buf, buf, 1))
		func() {
			defer func() {
				if p := recover(); p != nil && p != "mine" {
					panic(p)
				}
			}()
			trace, err := b.queue.Capture(c.ctx, name, func(_ context.Context, r *reprise.Recorder) error {
				b.must(r.Run(x))
				b.must(errors.Join(x.Release(b.ctx), buf.Release()))
				for range c.runs {
					_ = r.Run(keep)
				}
				return c.end()
			})
			if name == "no room" && !errors.Is(err, reprise.ErrOutOfMemory) {
				b.Errorf("%s: %v", name, err)
			}
			if trace != nil { // a capture needs nothing of a context
				b.must(trace.Release(b.ctx))
			}
		}()
		if changes := before.Changes(); len(changes) > 0 {
			t.Errorf("%s: something is left: %v", name, changes)
		}
		b.must(errors.Join(b.queue.Run(b.ctx, keep), other.Replay(b.ctx), b.queue.Wait(b.ctx)))
	}
}

// A recovery keeps traces as they are, with the parameters that were set.
func TestRecoverKeepsParameters(t *testing.T) {
	b := open(t, sim.Blackhole())
	in, out := b.pages("in", 2), b.pages("out", 2)
	x := b.load(b.adder("adder", chip.Core{}, in, out, 5))
	trace, err := b.queue.Capture(b.ctx, "trace", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.Param("addend", addend))
	})
	b.must(err)
	for i, set := range []uint32{5, 60, 700} {
		b.must(trace.Set("addend", set))
		if i == 1 {
			b.must(trace.Replay(b.ctx))
		}
		b.must(b.dev.Recover(b.ctx))
		b.write(in, 1)
		b.must(trace.Replay(b.ctx))
		b.holds(out, 1+set)
	}
}

// A loop whose function ends the capture is an error, and the queue takes captures as before.
func TestCaptureEndedInLoop(t *testing.T) {
	for name, end := range map[string]func(r *reprise.Recorder) error{
		"end":     func(r *reprise.Recorder) error { return second(r.End(context.Background())) },
		"discard": (*reprise.Recorder).Discard,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, sim.Blackhole())
			x := b.load(b.blank("program", chip.Single(0, 0)))
			r, err := b.queue.Begin("ended")
			b.must(err)
			err = r.Loop(2, func() error {
				b.must(r.Run(x))
				t.Log(end(r))
				return nil
			})
			if !errors.Is(err, reprise.ErrCaptureEnded) {
				t.Errorf("the loop: %v, want an ErrCaptureEnded", err)
			}
			b.must(b.capture("after", x).Replay(b.ctx))
		})
	}
}

// What can't be recorded between Begin and End fails, and so does End. A nested capture fails alone.
// A recorder that has ended can't be ended again.
func TestBeginRefuses(t *testing.T) {
	b := open(t, sim.Blackhole())
	in, out := b.pages("in", 4), b.pages("out", 4)
	x := b.load(b.adder("adder", chip.Core{}, in, out, 5))
	other := b.capture("other", x)
	before := b.allocated()
	for name, op := range map[string]struct {
		do func() error
		is error
	}{
		"write":  {func() error { return b.queue.Write(b.ctx, in, 0, make([]byte, in.Size())) }, reprise.ErrInCapture},
		"read":   {func() error { return b.queue.Read(b.ctx, in, 0, make([]byte, in.Size())) }, reprise.ErrInCapture},
		"wait":   {func() error { return b.queue.Wait(b.ctx) }, reprise.ErrInCapture},
		"replay": {func() error { return other.Replay(b.ctx) }, reprise.ErrReplayInCapture},
		"nested": {func() error { return second(b.queue.Capture(b.ctx, "inner", record(x))) }, reprise.ErrNestedCapture},
		"again":  {func() error { return second(b.queue.Begin("again")) }, reprise.ErrNestedCapture},
	} {
		r, err := b.queue.Begin(name)
		b.must(err)
		b.must(b.queue.Run(b.ctx, x))
		got := op.do()
		var ce *reprise.CaptureError
		if !errors.Is(got, op.is) || !errors.As(got, &ce) || filepath.Base(ce.File) != "capture_test.go" || ce.Line == 0 || ce.Instead == "" {
			t.Errorf("%s: %v, want %v", name, got, op.is)
		}
		trace, err := r.End(b.ctx)
		if err == nil {
			b.must(trace.Release(b.ctx))
		}
		if lost := op.is != reprise.ErrNestedCapture; lost != errors.Is(err, op.is) {
			t.Errorf("%s: the capture ended in %v", name, err)
		}
		for what, err := range map[string]error{"end": second(r.End(b.ctx)), "discard": r.Discard(),
			"end of nothing": second((*reprise.Recorder)(nil).End(b.ctx))} {
			if !errors.Is(err, reprise.ErrNotCapturing) {
				t.Errorf("%s after the end: %v", what, err)
			}
		}
	}
	r, err := b.queue.Begin("empty")
	b.must(err)
	if _, err := r.End(b.ctx); !errors.Is(err, reprise.ErrEmptyTrace) {
		t.Errorf("an empty capture: %v", err)
	}
	if diff := cmp.Diff(before, b.allocated()); diff != "" {
		t.Errorf("something is left (-before +after):\n%s", diff)
	}
}
