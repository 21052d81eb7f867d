package allocator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkAllocateFree measures a pair of one free and one allocation with a number of extents live: alignment 64,
// sizes uniform from 1 KiB to 4 MiB, victims in random order, the space twice what is live or, if that is less, the
// largest there is (256 GiB in each bank).
//
// Beside ns per pair it reports the ratio of the median to that of copying 4 KiB that are in cache. The two are measured
// in turns, some thousand pairs at a time, so that what else the machine does disturbs both or neither, and machines
// can be compared. "least" is the ratio of the two fastest turns.
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
	const turn = 4096 // pairs that are timed together
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
	// Few extents are freed at random. Many are freed in rounds, each in a new random order: the table is shuffled between
	// rounds, so that what is measured is the allocator and not the fetching of the table's entries from memory.
	victims := make([]int, 1<<16)
	for i := range victims {
		victims[i] = rng.IntN(live)
	}
	n, v := 0, live
	pairs := func(left int) {
		for ; left > 0; left-- {
			i := v
			if live <= turn {
				i = victims[n&(len(victims)-1)]
			}
			if err := a.Free(extents[i]); err != nil {
				b.Fatal(err)
			}
			extents[i] = allocate(n)
			n++
			v++
		}
	}
	shuffle := func() {
		if live > turn && v >= live {
			rng.Shuffle(live, func(i, j int) { extents[i], extents[j] = extents[j], extents[i] })
			v = 0
			pairs(turn) // what the shuffle took out of the caches
		}
	}
	for range 4 { // age the space until its holes have their steady shape
		shuffle()
		if live > turn {
			pairs(live - v)
		} else {
			pairs(4 * live)
		}
	}
	var took, copies []float64
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		b.StopTimer()
		shuffle()
		copies = append(copies, copy4KiB())
		b.StartTimer()
		now := min(left, turn)
		if live > turn {
			now = min(now, live-v)
		}
		start := time.Now()
		pairs(now)
		took = append(took, float64(time.Since(start).Nanoseconds())/float64(now))
		left -= now
	}
	b.ReportMetric(median(took)/median(copies), "copies4KiB")
	b.ReportMetric(slices.Min(took)/slices.Min(copies), "least")
	b.ReportMetric(median(took), "median-ns")
	b.ReportMetric(float64(a.Stats(DRAM).Holes), "holes")
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// copy4KiB returns the ns that a copy of 4 KiB in cache takes.
func copy4KiB() float64 {
	var src, dst [4096]byte
	const n = 2000
	start := time.Now()
	for range n {
		copy(dst[:], src[:])
		src[0] = dst[1] + 1
	}
	return float64(time.Since(start).Nanoseconds()) / n
}
