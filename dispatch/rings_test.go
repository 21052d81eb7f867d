package dispatch

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/dispatch/memmap"
)

func TestIssueRingNeverOverwrites(t *testing.T) {
	type batch struct{ off, n uint32 }
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]uint32{768 << 10, 768<<10 - 256, 1 << 20}).Draw(t, "size")
		r := issueRing{mem: make([]byte, size)}
		var outstanding []batch
		var put, oldest uint64
		read := uint32(0) // the prefetcher's own pointer
		for range rapid.IntRange(1, 300).Draw(t, "batches") {
			n := 64 * rapid.Uint32Range(1, memmap.MaxCommandSize/64).Draw(t, "size")
			off := r.place(n)
			if r.roomy(n) && off != r.wr {
				t.Fatalf("%d B are free at %#x, and go to %#x", n, r.wr, off)
			}
			for !r.roomy(n) && !r.free(off, n, oldest, put) {
				if len(outstanding) <= 1 {
					t.Fatalf("no room for %d B although only %v is outstanding", n, outstanding)
				}
				outstanding = outstanding[1:]
				oldest++
			}
			for _, o := range outstanding {
				if off < o.off+o.n && o.off < off+n {
					t.Fatalf("a batch at %#x+%#x overwrites one at %#x+%#x", off, n, o.off, o.n)
				}
			}
			// The device finds the batch by its own rule.
			if read+n > size {
				read = 0
			}
			if read != off {
				t.Fatalf("the host writes at %#x, the prefetcher reads at %#x", off, read)
			}
			read += n
			r.put(off, n, put)
			put++
			outstanding = append(outstanding, batch{off, n})
			for k := rapid.IntRange(0, len(outstanding)-1).Draw(t, "taken"); k > 0; k-- {
				outstanding = outstanding[1:]
				oldest++
			}
		}
	})
}

func TestFetchRingCountsEntries(t *testing.T) {
	q, _ := hostOnly(t)
	f := &q.rings.fetch
	taken := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		for range 50 {
			for k := rapid.IntRange(0, 700).Draw(t, "put"); k > 0 && !f.full(); k-- {
				f.push(4)
			}
			if n := f.put - taken; n > 0 {
				taken += uint64(rapid.IntRange(0, int(n)).Draw(t, "take"))
				if taken > 0 {
					q.tiles.prefetchL1.Store32(uint64(q.d.ctl.FetchRead), f.addr(uint32((taken-1)%memmap.FetchEntries)))
				}
			}
			f.advance(uint64(rapid.IntRange(0, int(taken)).Draw(t, "known")))
			must(t, f.poll())
			if f.taken != taken {
				t.Fatalf("the host counts %d entries, the prefetcher took %d", f.taken, taken)
			}
		}
	})
}

func TestFetchRingRefusesWildPointer(t *testing.T) {
	q, _ := hostOnly(t)
	for _, v := range []uint32{0, 0xFFFFFFFF, q.rings.fetch.base - 2, q.rings.fetch.base + 1, q.rings.fetch.addr(memmap.FetchEntries) + 2} {
		q.tiles.prefetchL1.Store32(uint64(q.d.ctl.FetchRead), v)
		if err := q.rings.fetch.poll(); err == nil {
			t.Errorf("the pointer %#x was believed", v)
		}
	}
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
