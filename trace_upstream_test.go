package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// The trace tests of tt-metal with their numbers: the region's size, traces, programs of each and
// how often they are replayed. Each trace computes what running its programs computes, in turn with
// the others; where upstream moves data with a queue of its own, so does the second queue here.
// Source: tt-metal test_mesh_trace.cpp and the EnqueueTrace tests.
func TestUpstreamTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine and minutes under the race detector")
	}
	for _, c := range []struct {
		name                      string
		region                    uint64 // bytes over all banks; 0 for one that grows
		traces, programs, replays int
		queues                    int
	}{
		{"MeshTraceTestSuite.Sanity", 64 << 20, 4, 5, 10 * 10, 1},
		{"BasicTraceWithZeroTraceRegion", 0, 3, 1, 5, 1},
		{"MultipleTracesWithDynamicAllocation", 0, 3, 1, 3, 1},
		{"EnqueueOneProgramTrace", 2048, 1, 1, 1, 2},
		{"EnqueueOneProgramTraceLoops", 4096, 1, 1, 10, 2},
		{"EnqueueTwoProgramTrace", 6144, 1, 2, 5, 2},
		{"EnqueueMultiProgramTrace", 4096, 1, 4, 4, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t, sim.Wormhole(), reprise.WithTraceRegion(c.region), reprise.WithQueues(c.queues))
			data, moved, ran := b.dev.Queue(c.queues-1), b.dev.NewEvent("moved"), b.dev.NewEvent("ran")
			write := func(buf *reprise.Buffer, first uint32) {
				b.must(data.Write(b.ctx, buf, 0, words(buf.Size(), first)))
				b.must(errors.Join(data.Record(b.ctx, moved), b.queue.WaitEvent(b.ctx, moved)))
			}
			behind := func() { b.must(errors.Join(b.queue.Record(b.ctx, ran), data.WaitEvent(b.ctx, ran))) }
			holds := func(buf *reprise.Buffer, first uint32) {
				got := make([]byte, buf.Size())
				b.must(data.Read(b.ctx, buf, 0, got))
				if string(got) != string(words(len(got), first)) {
					t.Errorf("buffer %q begins with % x, want %#x", buf.Name(), got[:4], first)
				}
			}
			in := b.pages("in", 2)
			var traces []*reprise.Trace
			var outs []*reprise.Buffer
			for i := range c.traces {
				bufs := []*reprise.Buffer{in}
				var xs []*reprise.Executable
				for k := range c.programs {
					bufs = append(bufs, b.pages(fmt.Sprint(i, k), 2))
					xs = append(xs, b.load(b.adder("adder", chip.Core{X: k, Y: i}, bufs[k], bufs[k+1], uint32(i+1))))
				}
				// Eager first: what a replay must do as well.
				write(in, 0)
				for _, x := range xs {
					b.must(b.queue.Run(b.ctx, x))
				}
				behind()
				holds(bufs[c.programs], uint32(c.programs*(i+1)))
				traces, outs = append(traces, b.capture(fmt.Sprint(i), xs...)), append(outs, bufs[c.programs])
			}
			for round := range uint32(c.replays) {
				write(in, round)
				for _, trace := range traces {
					b.must(trace.Replay(b.ctx))
				}
				behind()
				if round%10 == 0 || round == uint32(c.replays)-1 {
					for i, out := range outs {
						holds(out, round+uint32(c.programs*(i+1)))
					}
				}
			}
			for _, trace := range traces {
				b.must(trace.Release(b.ctx))
			}
			if left := b.dev.Memory(allocator.Trace).Allocated; left != 0 {
				t.Errorf("%d B of each bank are left in the trace region", left)
			}
		})
	}
}

// NonConvexGridTrace: 100 replays of programs on cores that make no box.
func TestUpstreamNonConvexGrid(t *testing.T) {
	b := open(t, sim.Blackhole())
	n := b.dev.Grid().Size()
	words := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16 * n, PageSize: 16, Name: "words"})
	x := b.load(&reprise.Program{Name: "L", Buffers: []*reprise.Buffer{words}, Kernels: []reprise.Kernel{{
		Name: "store", Image: b.image(kernels.Store), Processor: chip.BRISC, Common: []uint32{0},
		Cores: []chip.Range{{End: chip.Core{X: 1, Y: 5}}, {Start: chip.Core{X: 2, Y: 4}, End: chip.Core{X: 6, Y: 5}}},
		Args:  func(chip.Core) []uint32 { return []uint32{words.Addr(), 1, 0} },
	}}})
	trace, err := b.queue.Capture(b.ctx, "L", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.Param("value", reprise.Arg{Kernel: "store", Index: 2}))
	})
	b.must(err)
	b.must(b.queue.Write(b.ctx, words, 0, make([]byte, words.Size())))
	for i := range uint32(100) {
		b.must(errors.Join(trace.Set("value", i+1), trace.Replay(b.ctx)))
	}
	got := make([]byte, words.Size())
	b.must(b.queue.Read(b.ctx, words, 0, got))
	set := 0
	for i := range n {
		if v := got[16*i]; v == 100 {
			set++
		} else if v != 0 {
			t.Errorf("word %d is %d", i, v)
		}
	}
	if set != 2*6+5*2 {
		t.Errorf("%d cores have run, want %d", set, 2*6+5*2)
	}
}

