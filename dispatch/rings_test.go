package dispatch

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Two programs never have the same kernel-config memory, nor the same launch slot, at a time when both may still be
// running: the later one waits for a count at which the earlier one is done. Counts start just below their wrap.
func TestConfigRingNeverOverlapsRunningPrograms(t *testing.T) {
	type program struct {
		off, size uint32
		launch    int
		done      cq.Count // count at which it is done
	}
	rapid.Check(t, func(t *rapid.T) {
		const size, workers = 0x11400, 130
		count := cq.Count(rapid.Uint32Range(0xFFFF0000, 0xFFFFFFFF).Draw(t, "count"))
		r := configRing{size: size}
		if rapid.Bool().Draw(t, "full") {
			r = fullRing(size, uint32(count))
		}
		var running []program
		reached := count // what the device is known to have reached, by waits
		for i := range rapid.IntRange(1, 200).Draw(t, "programs") {
			n := rapid.SampledFrom([]uint32{0, 1, 64, 100, 4096, 20000, size/2 + 1, size}).Draw(t, "size")
			count += workers
			off, waitFor, wait := r.reserve(n, uint32(count))
			if wait && cq.Count(waitFor).Until(reached) < 0 {
				reached = cq.Count(waitFor)
			}
			p := program{off: off, size: max(n, 1), launch: i % launchEntries, done: count}
			if off%slotAlign != 0 || off+n > size {
				t.Fatalf("program %d of %d B lies at %#x of a ring of %#x", i, n, off, size)
			}
			live := running[:0]
			for _, o := range running {
				if reached.Reached(o.done) {
					continue
				}
				live = append(live, o)
				if p.off < o.off+o.size && o.off < p.off+p.size {
					t.Fatalf("program %d at %#x+%#x overlaps one at %#x+%#x that may still run", i, p.off, p.size, o.off, o.size)
				}
				if o.launch == p.launch {
					t.Fatalf("program %d has launch slot %d of one that may still run", i, p.launch)
				}
			}
			running = append(live, p)
		}
	})
}

// The host never writes into bytes of the issue ring that the prefetcher may still read, and never waits for room
// when the prefetcher has read everything but the batch it took last.
func TestIssueRingNeverOverwrites(t *testing.T) {
	type batch struct{ off, n uint32 }
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]uint32{768 << 10, 768<<10 - 256, 1 << 20}).Draw(t, "size")
		r := issueRing{mem: make([]byte, size)}
		var outstanding []batch
		var put, oldest uint64
		read := uint32(0) // the prefetcher's own pointer
		for range rapid.IntRange(1, 300).Draw(t, "batches") {
			n := 64 * rapid.Uint32Range(1, maxCommandSize/64).Draw(t, "size")
			off := r.place(n)
			for !r.free(off, n, oldest, put) {
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
			// The device follows its own rule to find the batch.
			if read+n > size {
				read = 0
			}
			if read != off {
				t.Fatalf("the host writes at %#x, the prefetcher reads at %#x", off, read)
			}
			read += n
			r.wr = off + n
			*r.end(put) = off + n
			put++
			outstanding = append(outstanding, batch{off, n})
			for k := rapid.IntRange(0, len(outstanding)-1).Draw(t, "taken"); k > 0; k-- {
				outstanding = outstanding[1:]
				oldest++
			}
		}
	})
}

// The host's idea of how many prefetch queue entries are taken is the prefetcher's, over many laps, whenever it looks.
func TestFetchRingCountsEntries(t *testing.T) {
	q, _ := hostOnly(t)
	f := &q.fetch
	taken := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		for range 50 {
			for k := rapid.IntRange(0, 700).Draw(t, "put"); k > 0 && !f.full(); k-- {
				f.push(4)
			}
			if n := f.put - taken; n > 0 {
				taken += uint64(rapid.IntRange(0, int(n)).Draw(t, "take"))
				if taken > 0 {
					q.pre.Store32(uint64(q.d.ctl.fetchRead), f.addr(uint32((taken-1)%fetchEntries)))
				}
			}
			// What is behind some of them is done, as a report said, maybe one from long ago.
			f.know(uint64(rapid.IntRange(0, int(taken)).Draw(t, "known")))
			if err := f.poll(); err != nil {
				t.Fatal(err)
			}
			if f.taken != taken {
				t.Fatalf("the host counts %d entries, the prefetcher took %d", f.taken, taken)
			}
		}
	})
}

// A read pointer that can't be one is reported, not believed.
func TestFetchRingRefusesWildPointer(t *testing.T) {
	q, _ := hostOnly(t)
	for _, v := range []uint32{0, 0xFFFFFFFF, q.fetch.base - 2, q.fetch.base + 1, q.fetch.addr(fetchEntries) + 2} {
		q.pre.Store32(uint64(q.d.ctl.fetchRead), v)
		if err := q.fetch.poll(); err == nil {
			t.Errorf("the pointer %#x was believed", v)
		}
	}
}

// Rectangles cover exactly the cores that they are made for, each once.
func TestCoverCoresIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[chip.Core]bool{}
		var cores []chip.Core
		for y := range 10 {
			for x := range 13 {
				if c := (chip.Core{X: x, Y: y}); rapid.IntRange(0, 3).Draw(t, "in") > 0 {
					in[c] = true
					cores = append(cores, c)
				}
			}
		}
		for _, r := range coverCores(cores) {
			for c := range r.Cores() {
				if !in[c] {
					t.Fatalf("%v holds %v, which is not asked for or covered already", r, c)
				}
				delete(in, c)
			}
		}
		if len(in) != 0 {
			t.Fatalf("%v are not covered", in)
		}
	})
}
