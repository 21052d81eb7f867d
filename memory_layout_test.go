package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim"
)

func heights(pages, shard, cores int) *allocator.ShardSpec {
	return &allocator.ShardSpec{Layout: allocator.HeightSharded, Tensor: []int{pages, 1}, Shard: []int{shard, 1},
		Cores: []chip.Range{chip.Grid(cores, 1)}}
}

func TestShardedBuffer(t *testing.T) {
	b := open(t, sim.Blackhole())
	buf := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 100, Name: "sharded", Sharding: heights(7, 3, 4)})
	if buf.Size() != 700 || buf.Pages() != 7 || buf.PageSize() != 100 || buf.PageStride() != 112 ||
		buf.Layout() != allocator.HeightSharded ||
		buf.Kind() != allocator.L1 {
		t.Errorf("%d B, %d pages of %d, %d apart, %s in %s", buf.Size(), buf.Pages(), buf.PageSize(), buf.PageStride(),
			buf.Layout(), buf.Kind())
	}
	if got := b.Allocated()[allocator.L1]; got != 384 { // 3 pages of 112 B, up to a multiple of 64
		t.Errorf("%d B of each bank are taken", got)
	}
	noDiff(t, buf.Cores(), []chip.Core{{X: 0}, {X: 1}, {X: 2}}, "cores")
	for i, want := range map[int]reprise.Place{0: {0, chip.Core{}, 0}, 2: {0, chip.Core{}, 224}, 3: {1, chip.Core{X: 1}, 0},
		6: {2, chip.Core{X: 2}, 0}} {
		want.Addr += buf.Addr()
		got, ok := buf.Page(i)
		if !ok || got != want {
			t.Errorf("page %d is at %+v, want %+v", i, got, want)
		}
		got.Addr += 99
		if page, off, ok := buf.PageAt(got); !ok || page != i || off != 99 {
			t.Errorf("at %+v lies page %d + %d, %v", got, page, off, ok)
		}
		got.Addr++ // between the page and the next
		if page, off, ok := buf.PageAt(got); ok {
			t.Errorf("at %+v lies page %d + %d", got, page, off)
		}
	}
	for _, p := range []reprise.Place{{2, chip.Core{}, buf.Addr() + 112}, {3, chip.Core{}, buf.Addr()}, {0, chip.Core{}, buf.Addr() - 1},
		{0, chip.Core{}, buf.Addr() + 336}, {-1, chip.Core{}, buf.Addr()}} {
		if page, _, ok := buf.PageAt(p); ok {
			t.Errorf("at %+v lies page %d", p, page)
		}
	}
	for _, i := range []int{-1, 7} {
		if p, ok := buf.Page(i); ok {
			t.Errorf("page %d is at %+v", i, p)
		}
	}
	flat := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 131 * 64, PageSize: 64, Name: "flat"})
	if p, ok := flat.Page(130); !ok || p != (reprise.Place{Bank: 0, Core: chip.Core{}, Addr: flat.Addr() + 64}) {
		t.Errorf("page 130 of an interleaved buffer is at %+v", p)
	}
	if p, _ := flat.Page(14); p.Core != (chip.Core{X: 1, Y: 1}) || flat.Cores() != nil || flat.Layout() != allocator.Interleaved {
		t.Errorf("page 14 of an interleaved buffer is at %+v", p)
	}
	b.Must(errors.Join(buf.Release(), flat.Release()))
}

func TestParts(t *testing.T) {
	b := open(t, sim.Blackhole())
	buf := b.Pages("whole", 8)
	for _, r := range [][2]int{{-64, 64}, {0, 0}, {0, 576}, {512, 64}, {32, 64}, {64, 32}, {1 << 40, 64}} {
		_, err := buf.Sub(r[0], r[1])
		var te *dispatch.TransferError
		if !errors.As(err, &te) || te.Offset != r[0] || te.Size != r[1] || te.Have != 512 || te.Page != 64 {
			t.Errorf("part of %d B at %d: %v", r[1], r[0], err)
		}
	}
	part := value(buf.Sub(192, 128))(b)
	if part.Name() != "whole[192:320]" || part.Size() != 128 || part.FirstPage() != 3 || part.Addr() != buf.Addr() || buf.FirstPage() != 0 {
		t.Errorf("%s: %d B from page %d on at %#x", part.Name(), part.Size(), part.FirstPage(), part.Addr())
	}
	if p, ok := part.Page(1); !ok || p.Bank != 4 {
		t.Errorf("page 1 of the part is at %+v", p)
	} else if page, _, ok := part.PageAt(p); !ok || page != 1 {
		t.Errorf("at %+v is page %d, %v", p, page, ok)
	} else if p.Bank = 5; ok {
		if page, _, ok := part.PageAt(p); ok {
			t.Errorf("page %d of the part is where it has none", page)
		}
	}
	for _, n := range []int{-1, 2} {
		if p, ok := part.Page(n); ok {
			t.Errorf("page %d of the part is at %+v", n, p)
		}
	}
	b.Must(buf.Release())
	b.fails("part of a freed buffer", second(buf.Sub(0, 64)), reprise.ErrReleased)
	if b.Allocated()[allocator.DRAM] == 0 {
		t.Error("the part's memory is gone")
	}
	b.Must(part.Release())
	b.fails("freed twice", part.Release(), reprise.ErrReleased)
	equal(t, b.Allocated()[allocator.DRAM], 0, "bytes still taken")
}

