package dispatch

import (
	"math/rand/v2"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/memmap"
	"pgregory.net/rapid"
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

type dealt []struct{ core, slot int }

func (d dealt) Page(i int) (core, slot int) { return d[i].core, d[i].slot }

func someBuffer(r *rand.Rand) *Buffer {
	page, all := []int{16, 48, 100}[r.IntN(3)], 1+r.IntN(40)
	b := &Buffer{Whole: Interleaved{
		Addr: 0x1000, HostPage: uint32(page), PageSize: uint32(page+15) &^ 15, Pages: all, Banks: 1 + r.IntN(7),
	}}
	if r.IntN(2) == 0 {
		b.Banks = []int{4, 0, 9}
		slots := make([]int, len(b.Banks))
		var d dealt
		for core := 0; len(d) < all; {
			if r.IntN(4) == 0 {
				core = r.IntN(len(slots))
				slots[core] += r.IntN(2)
			}
			d = append(d, struct{ core, slot int }{core, slots[core]})
			slots[core]++
		}
		if r.IntN(4) == 0 {
			r.Shuffle(len(d), func(i, k int) { d[i], d[k] = d[k], d[i] })
		}
		b.Sharding = d
	}
	b.First = r.IntN(all)
	b.Pages = 1 + r.IntN(all-b.First)
	return b
}

func someRange(r *rand.Rand, b *Buffer) (off, n int) {
	if r.IntN(2) == 0 {
		first := r.IntN(b.Pages + 1)
		return first * b.page(), r.IntN(b.Pages-first+1) * b.page()
	}
	off = r.IntN(b.Size() + 1)
	return off, r.IntN(b.Size() - off + 1)
}

func TestChunksCoverTheRange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		b := someBuffer(r)
		page, stride, most := b.page(), int(b.Whole.PageSize), 1+r.IntN(5)
		off, n := someRange(r, b)
		next, prev := off, chunk{}
		cover := func(c chunk) error {
			if c.off != next || c.n <= 0 || c.off+c.n > off+n {
				t.Fatalf("a chunk of %d B at %d, want it at %d of %d", c.n, c.off, next, off+n)
			}
			if c.inPage && c.off/page != (c.off+c.n-1)/page || !c.inPage && (c.off%page != 0 || c.n%page != 0) {
				t.Fatalf("a chunk of %d B at %d, in a page: %v", c.n, c.off, c.inPage)
			}
			if c.run && c.n > most*page {
				t.Fatalf("a run of %d B, at most %d pages of %d B are wanted", c.n, most, page)
			}
			for k := range c.n {
				wantBank, wantAddr := b.Page((c.off + k) / page)
				wantAddr += uint32((c.off + k) % page)
				at := c.at + k
				if c.run {
					at = c.at + k/page*stride + k%page
				}
				bank, addr := c.iv.at(at / int(c.iv.HostPage))
				if addr += uint32(at % int(c.iv.HostPage)); bank != wantBank || addr != wantAddr {
					t.Fatalf("byte %d: bank %d, %#x, want bank %d, %#x", c.off+k, bank, addr, wantBank, wantAddr)
				}
			}
			if prev.run && c.run && prev.n < most*page {
				bank, addr := b.Page(c.off / page)
				if prevBank, prevAddr := b.Page(c.off/page - 1); bank == prevBank && addr == prevAddr+uint32(stride) {
					t.Fatalf("pages %d and %d, one after the other, are in two runs", c.off/page-1, c.off/page)
				}
			}
			prev, next = c, c.off+c.n
			return nil
		}
		if err := b.eachChunk(off, n, most, cover); err != nil || next != off+n {
			t.Fatalf("chunks end at %d, want %d (%v)", next, off+n, err)
		}
		next, prev = off, chunk{}
		if err := b.eachPage(off, n, cover); err != nil || next != off+n {
			t.Fatalf("chunks of pages end at %d, want %d (%v)", next, off+n, err)
		}
	}
}

func TestBufferRanges(t *testing.T) {
	const most = int(^uint(0) >> 1)
	b := Buffer{Whole: Interleaved{HostPage: 100, PageSize: 112, Pages: 9, Banks: 2}, First: 2, Pages: 3}
	for _, tt := range []struct {
		off, n int
		ok     bool
	}{
		{0, 300, true}, {300, 0, true}, {299, 1, true},
		{0, 301, false}, {301, 0, false}, {-1, 1, false}, {1, -1, false}, {most, most, false}, {1, most, false},
	} {
		if err := b.check("read", tt.off, tt.n); (err == nil) != tt.ok {
			t.Errorf("%d B at %d: %v", tt.n, tt.off, err)
		}
	}
}
