package reprise_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/sim"
)

// A trace does again what was recorded, on whatever lies in the buffers then.
func TestReplayDoesTheSameAgain(t *testing.T) {
	onAll(t, func(b *bench) {
		in, mid, out := b.pages("in", 20), b.pages("mid", 20), b.pages("out", 20)
		one := b.load(b.adder("one", reprise.Core{X: 1, Y: 2}, in, mid, 100))
		two := b.load(b.adder("two", reprise.Core{X: 4, Y: 1}, mid, out, 7))
		b.write(in, 1)
		b.must(errors.Join(b.queue.Run(b.ctx, one), b.queue.Run(b.ctx, two)))
		b.holds(out, 108)

		b.write(out, 0)
		trace := b.capture("both", one, two, one)
		b.holds(out, 0) // nothing ran
		b.must(b.queue.Run(b.ctx, two))
		b.holds(out, 108)
		for i := range uint32(5) {
			b.write(in, i)
			for range i + 1 {
				b.must(trace.Replay(b.ctx))
			}
			b.holds(out, i+107)
		}
		// Eager runs, writes and replays in one queue.
		b.write(in, 1000)
		b.must(b.queue.Run(b.ctx, one))
		b.must(trace.Replay(b.ctx))
		b.must(b.queue.Run(b.ctx, two))
		b.holds(out, 1107)
		b.must(trace.Release(b.ctx))
		b.must(errors.Join(one.Close(b.ctx), two.Close(b.ctx)))
	})
}

// What a trace says of itself agrees with what it takes of the device.
func TestTraceDescribesItself(t *testing.T) {
	onEmulators(t, func(b *bench) {
		x := b.load(b.blank("blank", b.dev.Grid()))
		y := b.load(b.adder("adder", reprise.Core{}, b.pages("in", 1), b.pages("out", 1), 1))
		trace := b.capture("described", x, y, x)
		var names []string
		size := 0
		for _, s := range trace.Steps() {
			names = append(names, s.Name)
			if s.Offset != size {
				b.Errorf("step %q starts at %d, the one before it ends at %d", s.Name, s.Offset, size)
			}
			size += s.Size
		}
		if diff := cmp.Diff([]string{"blank", "adder", "blank"}, names); diff != "" {
			b.Errorf("steps (-want +got):\n%s", diff)
		}
		if trace.Name() != "described" || trace.Size() < size || trace.ReplayBytes() <= 0 || trace.ReplayBytes() > 512 {
			b.Errorf("%q has %d B for %d B of steps, a replay %d B", trace.Name(), trace.Size(), size, trace.ReplayBytes())
		}
		sum := uint64(0)
		for _, e := range trace.Extents() {
			sum += e.End - e.Start
		}
		s := b.dev.Memory(allocator.Trace)
		if sum != uint64(trace.Size()) || s.Extents != 1 || s.Allocated*uint64(s.Banks) < sum {
			b.Errorf("the banks hold %d B of %d, the allocator has %+v", sum, trace.Size(), s)
		}
		var text bytes.Buffer
		b.must(trace.Print(&text))
		lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
		if last := lines[len(lines)-1]; len(lines) < 10 || !strings.Contains(strings.ToLower(last), "exec_buf_end") {
			b.Errorf("%d lines, the last is %q", len(lines), last)
		}
		if x.Cores() != b.dev.Grid().Size() || y.Cores() != 1 || x.CommandBytes() <= 0 {
			b.Errorf("cores %d and %d, %d B of commands", x.Cores(), y.Cores(), x.CommandBytes())
		}
	})
}

// Buffers and kernels live as long as an executable or a trace needs them, whoever frees them first.
func TestTraceOwnsWhatItTouches(t *testing.T) {
	onAll(t, func(b *bench) {
		nothing := b.allocated()
		in, out := b.pages("in", 16), b.pages("out", 16)
		b.write(in, 40)
		b.must(b.queue.Finish(b.ctx))
		addr := in.Addr()
		onlyOut := func() map[reprise.Kind]uint64 {
			m := map[reprise.Kind]uint64{}
			for k, v := range nothing {
				m[k] = v
			}
			m[reprise.DRAM] += b.dev.Memory(reprise.DRAM).Allocated
			return m
		}
		x := b.load(b.adder("adder", reprise.Core{}, in, out, 2))
		loaded := b.allocated()
		b.must(in.Free())
		if err := b.queue.Write(b.ctx, in, 0, nil); !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("written after it was freed: %v", err)
		}
		if diff := cmp.Diff(loaded, b.allocated()); diff != "" {
			b.Errorf("a loaded program's buffer is gone (-want +got):\n%s", diff)
		}
		trace := b.capture("trace", x)
		b.must(x.Close(b.ctx))
		if err := x.Close(b.ctx); !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("closed twice: %v", err)
		}
		for op, err := range map[string]error{"run": b.queue.Run(b.ctx, x), "capture": second(b.queue.Capture(b.ctx, "again", record(x)))} {
			if !errors.Is(err, reprise.ErrReleased) {
				b.Errorf("%s of a closed executable: %v", op, err)
			}
			b.says(err, `"adder"`, "it has been released already")
		}
		// Whoever allocates now gets other memory.
		junk := b.pages("junk", 16)
		if junk.Addr() == addr {
			b.Error("memory that a trace reads was handed out")
		}
		b.write(junk, 0xBAD)
		b.must(trace.Replay(b.ctx))
		b.holds(out, 42)
		b.must(errors.Join(junk.Free(), trace.Release(b.ctx)))
		if err := trace.Release(b.ctx); !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("released twice: %v", err)
		}
		err := trace.Replay(b.ctx)
		if !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("replayed after it was released: %v", err)
		}
		b.says(err, `reprise: replay trace "trace": it has been released already`)
		if diff := cmp.Diff(onlyOut(), b.allocated()); diff != "" {
			b.Errorf("more than a buffer is left (-want +got):\n%s", diff)
		}
		b.holds(out, 42)
		b.must(out.Free())
		if diff := cmp.Diff(nothing, b.allocated()); diff != "" {
			b.Errorf("something is left (-want +got):\n%s", diff)
		}
		again := b.pages("again", 16)
		if again.Addr() != addr {
			b.Errorf("the freed memory at %#x isn't handed out again, but %#x is", addr, again.Addr())
		}
	})
}