func TestMemorySnapshot(t *testing.T) {
	b := open(t, sim.Blackhole())
	s := b.Dev.Memory(allocator.DRAM)
	big := reprise.BufferConfig{Kind: allocator.DRAM, Size: 8 * 3 << 30, PageSize: 1 << 20, Name: "big"}
	buf := b.Buffer(big)
	shot := b.Dev.MemorySnapshot()
	late := big
	late.Name, late.Size = "late", 8*3<<29
	_, _, _, err := b.Dev.MemorySnapshot().Take(late)
	_, then := b.Dev.NewBuffer(late)
	expect.Fails(t, err, reprise.ErrOutOfMemory, "error")
	expect.Fails(t, then, reprise.ErrOutOfMemory, "then")
	b.Says(err, `reprise: take buffer "late" of a snapshot`, "most is held by big")
	b.Must(shot.Without(buf))
	var addrs []uint32
	var frees []func() error
	for range 2 {
		addr, _, free, err := shot.Take(late)
		b.Must(err)
		addrs, frees = append(addrs, addr), append(frees, free)
	}
	expect.NoDiff(t, addrs, []uint32{uint32(s.Low), uint32(s.Low) + 3<<29}, "addrs")
	equal(t, b.Dev.Memory(allocator.DRAM).Allocated, 3<<30, "DRAM in use after asking")
	b.Must(errors.Join(frees[0](), frees[1]()))
	_, _, _, err = b.Dev.MemorySnapshot().Take(reprise.BufferConfig{Kind: allocator.DRAM, Size: 10, PageSize: 3})
	expect.Error(t, err)
	expect.NoDiff(t, texts(shot.Changes()), []string{"+ DRAM [0x40,0xc0000040) of big \"buffer\""}, "texts(shot.Changes())")
	other := open(t, sim.Blackhole())
	for _, b := range []*reprise.Buffer{nil, other.Pages("other", 1), buf} {
		expect.Error(t, shot.Without(b)) // not in the snapshot
	}
	equal(t, len(shot.Map().Regions[0].Entries), 1, "ranges in the snapshot's map")
}

func TestCallSiteOfCapture(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := b.Load(b.blank("program", chip.Single(0, 0)))
	for i, name := range []string{"alone", "again", "observed"} {
		if i == 2 {
			b.Dev.Observe(new(heard))
		}
		_, _, line, _ := runtime.Caller(0)
		_, err := b.Queue.Capture(b.Ctx, name, record(x))
		b.Must(err)
		owned := func(e allocator.MapEntry) bool { return e.Owner == name }
		entries := b.Dev.MemorySnapshot().Map().Regions[0].Entries
		if i, want := slices.IndexFunc(entries, owned), fmt.Sprintf("memory_layout_test.go:%d", line+1); i < 0 ||
			!strings.HasSuffix(entries[i].Site, want) {
			t.Errorf("%s: no trace that was captured at %s in %+v", name, want, entries)
		}
	}
}

func texts(cs []allocator.Change) (out []string) {
	for _, c := range cs {
		out = append(out, c.String())
	}
	return out
}

func TestCallSites(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithL1Small(512))
	b.Buffer(reprise.BufferConfig{Kind: allocator.L1Small, PageSize: 64, Name: "small", Sharding: heights(2, 1, 2)})
	p := b.blank("program", chip.Single(0, 0))
	p.CircularBuffers = []reprise.CircularBuffer{{Index: 0, Cores: []chip.Range{chip.Single(0, 0)}, PageSize: 64, Pages: 1}}
	b.Capture("trace", b.Load(p))
	owners := map[string]bool{}
	for _, r := range b.Dev.MemorySnapshot().Map().Regions {
		for _, e := range r.Entries {
			if e.Free {
				continue
			}
			owners[e.Owner] = true
			if !strings.Contains(e.Site, "internal/devtest/devtest.go:") {
				t.Errorf("%s %q was asked for at %q", e.Kind, e.Owner, e.Site)
			}
		}
	}
	noDiff(t, owners, map[string]bool{"small": true, "program": true, "circular buffers": true, "trace": true}, "owners")
}

