package reprise_test

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

// A second trace, and buffers allocated between two captures, never lie where the first trace's
// freed intermediates are, however full the memory is.
func TestSecondTraceKeepsOutOfTheFirst(t *testing.T) {
	b := open(t, sim.Wormhole())
	in, out := b.pages("in", 4), b.pages("out", 4)
	x := b.load(b.adder("x", chip.Core{}, in, out, 1))
	// All DRAM but 64 KiB at the top of every bank, of which 40 are an intermediate buffer of the
	// first trace.
	hole := int(b.dev.Memory(allocator.DRAM).LargestHole) - 64<<10
	b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: hole * b.dev.DRAMBanks(), PageSize: hole, Name: "hoard"})
	mid := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 40 << 10 * b.dev.DRAMBanks(), PageSize: 64, Name: "mid"})
	one := b.load(b.adder("one", chip.Core{}, in, mid, 1))
	first, err := b.queue.Capture(b.ctx, "first", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(one), one.Release(b.ctx), mid.Release())
	})
	b.must(err)
	var xs []*reprise.Executable
	for range 30 << 10 * b.dev.DRAMBanks() / x.Commands().Bytes {
		xs = append(xs, x)
	}
	_, err = b.queue.Capture(b.ctx, "second", record(xs...))
	if !errors.Is(err, reprise.ErrOutOfMemory) {
		t.Errorf("a trace of 30 KiB in every bank has found room beside the first: %v", err)
	}
	b.write(in, 6)
	b.must(errors.Join(first.Replay(b.ctx), first.Release(b.ctx)))
	b.must(b.capture("second", xs...).Replay(b.ctx))
	b.holds(out, 7)
}

// Traces are captured, replayed and released in any order beside buffers that come and go: each
// replay computes what it should, nobody's buffer changes, and at the end everything is as it was.
func TestTracesAndBuffersAtRandom(t *testing.T) {
	b := open(t, sim.Wormhole())
	in := b.pages("in", 2)
	type live struct {
		trace *reprise.Trace
		out   *reprise.Buffer
		add   uint32
	}
	rapid.Check(t, func(t *rapid.T) {
		before := b.dev.MemorySnapshot()
		var traces []live
		bufs := map[*reprise.Buffer]uint32{}
		var order []*reprise.Buffer
		next := uint32(1)
		for range rapid.IntRange(1, 25).Draw(t, "operations") {
			switch rapid.IntRange(0, 4).Draw(t, "operation") {
			case 0: // capture, with an intermediate that is freed
				mid, out := b.pages("mid", 2), b.pages("out", 2)
				one, two := b.load(b.adder("one", chip.Core{X: 1}, in, mid, next)), b.load(b.adder("two", chip.Core{X: 2}, mid, out, 1))
				trace, err := b.queue.Capture(b.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
					return errors.Join(r.Run(one), r.Run(two), mid.Release())
				})
				b.must(errors.Join(err, one.Release(b.ctx), two.Release(b.ctx)))
				traces = append(traces, live{trace, out, next + 1})
				next++
			case 1, 2:
				if len(traces) > 0 {
					l := traces[rapid.IntRange(0, len(traces)-1).Draw(t, "replay")]
					b.write(in, next)
					b.must(l.trace.Replay(b.ctx))
					b.holds(l.out, next+l.add)
				}
			case 3:
				if len(traces) > 0 {
					i := rapid.IntRange(0, len(traces)-1).Draw(t, "release")
					b.must(errors.Join(traces[i].trace.Release(b.ctx), traces[i].out.Release()))
					traces = append(traces[:i], traces[i+1:]...)
				}
			case 4:
				o := b.pages("buffer", rapid.IntRange(1, 20).Draw(t, "pages"))
				b.write(o, 5000*next)
				bufs[o] = 5000 * next
				order = append(order, o)
				next++
			}
		}
		for _, o := range order {
			b.holds(o, bufs[o])
			b.must(o.Release())
		}
		for _, l := range traces {
			b.must(errors.Join(l.trace.Release(b.ctx), l.out.Release()))
		}
		if changes := before.Changes(); len(changes) > 0 {
			t.Fatalf("something is left: %v", changes)
		}
	})
}

