package dispatch

import (
	"encoding/binary"

	"github.com/reprise-tt/reprise/kmd"
)

// pageSize is the unit of the dispatch ring and of the completion queue, in bytes. Source: tt-metal
// dispatch_settings.hpp.
const pageSize = 4096

const toggleBit = 1 << 31

// completionRing is the host's side of the completion queue: records of whole 4 KiB pages that the dispatcher
// writes into sysmem. Pointers are in 16-byte units with a toggle in bit 31 that flips at each wrap, so that a full
// ring differs from an empty one. Source: tt-metal system_memory_cq_interface.cpp and cq_dispatch.cpp.
type completionRing struct {
	mem    []byte // the ring
	base   uint32 // device address (low 32 bits) of mem[0], divided by 16
	host   *kmd.HostMemory
	wrWord uint64 // offset in host of the word that the dispatcher publishes its pointer in
	rdWord uint64 // offset in host of the mirror of the host's pointer, for debuggers

	win     *kmd.Window // the dispatch core's L1
	rdOff   uint64      // offset in win of the dispatcher's copy of the host's pointer
	rd      uint32      // offset in mem of the next record
	toggled bool
	popped  uint64 // pages popped since the queue was opened
}

// available returns how many bytes the device has published and the host not popped.
func (c *completionRing) available() uint32 {
	w := c.host.Load32(c.wrWord)
	off := (w&^toggleBit - c.base) * 16
	if w&toggleBit != 0 == c.toggled {
		if off < c.rd {
			return 0 // not a pointer of ours; the caller times out and reports it
		}
		return off - c.rd
	}
	return uint32(len(c.mem)) - c.rd + off
}

// copyOut copies from the ring, starting skip bytes after the read pointer.
func (c *completionRing) copyOut(dst []byte, skip uint32) {
	off := (uint64(c.rd) + uint64(skip)) % uint64(len(c.mem))
	n := copy(dst, c.mem[off:])
	copy(dst[n:], c.mem)
}

// word returns the little-endian word at byte skip of the record at the read pointer. Records start at a page, so
// no word of a header lies across the end of the ring.
func (c *completionRing) word(skip uint32) uint32 {
	return binary.LittleEndian.Uint32(c.mem[c.rd+skip:])
}

// pop returns n bytes, a whole number of pages, to the device.
func (c *completionRing) pop(n uint32) {
	c.rd += n
	if c.rd >= uint32(len(c.mem)) {
		c.rd -= uint32(len(c.mem))
		c.toggled = !c.toggled
	}
	c.popped += uint64(n / pageSize)
	p := c.pointer()
	c.host.Store32(c.rdWord, p)
	c.win.Store32(c.rdOff, p)
}

// pointer returns the read pointer in the device's form.
func (c *completionRing) pointer() uint32 {
	p := c.base + c.rd/16
	if c.toggled {
		p |= toggleBit
	}
	return p
}