func TestSecondTraceKeepsOutOfTheFirst(t *testing.T) {
	b := open(t, sim.Wormhole())
	in, out := b.Pages("in", 4), b.Pages("out", 4)
	x := b.Load(b.Adder("x", chip.Core{}, in, out, 1))
	// All DRAM but 64 KiB at the top of every bank, 40 of them the first trace's intermediate.
	hole := int(b.Dev.Memory(allocator.DRAM).LargestHole) - 64<<10
	b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: hole * b.Dev.DRAMBanks(), PageSize: hole, Name: "hoard"})
	mid := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 40 << 10 * b.Dev.DRAMBanks(), PageSize: 64, Name: "mid"})
	one := b.Load(b.Adder("one", chip.Core{}, in, mid, 1))
	first := b.Record("first", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(one), one.Release(b.Ctx), mid.Release())
	})
	var xs []*reprise.Executable
	for range 30 << 10 * b.Dev.DRAMBanks() / x.Commands().Bytes {
		xs = append(xs, x)
	}
	_, err := b.Queue.Capture(b.Ctx, "second", record(xs...))
	b.fails("a trace of 30 KiB in every bank has found room beside the first", err, reprise.ErrOutOfMemory)
	b.Write(in, 6)
	b.Must(errors.Join(first.Replay(b.Ctx), first.Release(b.Ctx)))
	b.Must(b.Capture("second", xs...).Replay(b.Ctx))
	b.Holds(out, 7)
}

func TestTracesAndBuffersAtRandom(t *testing.T) {
	b := open(t, sim.Wormhole())
	in := b.Pages("in", 2)
	type live struct {
		trace *reprise.Trace
		out   *reprise.Buffer
		add   uint32
	}
	rapid.Check(t, func(t *rapid.T) {
		before := b.Dev.MemorySnapshot()
		var traces []live
		bufs := map[*reprise.Buffer]uint32{}
		var order []*reprise.Buffer
		next := uint32(1)
		for range rapid.IntRange(1, 25).Draw(t, "operations") {
			switch rapid.IntRange(0, 4).Draw(t, "operation") {
			case 0: // capture, with an intermediate that is freed
				mid, out := b.Pages("mid", 2), b.Pages("out", 2)
				one, two := b.Load(b.Adder("one", chip.Core{X: 1}, in, mid, next)), b.Load(b.Adder("two", chip.Core{X: 2}, mid, out, 1))
				trace, err := b.Queue.Capture(b.Ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
					return errors.Join(r.Run(one), r.Run(two), mid.Release())
				})
				b.Must(errors.Join(err, one.Release(b.Ctx), two.Release(b.Ctx)))
				traces = append(traces, live{trace, out, next + 1})
				next++
			case 1, 2:
				if len(traces) > 0 {
					l := traces[rapid.IntRange(0, len(traces)-1).Draw(t, "replay")]
					b.Write(in, next)
					b.Replay(l.trace)
					b.Holds(l.out, next+l.add)
				}
			case 3:
				if len(traces) > 0 {
					i := rapid.IntRange(0, len(traces)-1).Draw(t, "release")
					b.Must(errors.Join(traces[i].trace.Release(b.Ctx), traces[i].out.Release()))
					traces = append(traces[:i], traces[i+1:]...)
				}
			case 4:
				o := b.Pages("buffer", rapid.IntRange(1, 20).Draw(t, "pages"))
				b.Write(o, 5000*next)
				bufs[o] = 5000 * next
				order = append(order, o)
				next++
			}
		}
		for _, o := range order {
			b.Holds(o, bufs[o])
			b.Must(o.Release())
		}
		for _, l := range traces {
			b.Must(errors.Join(l.trace.Release(b.Ctx), l.out.Release()))
		}
		if changes := before.Changes(); len(changes) > 0 {
			t.Fatalf("something is left: %v", changes)
		}
	})
}

