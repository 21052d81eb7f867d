package allocator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkAllocateFree measures a pair of one free and one allocation with a number of extents live: alignment 64,
// sizes uniform from 1 KiB to 4 MiB, victims in random order, the space twice what is live, or the
// largest there is (256 GiB in each bank) if that is less. Besides ns per pair it
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
	sizes := make([]uint64, 1<<16)
	for i := range sizes {
		sizes[i] = 1<<10 + rng.Uint64N(4<<20-1<<10+1)
	}
	a, err := New(Config{DRAMBanks: 1, DRAMEnd: min(max(64<<20, uint64(live)*(4<<20)), 255<<30), DRAMAlign: 64})
	if err != nil {
		b.Fatal(err)
	}
	allocate := func(n int) Extent {
		e, err := a.Allocate(Request{Size: sizes[n&(len(sizes)-1)], TopDown: &topDown})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	extents := make([]Extent, live)
	for i := range extents {
		extents[i] = allocate(i)
	}
	// Extents are freed in rounds, each in a new random order. The table is shuffled between rounds, so that what is
	// measured is the allocator and not the fetching of the table's entries from memory.
	n := 0
	round := func(pairs int) {
		rng.Shuffle(live, func(i, j int) { extents[i], extents[j] = extents[j], extents[i] })
		b.StartTimer()
		for v := 0; pairs > 0; pairs-- {
			if err := a.Free(extents[v]); err != nil {
				b.Fatal(err)
			}
			extents[v] = allocate(n)
			n++
			if v++; v == live {
				v = 0
			}
		}
		b.StopTimer()
	}
	for range 4 { // age the space until its holes have their steady shape
		round(live)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		pairs := min(left, max(live, 256))
		round(pairs)
		left -= pairs
	}
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
