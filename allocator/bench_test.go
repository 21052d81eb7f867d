package allocator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkAllocateFree measures a pair of one free and one allocation with a number of extents live: alignment 64,
// sizes uniform from 1 KiB to 4 MiB, the victim random, the space about twice what is live. Besides ns per pair it
// reports the ratio to copying 4 KiB that are in cache, measured in the same run, so that machines can be compared.
func BenchmarkAllocateFree(b *testing.B) {
	for _, topDown := range []bool{false, true} {
		for _, live := range []int{10, 100, 1000, 10000, 100000} {
			b.Run(fmt.Sprintf("topDown=%v/live=%d", topDown, live), func(b *testing.B) {
				benchPair(b, live, topDown)
			})
		}
	}
}

func benchPair(b *testing.B, live int, topDown bool) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := make([]uint64, 1<<12)
	for i := range sizes {
		sizes[i] = 1<<10 + rng.Uint64N(4<<20-1<<10+1)
	}
	a, err := New(Config{DRAMBanks: 1, DRAMEnd: max(64<<20, uint64(live)*(4<<20)), DRAMAlign: 64})
	if err != nil {
		b.Fatal(err)
	}
	extents := make([]Extent, live)
	victims := make([]uint32, 1<<14)
	for i := range victims {
		victims[i] = uint32(rng.IntN(live))
	}
	n := 0
	pair := func() {
		v := victims[n&(len(victims)-1)]
		if e := extents[v]; !e.IsZero() {
			if err := a.Free(e); err != nil {
				b.Fatal(err)
			}
		}
		e, err := a.Allocate(Request{Size: sizes[n&(len(sizes)-1)], TopDown: &topDown})
		if err != nil {
			b.Fatal(err)
		}
		extents[v] = e
		n++
	}
	for i := range extents {
		e, err := a.Allocate(Request{Size: sizes[i&(len(sizes)-1)], TopDown: &topDown})
		if err != nil {
			b.Fatal(err)
		}
		extents[i] = e
	}
	for range 4 * live { // age the space until its holes have their steady shape
		victims[n&(len(victims)-1)] = uint32(rng.IntN(live))
		pair()
	}
	for i := range victims {
		victims[i] = uint32(rng.IntN(live))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		pair()
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/copy4KiB(), "copies4KiB")
	b.ReportMetric(float64(a.Stats(DRAM).Holes), "holes")
}

// copy4KiB returns the ns that a copy of 4 KiB in cache takes.
func copy4KiB() float64 {
	var src, dst [4096]byte
	best := time.Duration(1 << 62)
	for range 20 {
		start := time.Now()
		for range 1000 {
			copy(dst[:], src[:])
			src[0] = dst[1] + 1
		}
		best = min(best, time.Since(start))
	}
	return float64(best.Nanoseconds()) / 1000
}
