package dispatch

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/prefetch"
	"github.com/reprise-tt/reprise/kmd"
)

// fetchRing is the host's side of the prefetch queue in the prefetch core's L1: a ring of entries
// of 16 bits, or 32 bits with newer firmware of tt-metal, each the size of a batch in units of 16
// bytes. The prefetcher zeroes each entry that it takes and publishes its address. Source: tt-metal
// system_memory_manager.cpp and cq_prefetch.cpp.
type fetchRing struct {
	win     *kmd.Window // L1
	entries uint32
	log     uint32
	base    uint32 // of entry 0
	rdAddr  uint32

	next  uint32 // index to write next
	lastR uint32 // last value at rdAddr
	taken uint64
	put   uint64 // entries written
}

func (f *fetchRing) addr(i uint32) uint32 { return f.base + i<<f.log }

func (f *fetchRing) initialRead() uint32 { return f.addr(f.entries) }

// full and spare go by the last read of the device's pointer.
func (f *fetchRing) full() bool { return f.put-f.taken >= uint64(f.entries-1) }

func (f *fetchRing) spare() uint32 { return f.entries - 1 - uint32(f.put-f.taken) }

func (f *fetchRing) poll() error {
	r := f.win.Load32(uint64(f.rdAddr))
	if r == f.lastR {
		return nil
	}
	if r < f.base || r >= f.addr(f.entries) || (r-f.base)&(1<<f.log-1) != 0 {
		return fmt.Errorf("dispatch: prefetch queue: the read pointer is %#x, outside of the ring at %#x..%#x: the prefetch core's L1 was overwritten or the device is gone", r, f.base, f.addr(f.entries))
	}
	idx := (r - f.base) >> f.log
	if f.lastR == f.initialRead() {
		f.taken += uint64(idx) + 1
	} else {
		last := (f.lastR - f.base) >> f.log
		f.taken += uint64((idx + f.entries - last) % f.entries)
	}
	f.lastR = r
	return nil
}

// advance counts the first n entries as taken: a later command is done.
func (f *fetchRing) advance(n uint64) {
	if n > f.taken {
		f.taken, f.lastR = n, f.addr(uint32((n-1)%uint64(f.entries)))
	}
}

// push needs room, and visible commands.
func (f *fetchRing) push(entry cq.FetchEntry) {
	at := uint64(f.addr(f.next))
	if f.log == 1 {
		f.win.Store16(at, uint16(entry))
	} else {
		f.win.Store32(at, uint32(entry&^cq.FetchStall)|uint32(entry&cq.FetchStall)<<16)
	}
	f.next++
	if f.next == f.entries {
		f.next = 0
	}
	f.put++
}

type queueRings struct {
	fetch fetchRing
	issue issueRing
}

// roomy reports whether n bytes are known to fit after the newest batch.
func (r *queueRings) roomy(n uint32) bool { return r.issue.roomy(n) && !r.fetch.full() }

// issueRing is the part of sysmem from which the prefetcher reads commands. A batch that doesn't
// fit before the end starts at the base.
type issueRing struct {
	mem   []byte
	wr    uint32
	clear uint32 // no bytes from wr up to here are read any more; 0 if unknown
	ends  [batchEnds]uint32
}

// batchEnds is a power of two above the number of prefetch queue entries.
const batchEnds = 2048

func (r *issueRing) end(batch uint64) *uint32 { return &r.ends[batch%batchEnds] }

func (r *issueRing) put(off, n uint32, batch uint64) {
	if off != r.wr {
		r.clear = 0
	}
	r.wr = off + n
	*r.end(batch) = off + n
}

func (r *issueRing) place(n uint32) uint32 { return r.placeAfter(r.wr, n) }

func (r *issueRing) placeAfter(wr, n uint32) uint32 {
	if wr+n > uint32(len(r.mem)) {
		return 0
	}
	return wr
}

// prefetchAhead is bytes: a replay has 128 or 192, and a cache miss takes as long as several
// replays.
const prefetchAhead = 1024

func (r *issueRing) prefetch() {
	if at := uint(r.wr) + prefetchAhead; at < uint(len(r.mem)) {
		prefetch.Write(&r.mem[at])
	}
}

func (r *issueRing) roomy(n uint32) bool { return r.wr+n <= r.clear }

// free reports whether the prefetcher has read [off, off+n), while batches from oldest up to next
// are outstanding. It notes how much is free after wr.
func (r *issueRing) free(off, n uint32, oldest, next uint64) bool {
	if oldest == next {
		r.clear = uint32(len(r.mem))
		return true
	}
	// Outstanding bytes, from the newest finished batch to wr, around the ring.
	var tail uint32
	if oldest > 0 {
		tail = *r.end(oldest - 1)
	}
	if tail < r.wr {
		// one piece [tail, wr)
		r.clear = uint32(len(r.mem))
		return off >= r.wr || off+n <= tail
	}
	// two pieces [tail, end) and [0, wr)
	r.clear = tail
	return off >= r.wr && off+n <= tail
}
