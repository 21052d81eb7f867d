package allocator

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/expect"
)

var (
	wormhole = Config{
		DRAMBanks: 12, DRAMBase: 32, DRAMEnd: 1 << 30, DRAMAlign: 32,
		L1Banks: 64, L1Base: 0x19180, L1End: 0x16E000, L1Align: 16,
	}
	blackhole = Config{
		DRAMBanks: 8, DRAMBase: 64, DRAMEnd: 0xFF000000, DRAMAlign: 64,
		L1Banks: 130, L1Base: 0x19B40, L1End: 0x180000, L1Align: 16, L1Small: 24576,
	}
)

func with(c Config, trace uint64) Config {
	c.TraceRegion = trace
	return c
}

type fataler interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	expect.Must(t, err)
}

func mustNew(t fataler, c Config) *Allocator {
	t.Helper()
	a, err := New(c)
	must(t, err)
	return a
}

func mustAllocate(t fataler, a *Allocator, r Request) Extent {
	t.Helper()
	e, err := a.Allocate(r)
	must(t, err)
	return e
}

func TestTraceRegionDivision(t *testing.T) {
	for _, tc := range []struct {
		size                       uint64
		whPerBank, whLow           uint64
		bhPerBank, bhLow, bhDevice uint64
	}{
		{100_000_000, 8_339_456, 1_065_402_368, 12_500_992, 4_265_689_088, 8 * 12_500_992},
		{30_000_000, 2_506_752, 1_071_235_072, 3_751_936, 4_274_438_144, 8 * 3_751_936},
		{800_768, 73_728, 1_073_668_096, 106_496, 4_278_083_584, 8 * 106_496},
		{67_108_864, 5_595_136, 1_068_146_688, 8_388_608, 4_269_801_472, 67_108_864},
		{32_768, 8_192, 1_073_733_632, 8_192, 4_278_181_888, 65_536},
		{220_000_000, 18_333_696, 1_055_408_128, 27_500_544, 4_250_689_536, 220_004_352},
	} {
		wh := mustNew(t, with(wormhole, tc.size)).Stats(Trace)
		bh := mustNew(t, with(blackhole, tc.size)).Stats(Trace)
		if wh.Total != tc.whPerBank || wh.Low != tc.whLow || wh.High != wormhole.DRAMEnd {
			t.Errorf("wormhole, %d: %d B at %d, want %d at %d", tc.size, wh.Total, wh.Low, tc.whPerBank, tc.whLow)
		}
		if bh.Total != tc.bhPerBank || bh.Low != tc.bhLow || bh.Total*8 != tc.bhDevice {
			t.Errorf("blackhole, %d: %d B at %d, want %d at %d", tc.size, bh.Total, bh.Low, tc.bhPerBank, tc.bhLow)
		}
	}
	d := mustNew(t, with(wormhole, 800_768)).Stats(DRAM)
	expect.Equal(t, d.Low, 32, "d.Low")
	expect.Equal(t, d.High, 1_073_668_096, "d.High")
}

func TestPlacement(t *testing.T) {
	up, down := false, true
	for _, tc := range []struct {
		name string
		c    Config
		r    Request
		want [2]uint64 // addresses of two extents in a row
	}{
		{"DRAM goes up", wormhole, Request{Size: 12 * 2048, PageSize: 2048}, [2]uint64{32, 2080}},
		{"DRAM on request goes down", wormhole, Request{Size: 12 * 2048, PageSize: 2048, TopDown: &down}, [2]uint64{1<<30 - 2048, 1<<30 - 4096}},
		{"L1 goes down", wormhole, Request{Kind: L1, Size: 64 * 2048, PageSize: 2048}, [2]uint64{0x16E000 - 2048, 0x16E000 - 4096}},
		{"L1 on request goes up", wormhole, Request{Kind: L1, Size: 64, PageSize: 64, TopDown: &up}, [2]uint64{0x19180, 0x191C0}},
		{"L1 starts below L1 small", blackhole, Request{Kind: L1, Size: 64}, [2]uint64{0x180000 - 24576 - 64, 0x180000 - 24576 - 128}},
		{"L1 small is at the top", blackhole, Request{Kind: L1Small, Size: 64, Shards: 1}, [2]uint64{0x180000 - 64, 0x180000 - 128}},
		{"a trace without a region starts at the top", blackhole, Request{Kind: Trace, Size: 8 * 4096, PageSize: 4096}, [2]uint64{0xFF000000 - 4096, 0xFF000000 - 8192}},
		{"a trace in a region starts at its top", with(blackhole, 1<<20), Request{Kind: Trace, Size: 8 * 4096, PageSize: 4096}, [2]uint64{0xFF000000 - 4096, 0xFF000000 - 8192}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := mustNew(t, tc.c)
			got := [2]uint64{mustAllocate(t, a, tc.r).Addr, mustAllocate(t, a, tc.r).Addr}
			expect.Equal(t, got, tc.want, "got")
		})
	}
}

