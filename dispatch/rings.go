package dispatch

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
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

// full goes by the last read of the device's pointer.
func (f *fetchRing) full() bool { return f.put-f.taken >= uint64(f.entries-1) }

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

// completion is a record that the device will write: data of a read, or an event.
type completion struct {
	isEvent  bool
	event    cq.Seq
	timed    bool
	time     uint64 // set before finished
	dst      []byte // data of a read
	hostPage int    // bytes of a page in dst
	devPage  int    // bytes of a page in the record
	read     *read
	finished atomic.Bool
	lost     error // set before finished
	before   clock
	entries  uint64 // of the prefetch queue that are taken once it has arrived
	task     task   // of a wait for it
	total    uint32 // programs and replays before it
}

// A record's payload: the id, and if timed the time.
const (
	atEventFlags = 4
	atEventTime  = 8
	eventTimed   = 1
)

type read struct {
	abandoned bool // dst is the caller's again; guarded by ringMu
}

func (c *completion) done() bool { return c.finished.Load() }

func (c *completion) size() uint32 {
	if c.isEvent {
		return 16
	}
	return uint32((len(c.dst) + c.hostPage - 1) / c.hostPage * c.devPage)
}

type completions struct {
	queue uint16 // number in records

	ringMu sync.Mutex // held while records are taken
	ring   completionRing
	pages  atomic.Uint64 // popped
	taken  atomic.Uint64 // prefetch queue entries taken before the newest record

	mu       sync.Mutex
	expected []*completion
	none     []*completion
}

func (c *completions) push(x *completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := cap(c.expected)
	if c.expected = append(c.expected, x); cap(c.expected) != before {
		c.none = c.expected[:0]
	}
}

func (c *completions) takeBack(x *completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.expected); n > 0 && c.expected[n-1] == x {
		c.expected = c.expected[:n-1]
	}
}

func (c *completions) lose(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.expected {
		x.lost = cause
		x.finished.Store(true)
	}
	c.expected = nil
}

func (c *completions) abandon(r *read) {
	c.ringMu.Lock()
	defer c.ringMu.Unlock()
	r.abandoned = true
}

func (r *read) isAbandoned(c *completions) bool {
	c.ringMu.Lock()
	defer c.ringMu.Unlock()
	return r.abandoned
}

func (c *completions) first() *completion {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.expected) == 0 {
		return nil
	}
	return c.expected[0]
}

func (c *completions) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.expected)
}

// drain returns at once while another goroutine drains.
func (c *completions) drain() error {
	if !c.ringMu.TryLock() {
		return nil
	}
	defer c.ringMu.Unlock()
	for {
		avail := c.ring.available()
		if avail == 0 {
			return nil
		}
		x := c.first()
		if x == nil {
			return fmt.Errorf("the device reported %d B without a request for them, starting with %#08x", avail, c.ring.word(0))
		}
		size := cq.HeaderSize + x.size()
		whole := (size + memmap.PageSize - 1) / memmap.PageSize * memmap.PageSize
		if avail < whole {
			return nil
		}
		if err := c.check(x, size); err != nil {
			return err
		}
		if !x.isEvent && !x.read.abandoned {
			c.copyPages(x)
		}
		if x.timed {
			at := uint32(cq.HeaderSize + atEventTime)
			x.time = uint64(c.ring.word(at)) | uint64(c.ring.word(at+4))<<32
		}
		c.ring.pop(whole)
		c.pages.Store(c.ring.popped)
		c.taken.Store(x.entries)
		c.mu.Lock()
		c.expected[0] = nil
		if c.expected = c.expected[1:]; len(c.expected) == 0 {
			c.expected = c.none // from the start of the array, so that it needn't grow
		}
		c.mu.Unlock()
		x.finished.Store(true)
	}
}

func (c *completions) check(x *completion, size uint32) error {
	w0, length := c.ring.word(0), c.ring.word(8)
	event := w0>>8&0xFF != 0
	if id := cq.DispatchID(w0); id != cq.DispatchWriteHost || event != x.isEvent || length != size || uint16(w0>>16) != c.queue {
		return fmt.Errorf("out of step: the device reported a record of %v (event %v, queue %d, %d B), expected one with event %v, queue %d, %d B", id, event, w0>>16, length, x.isEvent, c.queue, size)
	}
	if x.isEvent {
		if got := cq.Seq(c.ring.word(cq.HeaderSize)); got != x.event {
			return fmt.Errorf("out of step: the device reported event %d, expected %d", got, x.event)
		}
	}
	return nil
}

func (c *completions) copyPages(x *completion) {
	if x.hostPage == x.devPage {
		c.ring.copyOut(x.dst, cq.HeaderSize)
		return
	}
	skip := uint32(cq.HeaderSize)
	for dst := x.dst; len(dst) > 0; skip += uint32(x.devPage) {
		n := min(x.hostPage, len(dst))
		c.ring.copyOut(dst[:n], skip)
		dst = dst[n:]
	}
}

// completionRing is the host's side of the completion queue: records of whole 4 KiB pages that the
// dispatcher writes into sysmem. Pointers are in 16-byte units with a toggle in bit 31 that flips
// at each wrap. Source: tt-metal system_memory_cq_interface.cpp and cq_dispatch.cpp.
type completionRing struct {
	mem    []byte
	base   uint32 // device address (low 32 bits) of mem, divided by 16
	host   *kmd.HostMemory
	wrWord uint64 // the dispatcher's pointer
	rdWord uint64 // a copy of the host's pointer, for debuggers

	win     *kmd.Window // of the dispatch core
	rdOff   uint64      // in win: the dispatcher's copy of the host's pointer
	rd      uint32      // in mem: the next record
	toggled bool
	popped  uint64 // pages since the queue was opened
}

func (c *completionRing) available() uint32 {
	w := c.host.Load32(c.wrWord)
	off := (w&^memmap.ToggleBit - c.base) * 16
	if w&memmap.ToggleBit != 0 == c.toggled {
		if off < c.rd {
			return 0 // the caller times out and reports it
		}
		return off - c.rd
	}
	return uint32(len(c.mem)) - c.rd + off
}

func (c *completionRing) copyOut(dst []byte, skip uint32) {
	off := (uint64(c.rd) + uint64(skip)) % uint64(len(c.mem))
	n := copy(dst, c.mem[off:])
	copy(dst[n:], c.mem)
}

// word returns the word at byte skip of the next record. Records begin at pages, so no header
// wraps.
func (c *completionRing) word(skip uint32) uint32 {
	return binary.LittleEndian.Uint32(c.mem[c.rd+skip:])
}

func (c *completionRing) pop(n uint32) {
	c.rd += n
	if c.rd >= uint32(len(c.mem)) {
		c.rd -= uint32(len(c.mem))
		c.toggled = !c.toggled
	}
	c.popped += uint64(n / memmap.PageSize)
	p := c.pointer()
	c.host.Store32(c.rdWord, p)
	c.win.Store32(c.rdOff, p)
}

func (c *completionRing) pointer() uint32 {
	p := c.base + c.rd/16
	if c.toggled {
		p |= memmap.ToggleBit
	}
	return p
}
