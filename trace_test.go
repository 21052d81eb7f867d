package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// here returns the file and line of its caller plus some lines, as errors name them.
func here(lines int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", filepath.Base(file), line+lines)
}

// What a capture can't record is an error that names the place in the caller's program, even if the
// caller drops it; nothing is left, and the queue works as before.
func TestFailedCaptures(t *testing.T) {
	onAll(t, func(b *bench) {
		in, out := b.pages("in", 4), b.pages("out", 4)
		x := b.load(b.adder("adder", chip.Core{}, in, out, 5))
		closed := b.load(b.blank("closed", chip.Single(1, 1)))
		b.must(closed.Release(b.ctx))
		before := b.allocated()
		var where string
		var kept *reprise.Recorder
		_, err := b.queue.Capture(b.ctx, "inner", func(_ context.Context, r *reprise.Recorder) error {
			kept = r
			return nil
		})
		if !errors.Is(err, reprise.ErrEmptyTrace) {
			b.Errorf("an empty capture: %v", err)
		}
		for name, tt := range map[string]struct {
			record func(context.Context, *reprise.Recorder) error
			is     error
		}{
			"closed": {func(_ context.Context, r *reprise.Recorder) error {
				where = here(1)
				return r.Run(closed)
			}, reprise.ErrReleased},
			"dropped error": {func(_ context.Context, r *reprise.Recorder) error {
				where = here(1)
				_ = r.Run(closed)
				return r.Run(x)
			}, reprise.ErrReleased},
			"recorder of another capture": {func(_ context.Context, r *reprise.Recorder) error {
				where = here(1)
				return kept.Run(x)
			}, reprise.ErrCaptureEnded},
		} {
			trace, err := b.queue.Capture(b.ctx, name, tt.record)
			if trace != nil || !errors.Is(err, tt.is) {
				b.Errorf("%s: %v, want %v", name, err, tt.is)
				continue
			}
			b.says(err, "reprise: capture ", tt.is.Error())
			var ce *reprise.CaptureError
			if !errors.As(err, &ce) {
				b.Errorf("%s: %v (%T)", name, err, err)
				continue
			}
			if got := fmt.Sprintf("%s:%d", filepath.Base(ce.File), ce.Line); got != where {
				b.Errorf("%s: the error names %s, want %s", name, got, where)
			}
			b.says(err, "run program", where)
			if diff := cmp.Diff(before, b.allocated()); diff != "" {
				b.Errorf("%s: something is left (-before +after):\n%s", name, diff)
			}
		}
		where = here(1)
		err = kept.Run(x)
		if !errors.Is(err, reprise.ErrCaptureEnded) {
			b.Errorf("a kept recorder: %v", err)
		}
		b.says(err, `capture "inner": run program "adder"`, where, "the capture has ended")

		b.write(in, 10)
		b.must(b.queue.Run(b.ctx, x))
		b.holds(out, 15)
		trace := b.capture("good", x)
		b.write(in, 20)
		b.must(trace.Replay(b.ctx))
		b.holds(out, 25)
	})
}

// A trace that finds no room fails whole: what the allocator knows is as before.
func TestCaptureWithoutRoom(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.load(b.blank("blank", b.dev.Grid()))
	free := b.dev.Memory(allocator.DRAM).LargestHole
	hoard := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: int(free) * b.dev.DRAMBanks(), PageSize: int(free), Name: "hoard"})
	stats := func() [3]allocator.Stats {
		return [3]allocator.Stats{b.dev.Memory(allocator.DRAM), b.dev.Memory(allocator.L1), b.dev.Memory(allocator.Trace)}
	}
	before := stats()
	_, err := b.queue.Capture(b.ctx, "homeless", record(x))
	var oom *allocator.OutOfMemoryError
	if !errors.As(err, &oom) || oom.Kind != allocator.Trace || oom.Owner != "homeless" {
		t.Fatalf("%v, want an *OutOfMemoryError", err)
	}
	b.says(err, `reprise: capture "homeless": trace needs`, "emulated wormhole 0", "out of memory", "most is held by hoard")
	if diff := cmp.Diff(before, stats()); diff != "" {
		t.Errorf("statistics (-before +after):\n%s", diff)
	}
	b.must(hoard.Release())
	b.must(b.capture("housed", x).Replay(b.ctx))
	b.must(b.queue.Wait(b.ctx))
}
