package allocator

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

// from allocates bytes from the top or the bottom and returns the address.
func from(t *testing.T, a *Allocator, size uint64, top bool) uint64 {
	t.Helper()
	return mustAllocate(t, a, Request{Size: size, TopDown: &top}).Addr
}

func at(t *testing.T, a *Allocator, size, addr uint64) Extent {
	t.Helper()
	e, err := a.AllocateAt(Request{Size: size}, addr)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustFree(t *testing.T, a *Allocator, es ...Extent) {
	t.Helper()
	for _, e := range es {
		if err := a.Free(e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFreeListAllocation(t *testing.T) {
	a := freeList(t, FirstFit)
	if x, y := from(t, a, kib, false), from(t, a, kib, false); x != 0 || y != kib {
		t.Errorf("at %d and %d, want 0 and 1 KiB", x, y)
	}
}

func TestFreeListRoundsUp(t *testing.T) {
	a := freeList(t, FirstFit)
	for i, size := range []uint64{kib / 4, 1, kib / 2, kib} {
		if got := from(t, a, size, false); got != uint64(i)*kib {
			t.Errorf("%d B at %d, want %d", size, got, i*kib)
		}
	}
}

func TestFreeListClear(t *testing.T) {
	a := freeList(t, FirstFit)
	empty := a.Clone()
	from(t, a, kib, false)
	from(t, a, kib, false)
	if err := a.Restore(empty); err != nil {
		t.Fatal(err)
	}
	if got := from(t, a, kib, false); got != 0 {
		t.Errorf("after clearing, at %d", got)
	}
}

func TestFreeListAllocateAtAddress(t *testing.T) {
	a := freeList(t, FirstFit)
	if got := from(t, a, kib, false); got != 0 {
		t.Fatalf("at %d", got)
	}
	at(t, a, kib, kib)
	if _, err := a.AllocateAt(Request{Size: kib}, 0); !errors.Is(err, ErrOccupied) {
		t.Errorf("on what is taken: %v", err)
	}
	if _, err := a.AllocateAt(Request{Size: 2 * kib}, 0); !errors.Is(err, ErrOccupied) {
		t.Errorf("over what is taken: %v", err)
	}
}

func TestFreeListAllocateAtAddressInteractions(t *testing.T) {
	a := freeList(t, BestFit)
	wedge := at(t, a, kib, 32*kib)
	if got := from(t, a, kib, false); got != 0 {
		t.Errorf("bottom up at %d, want 0", got)
	}
	if got := from(t, a, kib, true); got != 31*kib {
		t.Errorf("top down at %d, want 31 KiB: the hole below the wedge is the smallest", got)
	}
	mustFree(t, a, wedge)
	if got := from(t, a, kib, true); got != 30*kib {
		t.Errorf("without the wedge at %d, want 30 KiB", got)
	}
}

func TestFreeListFirstFit(t *testing.T) {
	a := freeList(t, FirstFit)
	var es []Extent
	for range 3 {
		es = append(es, mustAllocate(t, a, Request{Size: kib}))
	}
	es = append(es, mustAllocate(t, a, Request{Size: 3 * kib}), mustAllocate(t, a, Request{Size: kib}))
	mustFree(t, a, es[1], es[3]) // holes of 1 KiB at 1 KiB and of 3 KiB at 3 KiB
	if got := from(t, a, kib, false); got != kib {
		t.Errorf("1 KiB at %d, want the lowest hole at 1 KiB", got)
	}
	if got := from(t, a, kib, false); got != 3*kib {
		t.Errorf("another at %d, want 3 KiB", got)
	}
	if got := from(t, a, kib, true); got != gib-kib {
		t.Errorf("top down at %d, want 1 GiB - 1 KiB", got)
	}
}

func TestFreeListFirstFitAllocateAtAddressInteractions(t *testing.T) {
	a := freeList(t, FirstFit)
	at(t, a, kib, 32*kib)
	if got := from(t, a, kib, false); got != 0 {
		t.Errorf("bottom up at %d, want 0", got)
	}
	if got := from(t, a, kib, true); got != gib-kib {
		t.Errorf("top down at %d, want 1 GiB - 1 KiB", got)
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
	// Slots that were used and are free again don't count.
	if s := a.Stats(DRAM); s.Free != gib || s.LargestHole != gib || s.Allocated != 0 || s.Peak != kib || s.Fragmentation() != 0 {
		t.Errorf("after freeing: %+v", s)
	}
	full := from(t, a, gib, false)
	if s := a.Stats(DRAM); full != 0 || s.Free != 0 || s.Fragmentation() != 0 {
		t.Errorf("full: %+v", s)
	}
}

func TestFreeListAllocateFromTop(t *testing.T) {
	a := freeList(t, FirstFit)
	if x, y, z := from(t, a, kib, true), from(t, a, kib, true), from(t, a, kib, false); x != gib-kib || y != gib-2*kib || z != 0 {
		t.Errorf("at %d, %d and %d", x, y, z)
	}
}

func TestFreeListCoalescing(t *testing.T) {
	for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}} {
		a := freeList(t, FirstFit)
		var es []Extent
		for range 3 {
			es = append(es, mustAllocate(t, a, Request{Size: kib}))
		}
		end := mustAllocate(t, a, Request{Size: kib})
		for _, i := range order {
			mustFree(t, a, es[i])
		}
		if got := from(t, a, 3*kib, false); got != 0 {
			t.Errorf("freed in order %v, 3 KiB are at %d", order, got)
		}
		mustFree(t, a, end)
	}
}

func TestFreeListOutOfMemory(t *testing.T) {
	a := freeList(t, FirstFit)
	from(t, a, gib, false)
	if _, err := a.Allocate(Request{Size: kib}); !errors.Is(err, ErrOutOfMemory) {
		t.Error(err)
	}
	if s := a.Stats(DRAM); s.Allocated != gib || s.Extents != 1 {
		t.Errorf("after the failure: %+v", s)
	}
}

func TestFreeListAvailableAddresses(t *testing.T) {
	a := freeList(t, FirstFit)
	var es []Extent
	for range 5 {
		es = append(es, mustAllocate(t, a, Request{Size: kib}))
	}
	mustFree(t, a, es[1], es[3])
	if diff := cmp.Diff([]Hole{{kib, kib}, {3 * kib, kib}, {5 * kib, gib - 5*kib}}, a.Holes(DRAM)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFreeListLowestOccupied(t *testing.T) {
	a := freeList(t, FirstFit)
	want := func(when string, addr uint64, ok bool) {
		t.Helper()
		if got, have := a.LowestOccupied(DRAM); have != ok || ok && got != addr {
			t.Errorf("%s: %d %v, want %d %v", when, got, have, addr, ok)
		}
	}
	want("empty", 0, false)
	x := at(t, a, kib, kib)
	want("one at 1 KiB", kib, true)
	y := at(t, a, kib, 0)
	want("one below", 0, true)
	mustFree(t, a, y)
	want("the lower one freed", kib, true)
	top := mustAllocate(t, a, Request{Size: kib, TopDown: ptr(true)})
	mustFree(t, a, x)
	want("only the top is left", gib-kib, true)
	mustFree(t, a, top)
	want("empty again", 0, false)
	if _, ok := a.LowestOccupied(L1); ok {
		t.Error("memory that isn't there is occupied")
	}
}

func ptr[T any](v T) *T { return &v }

// TestL1BuffersAllocatedTopDown: buffers of 32, 64 and 128 KiB in each bank lie at the end of L1
// less the running total.
func TestL1BuffersAllocatedTopDown(t *testing.T) {
	for _, c := range []Config{wormhole, blackhole} {
		a := mustNew(t, c)
		total := c.L1Small
		for _, size := range []uint64{32 * kib, 64 * kib, 128 * kib} {
			total += size
			e := mustAllocate(t, a, Request{Kind: L1, Size: size * uint64(c.L1Banks), PageSize: size})
			if e.Addr != c.L1End-total {
				t.Errorf("%d KiB at %#x, want %#x", size/kib, e.Addr, c.L1End-total)
			}
		}
	}
}

// TestL1BuffersDoNotGrowBeyondBankSize: 64 B more than a bank has are refused.
func TestL1BuffersDoNotGrowBeyondBankSize(t *testing.T) {
	for _, c := range []Config{wormhole, blackhole} {
		a := mustNew(t, c)
		have := a.Stats(L1).Total
		var oom *OutOfMemoryError
		if _, err := a.Allocate(Request{Kind: L1, Size: have + 64, PageSize: have + 64}); !errors.As(err, &oom) || oom.Need != have+64 ||
			oom.Have != have {
			t.Errorf("%v", err)
		}
		mustAllocate(t, a, Request{Kind: L1, Size: have, PageSize: have})
	}
}

// TestL1Division protects how L1 is divided, with harvesting and without, for the sizes of L1_SMALL
// in use.
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

// TestSmallRegionsOfTraces: 3072 B over 12 banks and 10,000 over 12 take 8192 B of each,
// 220,000,000 over 8 take 220,004,352 B in all.
func TestSmallRegionsOfTraces(t *testing.T) {
	for _, tc := range []struct {
		size  uint64
		banks int
		want  uint64
	}{{3072, 12, 8192 * 12}, {10_000, 12, 8192 * 12}, {220_000_000, 8, 220_004_352}} {
		if got := TracePerBank(tc.size, tc.banks, 64) * uint64(tc.banks); got != tc.want {
			t.Errorf("%d over %d banks: %d B, want %d", tc.size, tc.banks, got, tc.want)
		}
	}
}

// TestPolicies protects what each policy takes of the same holes, from either end.
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
			if _, err := a.Allocate(Request{Size: gib}); !errors.Is(err, ErrOutOfMemory) {
				t.Errorf("%s: %v", tc.p, err)
			}
		}
	}
}