// TraceWithSmallAllocationsDuringCapture: 1 MB taken inside a capture.
func TestUpstreamAllocationInsideCapture(t *testing.T) {
	b := open(t, sim.Wormhole())
	pool, err := b.dev.NewPool(reprise.PoolConfig{Kind: allocator.DRAM, Size: 1<<20 + 64*b.dev.DRAMBanks(), Name: "scratch"})
	b.must(err)
	in, out := b.pages("in", 4), b.pages("out", 4)
	one, two := b.load(b.adder("one", chip.Core{}, in, out, 1)), b.load(b.adder("two", chip.Core{X: 1}, in, out, 1))
	trace, err := b.queue.Capture(b.ctx, "trace", func(_ context.Context, r *reprise.Recorder) error {
		mid, err := pool.NewBuffer(reprise.BufferConfig{Size: 1 << 20, PageSize: 64, Name: "1 MB"})
		if err != nil {
			return err
		}
		return errors.Join(one.SetBuffer(mid, writeTo), r.Run(one), two.SetBuffer(mid, readFrom), r.Run(two), mid.Release())
	})
	b.must(err)
	for i := range uint32(5) {
		b.write(in, i)
		b.must(trace.Replay(b.ctx))
		b.holds(out, i+2)
	}
}

// Serial captures and releases find the whole region each time (tt-metal issue 27966 was that they
// didn't).
func TestUpstreamSerialCaptures(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine and minutes under the race detector")
	}
	b := open(t, sim.Blackhole(), reprise.WithTraceRegion(8192))
	x := b.load(b.blank("blank", b.dev.Grid()))
	all := b.dev.Memory(allocator.Trace)
	var xs []*reprise.Executable
	for range int(all.Total) * b.dev.DRAMBanks() * 3 / 4 / x.Commands().Bytes { // two of these don't fit
		xs = append(xs, x)
	}
	for range 20 {
		trace := b.capture("trace", xs...)
		if _, err := b.queue.Capture(b.ctx, "second", record(xs...)); !errors.Is(err, reprise.ErrOutOfMemory) {
			t.Fatalf("a second trace: %v", err)
		}
		b.must(errors.Join(trace.Replay(b.ctx), trace.Release(b.ctx)))
	}
	if s := b.dev.Memory(allocator.Trace); s.Allocated != 0 || s.LargestHole != all.LargestHole {
		t.Errorf("the region is %+v, it was %+v", s, all)
	}
}

// SyncWorkloadsOnSubDeviceTrace and DataCopyOnSubDevicesTrace: programs on two groups of workers
// hand over to each other inside of a trace, where upstream's wait for semaphores of their own:
// three sets for 5 replays, and a copy and two additions, of 3 together, for 50.
func TestUpstreamSubDeviceTraces(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithQueues(2), reprise.WithQueueWorkers(0, chip.Grid(3, 3)),
		reprise.WithQueueWorkers(1, chip.Range{Start: chip.Core{X: 3, Y: 3}, End: chip.Core{X: 4, Y: 4}}))
	q := []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}
	x, y, copied, added := b.pages("x", 32), b.pages("y", 32), b.pages("copied", 32), b.pages("added", 32)
	syncer, waiter := b.load(b.adder("syncer", chip.Core{}, x, y, 0)), b.load(b.adder("waiter", chip.Core{X: 3, Y: 3}, y, x, 1))
	event := b.dev.NewEvent("sync")
	syncs, err := captureQueues(b.ctx, "sync", q, func(rs []*reprise.Recorder) error {
		back := b.dev.NewEvent("back")
		var errs []error
		for i := range 3 {
			if i > 0 {
				errs = append(errs, rs[0].WaitEvent(back))
			}
			errs = append(errs, rs[0].Run(syncer), rs[0].Record(event), rs[1].WaitEvent(event), rs[1].Run(waiter), rs[1].Record(back))
		}
		return errors.Join(errs...)
	})
	b.must(err)
	b.write(x, 0)
	b.must(q[0].Wait(b.ctx))
	for range 5 {
		b.must(syncs.Replay(b.ctx))
	}
	b.must(q[1].Wait(b.ctx))
	b.holds(x, 3*5)
	b.must(syncs.Release(b.ctx))

	copier, one := b.load(b.adder("copy", chip.Core{X: 1, Y: 1}, x, copied, 0)), b.load(b.adder("add 1", chip.Core{X: 2, Y: 2}, x, y, 1))
	two := b.load(b.adder("add 2", chip.Core{X: 4, Y: 4}, y, added, 2))
	copies, err := captureQueues(b.ctx, "copy", q, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(copier), rs[0].Run(one), rs[0].Record(event), rs[1].WaitEvent(event), rs[1].Run(two))
	})
	b.must(err)
	for i := range uint32(50) {
		b.write(x, i)
		b.must(errors.Join(q[0].Wait(b.ctx), copies.Replay(b.ctx), q[1].Wait(b.ctx)))
		b.holds(copied, i)
		b.holds(added, i+3)
	}
	b.must(copies.Release(b.ctx))
}
