package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

// What is larger than the device takes at once is written in parts, and not a byte after it
// changes: neither of the same page nor of the next one in the same core.
func TestLargeWritesEndWhereTheyEnd(t *testing.T) {
	onEmulators(t, func(b *bench) {
		page := 200<<10 + 16
		buf := b.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: page, Name: "large", Sharding: &allocator.ShardSpec{
			Layout: allocator.HeightSharded, Tensor: []int{2, 1}, Shard: []int{2, 1}, Cores: []chip.Range{chip.Single(1, 1)},
		}})
		want := bytes.Repeat([]byte{1, 2, 3, 5, 7, 11, 13, 17}, 2*page/8)
		b.must(b.queue.Write(b.ctx, buf, 0, want))
		for i, r := range []struct{ off, n int }{{0, page}, {0, 132<<10 + 16}, {page, 140<<10 + 48}, {32, 150<<10 + 32}} {
			part := bytes.Repeat([]byte{byte(100 + i)}, r.n)
			b.must(b.queue.Write(b.ctx, buf, r.off, part))
			copy(want[r.off:], part)
			got := make([]byte, 2*page)
			b.must(b.queue.Read(b.ctx, buf, 0, got))
			for k := range got {
				if got[k] != want[k] {
					b.Fatalf("%d B written at %d: byte %d is %d, want %d", r.n, r.off, k, got[k], want[k])
				}
			}
		}
	})
}

// An *OutOfMemoryError says what was asked for, what is free, and what the rest is allocated to.
func TestOutOfMemory(t *testing.T) {
	b := open(t, sim.Blackhole())
	big := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 30 << 30, PageSize: 1 << 20, Name: "hoard"})
	_, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4 << 30, PageSize: 1 << 20, Name: "late"})
	var oom *allocator.OutOfMemoryError
	if !errors.As(err, &oom) || !errors.Is(err, reprise.ErrOutOfMemory) {
		t.Fatalf("%v, want an *OutOfMemoryError", err)
	}
	if oom.Kind != allocator.DRAM || oom.Owner != "late" || oom.Banks != 8 || oom.Size != 4<<30 || oom.Need != 512<<20 ||
		oom.Have >= oom.Need || oom.Hole > oom.Have {
		t.Errorf("%+v", oom)
	}
	b.says(err, `new buffer "late"`, "4294967296 B (4.0 GiB) of DRAM", "each of 8 banks must hold 536870912 B", "free something first",
		"most is held by hoard")

	_, err = b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 1 << 45, Name: "impossible"})
	b.says(err, "it would not fit an empty device")
	_, err = b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 2 << 20, Name: "one page"})
	b.says(err, `new buffer "one page"`, "of L1", "each of 130 banks must hold")

	b.must(big.Release())
	again := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4 << 30, PageSize: 1 << 20, Name: "late"})
	b.must(again.Release())
	err = again.Release()
	if !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("freed twice: %v", err)
	}
	b.says(err, `reprise: release buffer "late": it has been released already`)
	for _, err := range []error{b.queue.Write(b.ctx, again, 0, nil), b.queue.Read(b.ctx, again, 0, nil)} {
		if !errors.Is(err, reprise.ErrReleased) {
			t.Errorf("used after it was freed: %v", err)
		}
	}
}