func TestPerBank(t *testing.T) {
	for _, tc := range []struct {
		name            string
		c               Config
		r               Request
		perBank, stride uint64
	}{
		{"rows of full pages", wormhole, Request{Size: 100 * 2048, PageSize: 2048}, 9 * 2048, 2048},
		{"one page is in every bank's account", wormhole, Request{Size: 100}, 128, 128},
		{"pages are aligned", wormhole, Request{Size: 24 * 1088, PageSize: 1088}, 2 * 1088, 1088},
		{"pages are aligned on Blackhole", blackhole, Request{Size: 16 * 1056, PageSize: 1056}, 2 * 1088, 1088},
		{"L1 pages align to 16, extents to DRAM's 64", blackhole, Request{Kind: L1, Size: 3 * 130 * 16, PageSize: 16}, 64, 16},
		{"shards count instead of banks", wormhole, Request{Kind: L1, Size: 8 * 2048, PageSize: 2048, Shards: 4}, 2 * 2048, 2048},
		{"a trace of 751,616 B on 12 banks", wormhole, Request{Kind: Trace, Size: 751616, PageSize: 2048}, 63488, 2048},
		{"a trace of 753,664 B on 8 banks", blackhole, Request{Kind: Trace, Size: 753664, PageSize: 4096}, 94208, 4096},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := mustAllocate(t, mustNew(t, tc.c), tc.r)
			expect.Equal(t, [2]uint64{e.PerBank, e.Stride}, [2]uint64{tc.perBank, tc.stride}, "B in each bank, stride")
		})
	}
}

func TestPagesInvert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := wormhole
		if rapid.Bool().Draw(t, "blackhole") {
			c = blackhole
		}
		a := mustNew(t, c)
		page := rapid.Uint64Range(1, 5000).Draw(t, "page")
		pages := rapid.Uint64Range(1, 2000).Draw(t, "pages")
		kind := rapid.SampledFrom([]Kind{DRAM, L1, Trace}).Draw(t, "kind")
		shards := rapid.IntRange(0, c.DRAMBanks).Draw(t, "shards")
		e, err := a.Allocate(Request{Kind: kind, Size: page * pages, PageSize: page, Shards: shards})
		if errors.Is(err, ErrOutOfMemory) {
			t.Skip("does not fit")
		}
		must(t, err)
		i := rapid.Uint64Range(0, pages-1).Draw(t, "i")
		bank, addr := e.Page(i)
		if addr < e.Addr || addr+page > e.End() || bank < 0 || bank >= int(e.Banks) {
			t.Fatalf("page %d of %s: bank %d at %#x", i, e, bank, addr)
		}
		for _, off := range []uint64{0, page / 2, page - 1} {
			j, o, ok := e.PageAt(bank, addr+off)
			if !ok || j != i || o != off {
				t.Fatalf("page %d + %d of %s: got %d + %d, %v", i, off, e, j, o, ok)
			}
		}
		if _, _, ok := e.PageAt(bank, addr+page); ok && e.Stride > page {
			t.Fatalf("the gap after page %d belongs to a page", i)
		}
		if i+uint64(e.Banks) < pages {
			if _, next := e.Page(i + uint64(e.Banks)); next < addr+page {
				t.Fatalf("page %d reaches into the next one of its bank", i)
			}
		}
	})
}

