package allocator

import (
	"fmt"
	"testing"
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
			fails(t, second(a.Allocate(Request{Size: gib})), ErrOutOfMemory, "%s", tc.p)
		}
	}
}