// Circular buffers and L1 buffers don't overlap: programs take the bottom of L1, buffers the top,
// and the error of the second names the first. Programs share the memory of their circular buffers,
// and traces keep it.
func TestCircularBuffersAgainstL1Buffers(t *testing.T) {
	onEmulators(t, func(b *bench) {
		half := int(b.dev.Memory(allocator.L1).Free) / 2 &^ 63
		tall := reprise.BufferConfig{Kind: allocator.L1, Size: half * b.dev.Grid().Size(), PageSize: half, Name: "tall"}
		program := func(name string, bytes int) *reprise.Program {
			cores := []chip.Range{chip.Single(0, 0)}
			p := b.blank(name, cores...)
			p.CircularBuffers = []reprise.CircularBuffer{{Index: 0, Cores: cores, PageSize: bytes, Pages: 1}}
			return p
		}
		buf := b.buffer(tall)
		before := b.allocated()
		_, err := b.dev.Load(b.ctx, program("wide", half+128))
		if !errors.Is(err, allocator.ErrOccupied) {
			b.Errorf("circular buffers over a buffer: %v", err)
		}
		b.says(err, `reprise: load program "wide"`, "circular buffers", "tall")
		if diff := cmp.Diff(before, b.allocated()); diff != "" {
			b.Errorf("something is left of the failed load (-before +after):\n%s", diff)
		}
		small := b.load(program("small", half/2))
		b.must(buf.Release())

		refused := func() {
			b.Helper()
			_, err := b.dev.NewBuffer(tall)
			if !errors.Is(err, reprise.ErrOutOfMemory) {
				b.Errorf("a buffer over circular buffers: %v", err)
			}
			b.says(err, `new buffer "tall"`, "most is held by circular buffers")
		}
		large := b.load(program("large", half+128))
		refused()
		trace := b.capture("large", large)
		b.must(large.Release(b.ctx))
		refused()
		b.must(errors.Join(trace.Replay(b.ctx), trace.Release(b.ctx)))
		b.must(errors.Join(b.buffer(tall).Release(), small.Release(b.ctx)))
		if got := b.allocated()[allocator.L1]; got != 0 {
			b.Errorf("%d B of L1 are still taken", got)
		}
	})
}

// Without a trace region traces take what they need from the top of every bank; with one they stay
// in it, and one that doesn't fit says how large it would have to be.
func TestTraceRegion(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and slow under the race detector")
	}
	for _, region := range []uint64{0, 100_000} {
		t.Run(fmt.Sprint(region), func(t *testing.T) {
			b := open(t, sim.Blackhole(), reprise.WithTraceRegion(region))
			x := b.load(b.blank("blank", b.dev.Grid()))
			trace := b.capture("short", x)
			for _, e := range trace.Parts()[0].Extents {
				if end := b.dev.DRAMBankSize(); e.End > end || region != 0 && e.Start < end-allocator.TracePerBank(region, 8, 64) ||
					e.End < end-16<<10 {
					t.Errorf("%+v is not at the top of a bank of %#x", e, end)
				}
			}
			s := b.dev.Memory(allocator.Trace)
			if want := allocator.TracePerBank(region, 8, 64); region != 0 && s.Total != want {
				t.Errorf("the region has %d B of each bank, want %d", s.Total, want)
			}
			var xs []*reprise.Executable
			for range 600 {
				xs = append(xs, x)
			}
			long, err := b.queue.Capture(b.ctx, "long", record(xs...))
			if region == 0 {
				b.must(err)
				b.must(long.Replay(b.ctx))
				b.must(errors.Join(long.Release(b.ctx), trace.Release(b.ctx)))
				return
			}
			var oom *allocator.OutOfMemoryError
			if !errors.As(err, &oom) || oom.Kind != allocator.Trace || oom.TraceRegion <= region {
				t.Fatalf("%v (%+v), want an *OutOfMemoryError for traces", err, oom)
			}
			b.says(err, `capture "long"`, "trace needs", "a trace region of", "would do", "short")
			b.must(trace.Release(b.ctx))

			// As large as it said is large enough.
			c := open(t, sim.Blackhole(), reprise.WithTraceRegion(oom.TraceRegion))
			x = c.load(c.blank("blank", c.dev.Grid()))
			for i := range xs {
				xs[i] = x
			}
			c.must(c.capture("short", x).Replay(c.ctx))
			c.must(c.capture("long", xs...).Replay(c.ctx))
			c.must(c.queue.Wait(c.ctx))
		})
	}
}

// A read that was abandoned doesn't write to memory that is its caller's again.
func TestAbandonedRead(t *testing.T) {
	card := sim.Blackhole()
	b := open(t, card)
	word := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"})
	data := b.pages("data", 100)
	b.write(word, 0)
	b.write(data, 1)
	b.must(b.queue.Run(b.ctx, b.spin("gate", word, chip.BRISC, chip.Single(0, 0))))
	ctx, cancel := context.WithCancelCause(b.ctx)
	cancel(errors.New("changed my mind"))
	dst := make([]byte, data.Size())
	err := b.queue.Read(ctx, data, 0, dst)
	b.says(err, `reprise: read buffer "data"`, "changed my mind")
	poke(b, card, chip.Core{}, word.Addr(), 1)
	b.must(b.queue.Wait(b.ctx))
	if len(bytes.Trim(dst, "\x00")) != 0 {
		t.Error("the abandoned read wrote to its destination")
	}
	b.holds(data, 1) // later reads are not confused by it
}