func TestAllocationPolicy(t *testing.T) {
	const kib = 1 << 10
	for i := range 9 {
		policy, what := allocator.Policy(i%3), []string{"device", "pool", "sub-device"}[i/3]
		b := open(t, sim.Wormhole(), reprise.WithAllocationPolicy(policy))
		from, local := b.Dev.NewBuffer, what == "sub-device"
		if local {
			from = value(b.Dev.NewSubDevices(16*kib, []chip.Range{chip.Single(0, 0)}))(b).Pool(0).NewBuffer
		} else if what == "pool" {
			from = value(b.Dev.NewPool(reprise.PoolConfig{Kind: allocator.DRAM, Size: 12 * 12 * kib}))(b).NewBuffer
		}
		next := func(pages int) *reprise.Buffer { // pages of 1 KiB in each bank
			c := reprise.BufferConfig{Kind: allocator.DRAM, Size: 12 * pages * kib, PageSize: kib}
			if local {
				c.Size, c.Sharding = 0, heights(pages, pages, 1)
			}
			return value(from(c))(b)
		}
		large, _, small, last := next(3), next(1), next(2), next(1)
		b.Must(errors.Join(large.Release(), small.Release()))
		want := []uint32{large.Addr(), small.Addr(), last.Addr() + kib}
		if local { // L1 grows downward
			want = []uint32{large.Addr() + 2*kib, small.Addr() + kib, last.Addr() - kib}
		}
		if got := next(1).Addr(); got != want[policy] {
			t.Errorf("%v in a %s: the next buffer is at %#x, want %#x of %#x", policy, what, got, want[policy], want)
		}
	}
}

func TestPool(t *testing.T) {
	onEmulators(t, func(b *bench) {
		nothing := b.Dev.MemorySnapshot()
		pool, err := b.Dev.NewPool(reprise.PoolConfig{Kind: allocator.DRAM, Size: 64 << 10, Name: "scratch"})
		b.Must(err)
		if m := pool.Memory(); m.Allocated != 0 || m.Total*uint64(m.Banks) < 64<<10 {
			b.Errorf("a new pool: %+v", m)
		}
		in, out := b.Pages("in", 4), b.Pages("out", 4)
		x, y := b.Load(b.Adder("in", chip.Core{}, in, out, 1)), b.Load(b.Adder("out", chip.Core{X: 1}, in, out, 10))
		trace := b.Record("trace", func(r *reprise.Recorder) error {
			mid, err := pool.NewBuffer(reprise.BufferConfig{Size: 256, PageSize: 64, Name: "mid"})
			b.Must(err)
			err = errors.Join(x.SetBuffer(mid, writeTo), r.Run(x), y.SetBuffer(mid, readFrom), r.Run(y), mid.Release())
			again, failed := pool.NewBuffer(reprise.BufferConfig{Size: 256, PageSize: 64, Name: "again"})
			b.Must(failed)
			equal(b, again.Addr(), mid.Addr(), "a buffer lies at")
			return errors.Join(err, again.Release())
		})
		b.fails("more than the pool has", second(pool.NewBuffer(reprise.BufferConfig{Size: 1 << 20, PageSize: 64})), reprise.ErrOutOfMemory)
		b.Must(errors.Join(pool.Release(), x.Release(b.Ctx), y.Release(b.Ctx)))
		b.fails("released twice", pool.Release(), reprise.ErrReleased)
		b.fails("taken from a released pool", second(pool.NewBuffer(reprise.BufferConfig{Size: 64})), reprise.ErrReleased)
		junk := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 << 10, PageSize: 64, Name: "junk"})
		b.Write(junk, 0)
		b.Write(in, 5)
		b.Replay(trace)
		b.Holds(out, 16)
		b.Holds(junk, 0)
		b.Must(errors.Join(trace.Release(b.Ctx), in.Release(), out.Release(), junk.Release()))
		if changes := nothing.Changes(); len(changes) > 0 {
			b.Errorf("something is left: %v", changes)
		}
		l1, err := b.Dev.NewPool(reprise.PoolConfig{Kind: allocator.L1, Size: 1, Name: "l1"})
		b.Must(err)
		n := b.Dev.Grid().Size() * int(l1.Memory().Total)
		all, err := l1.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n, PageSize: 16, Name: "all"})
		b.Must(err)
		b.Write(all, 3)
		b.Holds(all, 3)
		if _, err := l1.NewBuffer(reprise.BufferConfig{Size: 16}); !errors.Is(err, reprise.ErrOutOfMemory) || all.Kind() != allocator.L1 {
			b.Errorf("a full pool gives %v; the first buffer is in %v", err, all.Kind())
		}
		b.Must(errors.Join(l1.Release(), all.Release()))
		if changes := nothing.Changes(); len(changes) > 0 {
			b.Errorf("something is left of a pool in L1: %v", changes)
		}
		for _, c := range []reprise.PoolConfig{{Kind: allocator.Trace, Size: 64}, {Kind: allocator.DRAM}, {Kind: allocator.L1, Size: -1},
			{Kind: allocator.L1, Size: 1 << 40}} {
			if _, err := b.Dev.NewPool(c); err == nil {
				b.Errorf("a pool of %+v", c)
			}
		}
	})
}