// Buffers of a pool lie in its memory, which traces keep after the pool was released. The same
// allocations give the same addresses.
func TestPool(t *testing.T) {
	onEmulators(t, func(b *bench) {
		nothing := b.dev.MemorySnapshot()
		pool, err := b.dev.NewPool(reprise.PoolConfig{Kind: allocator.DRAM, Size: 64 << 10, Name: "scratch"})
		b.must(err)
		if m := pool.Memory(); m.Allocated != 0 || m.Total*uint64(m.Banks) < 64<<10 {
			b.Errorf("a new pool: %+v", m)
		}
		in, out := b.pages("in", 4), b.pages("out", 4)
		x, y := b.load(b.adder("in", chip.Core{}, in, out, 1)), b.load(b.adder("out", chip.Core{X: 1}, in, out, 10))
		trace, err := b.queue.Capture(b.ctx, "trace", func(_ context.Context, r *reprise.Recorder) error {
			mid, err := pool.NewBuffer(reprise.BufferConfig{Size: 256, PageSize: 64, Name: "mid"})
			b.must(err)
			err = errors.Join(x.SetBuffer(mid, writeTo), r.Run(x), y.SetBuffer(mid, readFrom), r.Run(y), mid.Release())
			again, failed := pool.NewBuffer(reprise.BufferConfig{Size: 256, PageSize: 64, Name: "again"})
			b.must(failed)
			if again.Addr() != mid.Addr() {
				b.Errorf("a buffer lies at %#x, the one before at %#x", again.Addr(), mid.Addr())
			}
			return errors.Join(err, again.Release())
		})
		b.must(err)
		if _, err := pool.NewBuffer(reprise.BufferConfig{Size: 1 << 20, PageSize: 64}); !errors.Is(err, reprise.ErrOutOfMemory) {
			b.Errorf("more than the pool has: %v", err)
		}
		b.must(errors.Join(pool.Release(), x.Release(b.ctx), y.Release(b.ctx)))
		if err := pool.Release(); !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("released twice: %v", err)
		}
		if _, err := pool.NewBuffer(reprise.BufferConfig{Size: 64}); !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("taken from a released pool: %v", err)
		}
		// The trace keeps the memory.
		junk := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 << 10, PageSize: 64, Name: "junk"})
		b.write(junk, 0)
		b.write(in, 5)
		b.must(trace.Replay(b.ctx))
		b.holds(out, 16)
		b.holds(junk, 0)
		b.must(errors.Join(trace.Release(b.ctx), in.Release(), out.Release(), junk.Release()))
		if changes := nothing.Changes(); len(changes) > 0 {
			b.Errorf("something is left: %v", changes)
		}
		l1, err := b.dev.NewPool(reprise.PoolConfig{Kind: allocator.L1, Size: 1, Name: "l1"})
		b.must(err)
		n := b.dev.Grid().Size() * int(l1.Memory().Total)
		all, err := l1.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n, PageSize: 16, Name: "all"})
		b.must(err)
		b.write(all, 3)
		b.holds(all, 3)
		if _, err := l1.NewBuffer(reprise.BufferConfig{Size: 16}); !errors.Is(err, reprise.ErrOutOfMemory) || all.Kind() != allocator.L1 {
			b.Errorf("a full pool gives %v; the first buffer is in %v", err, all.Kind())
		}
		b.must(errors.Join(l1.Release(), all.Release()))
		if changes := nothing.Changes(); len(changes) > 0 {
			b.Errorf("something is left of a pool in L1: %v", changes)
		}
		for _, c := range []reprise.PoolConfig{{Kind: allocator.Trace, Size: 64}, {Kind: allocator.DRAM}, {Kind: allocator.L1, Size: -1},
			{Kind: allocator.L1, Size: 1 << 40}} {
			if _, err := b.dev.NewPool(c); err == nil {
				b.Errorf("a pool of %+v", c)
			}
		}
	})
}