// poke writes a word to the L1 of a worker as a second user of the card would, past the queues.
func poke(b *bench, card *sim.Card, at chip.Core, addr, value uint32) {
	b.Helper()
	d, err := kmd.Open(b.ctx, card)
	b.must(err)
	defer func() { b.must(d.Close()) }()
	h, err := d.Harvesting(b.ctx)
	b.must(err)
	c, err := chip.New(d.Arch(), h)
	b.must(err)
	xy, err := c.Virtual(at)
	b.must(err)
	b.must(d.Write32(xy, uint64(addr), value))
}

// A configuration that can't be is refused with the reason and the numbers, and takes nothing.
func TestImpossibleBuffers(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithL1Small(1024))
	before := b.allocated()
	wide := &allocator.ShardSpec{Layout: allocator.WidthSharded, Tensor: []int{1, 9}, Shard: []int{1, 1}, Cores: []chip.Range{chip.Grid(9, 1)}}
	for _, tt := range []struct {
		c    reprise.BufferConfig
		want error
		part string
	}{
		{reprise.BufferConfig{Kind: allocator.DRAM}, nil, "0 B in pages of 0 B"},
		{reprise.BufferConfig{Kind: allocator.L1, Size: -64}, nil, "-64 B in pages of -64 B"},
		{reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: -1}, nil, "64 B in pages of -1 B"},
		{reprise.BufferConfig{Kind: allocator.DRAM, Size: 100, PageSize: 64}, nil, "100 B in pages of 64 B"},
		{reprise.BufferConfig{Kind: allocator.Trace, Size: 64}, nil, "kind trace is not DRAM, L1 or L1 small"},
		{reprise.BufferConfig{Kind: 99, Size: 64}, nil, "kind kind(99) is not DRAM, L1 or L1 small"},
		{reprise.BufferConfig{Kind: allocator.L1, Sharding: heights(4, 1, 4)}, nil, "needs a page size"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: -16, Sharding: heights(4, 1, 4)}, nil, "needs a page size"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 1 << 62, Sharding: heights(4, 1, 4)}, nil, "a size that can be counted"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Size: 80, Sharding: heights(4, 1, 4)}, nil, "4 pages of 16 B are 64 B"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Sharding: heights(5, 1, 4)}, allocator.ErrRequest, "5 shards on 4 cores"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Sharding: wide}, nil, "core (8,0) is not one of the workers"},
		{reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 16, Sharding: heights(13, 1, 13)}, nil, "core (12,0): shards in DRAM"},
		{reprise.BufferConfig{Kind: allocator.L1, PageSize: 16, Sharding: &allocator.ShardSpec{}}, allocator.ErrRequest, "rank 0"},
		{reprise.BufferConfig{Kind: allocator.L1Small, Size: 64, PageSize: 64}, allocator.ErrRequest, "sharded buffers only"},
		{reprise.BufferConfig{Kind: allocator.L1Small, PageSize: 2048, Sharding: heights(4, 1, 4)}, reprise.ErrOutOfMemory, "1024 B"},
		{reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Addr: 33}, allocator.ErrRequest, "not a multiple of 32 B"},
		{reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Addr: 1 << 30}, allocator.ErrOccupied, "beyond the region"},
	} {
		tt.c.Name = "odd"
		_, err := b.dev.NewBuffer(tt.c)
		b.says(err, `reprise: new buffer "odd": `, tt.part)
		if tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%v is no %v", err, tt.want)
		}
	}
	if diff := cmp.Diff(before, b.allocated()); diff != "" {
		t.Errorf("something is taken (-before +after):\n%s", diff)
	}
	without := open(t, sim.Wormhole())
	_, err := without.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1Small, PageSize: 64, Name: "small", Sharding: heights(4, 1, 4)})
	without.says(err, `new buffer "small"`, "out of memory", "opened with WithL1Small")
}

// Serial captures and releases find the whole region each time; tt-metal's issue 27966 was that they
// didn't.
func TestSerialCaptures(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithTraceRegion(8192))
	x := b.load(b.blank("blank", b.dev.Grid()))
	all := b.dev.Memory(allocator.Trace)
	xs := slices.Repeat([]*reprise.Executable{x}, int(all.Total)*b.dev.DRAMBanks()*3/4/x.Commands().Bytes) // two of these don't fit
	for range 5 {
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