func TestErrors(t *testing.T) {
	a := mustNew(t, wormhole)
	live := mustAllocate(t, a, Request{Size: 64})
	dead := mustAllocate(t, a, Request{Size: 64})
	must(t, a.Free(dead))
	stale := mustAllocate(t, a, Request{Size: 64})
	must(t, a.Free(stale))
	if again := mustAllocate(t, a, Request{Size: 64}); again.Addr != stale.Addr || again.slot != stale.slot {
		t.Fatalf("%s has not the place of %s", again, stale)
	}
	changed, larger, other := live, live, live
	changed.Addr += 32
	larger.PerBank += 32
	other.Kind = L1
	allocate := func(r Request) func() error {
		return func() error { _, err := a.Allocate(r); return err }
	}
	for _, tc := range []struct {
		name string
		f    func() error
		want error
	}{
		{"zero size", allocate(Request{}), ErrRequest},
		{"not a multiple", allocate(Request{Size: 100, PageSize: 64}), ErrRequest},
		{"host memory", allocate(Request{Kind: 2, Size: 64}), ErrRequest},
		{"no such kind", allocate(Request{Kind: 200, Size: 64}), ErrRequest},
		{"too many shards", allocate(Request{Size: 64, Shards: 13}), ErrRequest},
		{"negative shards", allocate(Request{Size: 64, Shards: -1}), ErrRequest},
		{"interleaved L1 small", allocate(Request{Kind: L1Small, Size: 64}), ErrRequest},
		{"absurd size", allocate(Request{Size: 1 << 63}), ErrRequest},
		{"absurd rows", allocate(Request{Size: 1<<63 - 1, PageSize: 1}), ErrRequest},
		{"too large", allocate(Request{Size: 1 << 40}), ErrOutOfMemory},
		{"double free", func() error { return a.Free(dead) }, ErrDoubleFree},
		{"hold of a freed extent", func() error { return a.Hold(dead) }, ErrDoubleFree},
		{"unhold without hold", func() error { return a.Unhold(live) }, ErrNotHeld},
		{"zero extent", func() error { return a.Free(Extent{}) }, ErrWrongAllocator},
		{"another allocator's", func() error { return mustNew(t, wormhole).Free(live) }, ErrWrongAllocator},
		{"double free when another has the place", func() error { return a.Free(stale) }, ErrDoubleFree},
		{"address changed by the caller", func() error { return a.Free(changed) }, ErrWrongAllocator},
		{"size changed by the caller", func() error { return a.Free(larger) }, ErrWrongAllocator},
		{"kind changed by the caller", func() error { return a.Hold(other) }, ErrWrongAllocator},
		{"occupied", func() error { _, err := a.AllocateAt(Request{Size: 64}, live.Addr); return err }, ErrOccupied},
		{"below the region", func() error { _, err := a.AllocateAt(Request{Size: 64}, 0); return err }, ErrOccupied},
		{"beyond the region", func() error { _, err := a.AllocateAt(Request{Size: 64}, 1<<30-32); return err }, ErrOccupied},
		{"misaligned", func() error { _, err := a.AllocateAt(Request{Size: 64}, 33); return err }, ErrRequest},
		{"past the address space", func() error { _, err := a.AllocateAt(Request{Size: 64}, ^uint64(31)); return err }, ErrRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expect.Fails(t, tc.f(), tc.want, "error")
		})
	}
	expect.Fails(t, a.Free(live), nil, "after all that")
}

func TestConfigRefused(t *testing.T) {
	edit := func(f func(*Config)) Config {
		c := blackhole
		f(&c)
		return c
	}
	for name, c := range map[string]Config{
		"no banks":              edit(func(c *Config) { c.DRAMBanks = 0 }),
		"negative L1 banks":     edit(func(c *Config) { c.L1Banks = -1 }),
		"odd alignment":         edit(func(c *Config) { c.DRAMAlign = 48 }),
		"L1 alignment too big":  edit(func(c *Config) { c.L1Align = 128 }),
		"base beyond end":       edit(func(c *Config) { c.DRAMBase = c.DRAMEnd }),
		"L1 base beyond end":    edit(func(c *Config) { c.L1Base = c.L1End }),
		"L1 small too big":      edit(func(c *Config) { c.L1Small = c.L1End }),
		"trace region too big":  edit(func(c *Config) { c.TraceRegion = 8 * c.DRAMEnd }),
		"sizes that overflow":   edit(func(c *Config) { c.DRAMEnd = 1 << 63 }),
		"a base that overflows": edit(func(c *Config) { c.L1Base = ^uint64(0) }),
	} {
		expect.Fails(t, second(New(c)), ErrConfig, "%s", name)
	}
}

