package dispatch

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/kmd"
)

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

func (c *completions) restart(queue uint16) {
	c.queue = queue
	c.pages.Store(0)
	c.taken.Store(0)
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
