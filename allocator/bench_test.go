package allocator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkAllocateFree measures a pair of one free and one allocation with a number of extents
// live: alignment 64, sizes uniform from 1 KiB to 4 MiB, victims in random order, the space twice
// what is live or, if that is less, the largest there is (256 GiB in each bank).
//
// Few extents are freed at random. Many are freed in rounds, each in a new random order: the table
// of extents, 64 bytes each, is shuffled between rounds, so that the time is the allocator's and
// not that of fetching an entry from memory. The entries do go through the caches. Sizes are drawn
// before each turn.
//
// It reports the median of turns of some thousand pairs, in ns and in copies of 4 KiB that are in
// cache. The two are measured in turns, so that what else the machine does disturbs both or
// neither, and machines can be compared. "quartile" is the ratio of the first quartiles, which a
// busy machine disturbs less.
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
	size := func() uint64 { return 1<<10 + rng.Uint64N(4<<20-1<<10+1) }
	a, err := New(Config{DRAMBanks: 1, DRAMEnd: min(max(64<<20, uint64(live)*(4<<20)), 255<<30), DRAMAlign: 64})
	if err != nil {
		b.Fatal(err)
	}
	allocate := func(size uint64) Extent {
		e, err := a.Allocate(Request{Size: size, TopDown: &topDown})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	extents := make([]Extent, live)
	for i := range extents {
		extents[i] = allocate(size())
	}
	const turn = 1024 // pairs that are timed together
	var sizes [turn]uint32
	var victims [turn]uint16
	pairs := func(first, n int) {
		for i, v := range victims[:n] {
			e := &extents[first+int(v)]
			if err := a.Free(*e); err != nil {
				b.Fatal(err)
			}
			*e = allocate(uint64(sizes[i]))
		}
	}
	next := live
	draw := func() (first, n int) {
		for i := range turn {
			sizes[i] = uint32(size())
			victims[i] = uint16(i)
			if live <= turn {
				victims[i] = uint16(rng.IntN(live))
			}
		}
		if live <= turn {
			return 0, turn
		}
		if next >= live { // a round is over
			rng.Shuffle(live, func(i, j int) { extents[i], extents[j] = extents[j], extents[i] })
			pairs(live-turn, turn) // what the shuffle took out of the caches
			next = 0
		}
		first, n = next, min(turn, live-next)
		next += n
		return first, n
	}
	for range 4 * (live/turn + 1) { // age the space until its holes have their steady shape
		pairs(draw())
	}
	src, dst := make([]byte, 4096), make([]byte, 4096) // both start a page
	var took, copies []float64
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		first, n := draw()
		copies = append(copies, copy4KiB(dst, src))
		start := time.Now()
		pairs(first, n)
		took = append(took, float64(time.Since(start).Nanoseconds())/float64(n))
		left -= n
	}
	b.ReportMetric(median(took), "ns/op")
	b.ReportMetric(median(took)/median(copies), "copies4KiB")
	slices.Sort(took)
	slices.Sort(copies)
	b.ReportMetric(took[len(took)/4]/copies[len(copies)/4], "quartile")
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// copy4KiB returns the ns that a copy of 4 KiB in cache takes.
func copy4KiB(dst, src []byte) float64 {
	const n = 1000
	start := time.Now()
	for range n {
		copy(dst, src)
		src[0] = dst[1] + 1
	}
	return float64(time.Since(start).Nanoseconds()) / n
}