func TestOutOfMemoryTellsWhatToDo(t *testing.T) {
	a := mustNew(t, with(wormhole, 800_768))
	mustAllocate(t, a, Request{Size: 12 << 20, PageSize: 4096, Owner: "weights"})
	mustAllocate(t, a, Request{Kind: Trace, Size: 12 * 8192, PageSize: 8192, Owner: "prefill"})
	mustAllocate(t, a, Request{Kind: Trace, Size: 24 * 8192, PageSize: 8192, Owner: "decode"})
	_, err := a.Allocate(Request{Kind: Trace, Size: 96 * 8192, PageSize: 8192, Owner: "trace", Tag: "train"})
	var oom *OutOfMemoryError
	if !errors.As(err, &oom) {
		t.Fatal(err)
	}
	want := &OutOfMemoryError{
		Kind: Trace, Owner: "trace", Tag: "train", Size: 786432, Banks: 12,
		Need: 65536, Have: 49152, Hole: 49152, Total: 73728,
		Owners:      []OwnerUsage{{"decode", Trace, 1, 16384}, {"prefill", Trace, 1, 8192}},
		TraceRegion: 12 * (65536 + 24576),
	}
	expect.NoDiff(t, oom, want, "oom")
	const text = `allocator: allocate 786432 B (768 KiB) of trace for "trace train": out of memory: ` +
		`each of 12 banks must hold 65536 B (64 KiB), have 49152 B (48 KiB) free of 73728 B (72 KiB) ` +
		`with a largest hole of 49152 B (48 KiB); a trace region of 1081344 B (1.0 MiB), or one that grows, would do; ` +
		`most is held by decode trace 16384 B (16 KiB), prefill trace 8192 B (8.0 KiB)`
	expect.Equal(t, err.Error(), text, "text")
	b := mustNew(t, with(wormhole, oom.TraceRegion))
	for _, pages := range []uint64{12, 24, 96} {
		mustAllocate(t, b, Request{Kind: Trace, Size: pages * 8192, PageSize: 8192})
	}
	for _, tc := range []struct {
		want string
		make func(a *Allocator) Request
	}{
		{"would not fit an empty device", func(*Allocator) Request { return Request{Kind: L1, Size: 1 << 30} }},
		{"in pieces", func(a *Allocator) Request {
			third := (a.Stats(L1).Total / 3) &^ 31
			r := Request{Kind: L1, Size: third, Shards: 1}
			mustAllocate(t, a, r)
			mid := mustAllocate(t, a, r)
			mustAllocate(t, a, r)
			must(t, a.Free(mid))
			return Request{Kind: L1, Size: third + 32, Shards: 1}
		}},
		{"free something first", func(a *Allocator) Request {
			r := Request{Kind: L1, Size: a.Stats(L1).Total / 4 * 3 &^ 31, Shards: 1}
			mustAllocate(t, a, r)
			return r
		}},
	} {
		a := mustNew(t, wormhole)
		_, err := a.Allocate(tc.make(a))
		expect.Says(t, err, ErrOutOfMemory, tc.want)
	}
}

func TestTracesGrowIntoFreeSpace(t *testing.T) {
	c := Config{DRAMBanks: 2, DRAMEnd: 64 << 10, DRAMAlign: 64}
	a := mustNew(t, c)
	down := true
	binary := mustAllocate(t, a, Request{Size: 4096, Shards: 1, TopDown: &down, Owner: "program"})
	one := mustAllocate(t, a, Request{Kind: Trace, Size: 8192, Shards: 1})
	expect.Equal(t, one.End(), binary.Addr, "trace %s is not below %s", one, binary)
	buffer := mustAllocate(t, a, Request{Size: 32768, Shards: 1})
	if s := a.Stats(Trace); s.Low != one.Addr || s.Allocated != 8192 || s.Free != 65536-4096-8192-32768 {
		t.Errorf("stats %+v", s)
	}
	expect.Fails(t, second(a.Allocate(Request{Kind: Trace, Size: 32768, Shards: 1})), ErrOutOfMemory, "a trace over a live buffer")
	must(t, a.Free(buffer))
	two := mustAllocate(t, a, Request{Kind: Trace, Size: 32768, Shards: 1})
	for _, e := range []Extent{one, two, binary} {
		must(t, a.Free(e))
	}
	expect.NoDiff(t, a.Holes(DRAM), []Hole{{0, 65536}}, "a.Holes(DRAM)")
	if s := a.Stats(Trace); s.Low != s.High || s.Peak != 8192+32768 {
		t.Errorf("stats %+v", s)
	}
}