// here returns the file and line of its caller plus some lines, as errors name them.
func here(lines int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", filepath.Base(file), line+lines)
}

// What a capture can't record is an error that names the place in the caller's program, even if the caller drops it;
// nothing is left behind, and the queue works as before.
func TestFailedCaptures(t *testing.T) {
	onAll(t, func(b *bench) {
		in, out := b.pages("in", 4), b.pages("out", 4)
		x := b.load(b.adder("adder", reprise.Core{}, in, out, 5))
		closed := b.load(b.blank("closed", reprise.Single(1, 1)))
		b.must(closed.Close(b.ctx))
		before := b.allocated()
		var where string
		var kept *reprise.Recorder
		sentinel := errors.New("the caller's own")
		_, err := b.queue.Capture(b.ctx, "inner", func(r *reprise.Recorder) error {
			kept = r
			return nil
		})
		if !errors.Is(err, reprise.ErrEmptyTrace) {
			b.Errorf("an empty capture: %v", err)
		}
		for name, tt := range map[string]struct {
			record func(*reprise.Recorder) error
			is     error
			place  bool
		}{
			"nothing recorded": {func(*reprise.Recorder) error { return nil }, reprise.ErrEmptyTrace, false},
			"own error":        {func(r *reprise.Recorder) error { return errors.Join(r.Run(x), sentinel) }, sentinel, false},
			"closed": {func(r *reprise.Recorder) error {
				where = here(1)
				return r.Run(closed)
			}, reprise.ErrReleased, true},
			"dropped error": {func(r *reprise.Recorder) error {
				where = here(1)
				_ = r.Run(closed)
				return r.Run(x)
			}, reprise.ErrReleased, true},
			"recorder of another capture": {func(r *reprise.Recorder) error {
				where = here(1)
				return kept.Run(x)
			}, reprise.ErrCaptureEnded, true},
		} {
			trace, err := b.queue.Capture(b.ctx, name, tt.record)
			if trace != nil || !errors.Is(err, tt.is) {
				b.Errorf("%s: %v, want %v", name, err, tt.is)
				continue
			}
			b.says(err, "reprise: capture ", tt.is.Error())
			var ce *reprise.CaptureError
			if tt.place != errors.As(err, &ce) {
				b.Errorf("%s: %v (%T)", name, err, err)
			} else if tt.place {
				if got := fmt.Sprintf("%s:%d", filepath.Base(ce.File), ce.Line); got != where {
					b.Errorf("%s: the error names %s, want %s", name, got, where)
				}
				b.says(err, "run program", where)
			}
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
	free := b.dev.Memory(reprise.DRAM).LargestHole
	hoard := b.buffer(reprise.BufferConfig{Kind: reprise.DRAM, Size: int(free) * b.dev.DRAMBanks(), PageSize: int(free), Name: "hoard"})
	stats := func() [3]reprise.MemoryStats {
		return [3]reprise.MemoryStats{b.dev.Memory(reprise.DRAM), b.dev.Memory(reprise.L1), b.dev.Memory(allocator.Trace)}
	}
	before := stats()
	_, err := b.queue.Capture(b.ctx, "homeless", record(x))
	var oom *reprise.OutOfMemoryError
	if !errors.As(err, &oom) || oom.Kind != allocator.Trace || oom.Owner != "homeless" {
		t.Fatalf("%v, want an *OutOfMemoryError", err)
	}
	b.says(err, `reprise: capture "homeless": trace needs`, "emulated wormhole 0", "out of memory", "most is held by hoard")
	if diff := cmp.Diff(before, stats()); diff != "" {
		t.Errorf("statistics (-before +after):\n%s", diff)
	}
	b.must(hoard.Free())
	b.must(b.capture("housed", x).Replay(b.ctx))
	b.must(b.queue.Finish(b.ctx))
}

// Replaying allocates nothing on the heap. The counter is the whole process's and the emulator allocates too, but
// AllocsPerRun leaves one processor, which replays don't give away. The best of some rounds counts, because the scheduler
// may take it.
func TestReplayAllocatesNothing(t *testing.T) {
	onAll(t, func(b *bench) {
		x := b.load(b.blank("blank", b.dev.Grid()))
		trace := b.capture("trace", x)
		fewest := math.Inf(1)
		for i := 0; i < 10 && fewest > 0; i++ {
			b.must(b.queue.Finish(b.ctx))
			fewest = min(fewest, testing.AllocsPerRun(20, func() {
				if err := trace.Replay(b.ctx); err != nil {
					b.Error(err)
				}
			}))
		}
		if fewest != 0 {
			b.Errorf("a replay allocates %v times", fewest)
		}
	})
}