func TestHeldMemoryStays(t *testing.T) {
	a := mustNew(t, wormhole)
	e := mustAllocate(t, a, Request{Size: 4096, Owner: "model", Tag: "activations"})
	for range 2 {
		must(t, a.Hold(e))
	}
	must(t, a.Free(e))
	expect.Fails(t, a.Free(e), ErrDoubleFree, "second free of a held extent")
	if next := mustAllocate(t, a, Request{Size: 4096}); next.Overlaps(e) {
		t.Errorf("%s was handed out while held", next)
	}
	got := a.Extents(DRAM)[0]
	if got.Extent != e || got.Holds != 2 || !got.Freed || got.String() != `DRAM [0x20,0x1020) of model "activations"` {
		t.Errorf("got %+v", got)
	}
	for range 2 {
		must(t, a.Unhold(e))
	}
	expect.Equal(t, mustAllocate(t, a, Request{Size: 4096}).Addr, e.Addr, "address of memory that came back")
	expect.Fails(t, a.Unhold(e), ErrDoubleFree, "unhold of what is gone")
}

func TestNoAllocations(t *testing.T) {
	a := mustNew(t, blackhole)
	extents := make([]Extent, 1000)
	for i := range extents {
		extents[i] = mustAllocate(t, a, Request{Size: uint64(64 + i*64), Owner: "test"})
	}
	i := 0
	if n := testing.AllocsPerRun(20000, func() {
		k := i * 7919 % len(extents)
		must(t, a.Free(extents[k]))
		e, err := a.Allocate(Request{Size: uint64(64 + i*331%64000), Owner: "test"})
		must(t, err)
		extents[k] = e
		i++
	}); n != 0 {
		t.Errorf("%v allocations per pair", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	a := mustNew(t, blackhole)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				e, err := a.Allocate(Request{Kind: []Kind{DRAM, L1, Trace}[(g+i)%3], Size: uint64(64 * (1 + i%50))})
				if err == nil {
					err = a.Hold(e)
				}
				if err == nil {
					err = a.Free(e)
				}
				if err == nil {
					err = a.Unhold(e)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, k := range Kinds() {
		if s := a.Stats(k); s.Allocated != 0 || s.Extents != 0 || s.Holes != 1 || s.Free != s.Total {
			t.Errorf("%s: %+v", k, s)
		}
	}
}

func second[V any](_ V, err error) error { return err }

type heard struct {
	Kind  Kind
	Usage Usage
}

type recorder struct{ all []heard }

func (r *recorder) Set(k Kind, u Usage) { r.all = append(r.all, heard{k, u}) }

func TestGauge(t *testing.T) {
	var g recorder
	c := Config{DRAMBanks: 2, DRAMEnd: 1 << 16, DRAMAlign: 64, L1Banks: 4, L1End: 4096, L1Align: 16, L1Small: 1024, Gauge: &g}
	a := mustNew(t, c)
	const dram, l1 = 2 << 16, 4 * 3072
	expect.NoDiff(t, g.all, []heard{{DRAM, Usage{Capacity: dram}}, {L1, Usage{Capacity: l1}}, {L1Small, Usage{Capacity: 4096}},
		{Trace, Usage{Capacity: dram}}}, "at the start")
	g.all = nil
	e := mustAllocate(t, a, Request{Size: 256, PageSize: 64})
	f := mustAllocate(t, a, Request{Kind: L1, Size: 64})
	at, err := a.AllocateAt(Request{Size: 64}, 4096)
	must(t, err)
	must(t, a.Hold(e))
	for _, e := range []Extent{e, f, at} {
		if err := a.Free(e); err != nil { // the first stays until its hold ends
			t.Fatal(err)
		}
	}
	must(t, a.Unhold(e))
	want := []heard{
		{DRAM, Usage{dram, 256, 256, 1}}, {L1, Usage{l1, 256, 256, 1}}, {DRAM, Usage{dram, 384, 384, 2}},
		{L1, Usage{l1, 0, 256, 0}}, {DRAM, Usage{dram, 256, 384, 1}}, {DRAM, Usage{dram, 0, 384, 0}},
	}
	expect.NoDiff(t, g.all, want, "g.all")
	if _, err := a.Allocate(Request{Size: 1 << 30}); err == nil || len(g.all) != len(want) {
		t.Errorf("a failed allocation (%v) changed what the gauge shows", err)
	}
}

// The cases of tt-metal's free-list tests (FreeListOptTest: 1 GiB, both smallest size and alignment
// 1 KiB), with their numbers. Shrinking and several allocators over one memory are not here: no
// sub-device takes a part of L1, and all allocation is lockstep.

const (
	kib = 1 << 10
	gib = 1 << 30
)

func freeList(t *testing.T, p Policy) *Allocator {
	t.Helper()
	return mustNew(t, Config{DRAMBanks: 1, DRAMEnd: gib, DRAMAlign: kib, Policy: p})
}

func from(t *testing.T, a *Allocator, size uint64, top bool) uint64 {
	t.Helper()
	return mustAllocate(t, a, Request{Size: size, TopDown: &top}).Addr
}

func at(t *testing.T, a *Allocator, size, addr uint64) Extent {
	t.Helper()
	e, err := a.AllocateAt(Request{Size: size}, addr)
	must(t, err)
	return e
}

func mustFree(t *testing.T, a *Allocator, es ...Extent) {
	t.Helper()
	for _, e := range es {
		must(t, a.Free(e))
	}
}

func TestFreeListStatistics(t *testing.T) {
	a := freeList(t, FirstFit)
	e := at(t, a, kib, 512*kib)
	s := a.Stats(DRAM)
	if s.Total != gib || s.Allocated != kib || s.Free != gib-kib || s.LargestHole != gib-513*kib || s.Fragmentation() < 0.0004 ||
		s.Fragmentation() > 0.0005 {
		t.Errorf("%+v", s)
	}
	mustFree(t, a, e)
	if s := a.Stats(DRAM); s.Free != gib || s.LargestHole != gib || s.Allocated != 0 || s.Peak != kib || s.Fragmentation() != 0 {
		t.Errorf("after freeing: %+v", s)
	}
	full := from(t, a, gib, false)
	if s := a.Stats(DRAM); full != 0 || s.Free != 0 || s.Fragmentation() != 0 {
		t.Errorf("full: %+v", s)
	}
}

func TestL1Division(t *testing.T) {
	for _, tc := range []struct {
		c          Config
		small      uint64
		banks      int
		l1, small2 uint64
	}{
		{wormhole, 0, 64, 1_396_352, 0}, {wormhole, 24_576, 56, 1_396_352 - 24_576, 24_576}, {wormhole, 16_384, 72, 1_379_968, 16_384},
		{wormhole, 1, 64, 1_396_352 - 32, 32}, {blackhole, 0, 130, 1_467_584, 0}, {blackhole, 24_576, 110, 1_467_584 - 24_576, 24_576},
		{blackhole, 32_768, 140, 1_434_816, 32_768}, {blackhole, 100, 120, 1_467_584 - 128, 128},
	} {
		t.Run(fmt.Sprintf("%d banks, small %d", tc.banks, tc.small), func(t *testing.T) {
			c := tc.c
			c.L1Small, c.L1Banks = tc.small, tc.banks
			a := mustNew(t, c)
			s, m := a.Stats(L1), a.Stats(L1Small)
			if s.Total != tc.l1 || m.Total != tc.small2 || m.Low != s.High || m.High != c.L1End || s.Banks != tc.banks {
				t.Errorf("L1 %+v, L1 small %+v; want %d and %d", s, m, tc.l1, tc.small2)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	for _, tc := range []struct {
		p        Policy
		up, down uint64 // where 2 KiB go
	}{
		{FirstFit, 10 * kib, gib - 2*kib}, {BestFit, 30 * kib, 43 * kib}, {WorstFit, 46 * kib, gib - 2*kib},
	} {
		for _, top := range []bool{false, true} {
			a := freeList(t, tc.p)
			at(t, a, 10*kib, 0)      // a hole of 10 KiB at 10
			at(t, a, 10*kib, 20*kib) // one of 3 KiB at 30
			at(t, a, 9*kib, 33*kib)  // one of 3 KiB at 42
			at(t, a, 1*kib, 45*kib)  // the rest from 46 on
			want := tc.up
			if top {
				want = tc.down
			}
			if got := from(t, a, 2*kib, top); got != want {
				t.Errorf("%s, from the top %v: at %d KiB, want %d", tc.p, top, got/kib, want/kib)
			}
			expect.Fails(t, second(a.Allocate(Request{Size: gib})), ErrOutOfMemory, "%s", tc.p)
		}
	}
}
