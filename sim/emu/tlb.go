package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

type windowTarget struct {
	ep        *endpoint
	start     *endpoint // multicast
	addr      uint64
	multicast bool
	posted    bool
	noc       int
}

// window translates an access of n bytes at a BAR offset (tt-isa-documentation
// WormholeB0/PCIExpressTile/TLBs.md; tt-umd blackhole_implementation.hpp), refusing what ttsim does
// (src/libttsim.cpp).
func (c *Chip) window(o origin, bar int, off uint64, n int) (windowTarget, bool) {
	bad := func(cat Category, format string, args ...any) (windowTarget, bool) {
		c.refuse(origin{}, cat, "tlb window", off, format, args...)
		return windowTarget{}, false
	}
	var size, addr, target uint64 // target: x_end, y_end, x_start, y_start of 6 bits each, then the other fields
	id := 0
	// All requests of a host are in order here, so static virtual channels change nothing. tt-umd
	// avoids them on Blackhole for "a known HW issue" (blackhole_implementation.hpp), but tests
	// windows with them. Behind the flag and one more bit is the channel's number.
	static := uint32(1 | 7<<2)
	if c.cfg.RefuseUnmapped {
		static = 0
	}
	switch {
	case c.wormhole():
		bits := uint(20)
		switch {
		case off < 0x9C00000:
			id = int(off >> 20)
		case off < 0xB000000:
			id, bits = 156+int((off-0x9C00000)>>21), 21
		default:
			id, bits = 166+int((off-0xB000000)>>24), 24
		}
		cfg := uint64(c.tlb[2*id]) | uint64(c.tlb[2*id+1])<<32
		size = 1 << bits
		addr = cfg & (1<<(36-bits) - 1) << bits
		target = cfg >> (36 - bits)
		if target&^0x2FFFFFFF != 0 {
			return bad(unimplemented, "window %d: configuration %#x: linked or reserved bits", id, cfg)
		}
	case bar == 4:
		id = 202 + int(off>>32)
		w := c.tlb[3*id:][:3]
		size, addr = 1<<32, uint64(w[0])<<32
		if w[1]&^(0x19000FFF|static<<30) != 0 || w[2]&^(static>>2) != 0 {
			return bad(unimplemented, "window %d: configuration %#x %#x: only a tile, a NoC and an ordering are emulated here", id,
				w[1], w[2])
		}
		target = uint64(w[1]&0xFFF) | uint64(w[1]>>24&1)<<24 | uint64(w[1]>>27&3)<<26
	default:
		id = int(off >> 21)
		w := c.tlb[3*id:][:3]
		size, addr = 1<<21, (uint64(w[0])|uint64(w[1]&0x7FF)<<32)<<21
		if w[2]&^(0xEF|static<<9) != 0 {
			return bad(unimplemented, "window %d: configuration word 2 = %#x: linked or static VC", id, w[2])
		}
		target = uint64(w[1]>>11) | uint64(w[2]&7)<<21 | uint64(w[2]>>3&1)<<24 | uint64(w[2]>>5&1)<<25 | uint64(w[2]>>6&3)<<26
	}
	if c.cfg.RefuseCounters {
		if all := uint8(1)<<(c.params.BAR.WindowRegsSize/4) - 1; c.half[id] != 0 && c.half[id] != all {
			if !c.flag(o, "counters", undefined, "tlb window", off,
				"window %d is used after only some of its %d configuration words were stored", id, c.params.BAR.WindowRegsSize/4) {
				return windowTarget{}, false
			}
		}
		c.half[id] = 0
	}
	if off&(size-1)+uint64(n) > size {
		return bad(unsupported, "%d bytes reach beyond the end of window %d", n, id)
	}
	if target>>26&3 == 3 {
		return bad(undefined, "window %d: ordering 3 is invalid", id)
	}
	w := windowTarget{addr: addr | off&(size-1), multicast: target>>25&1 != 0, posted: target>>26&3 == 2, noc: int(target >> 24 & 1)}
	if w.multicast && w.noc == 1 {
		return bad(unimplemented, "window %d: multicast on NoC 1", id)
	}
	if !w.multicast && target>>12&0xFFF != 0 {
		return bad(unsupported, "window %d: a start corner without multicast", id)
	}
	if !o.loads && c.lost(w, target) {
		return w, false
	}
	if w.ep = c.resolve(origin{}, "tlb window", w.noc, uint32(target&0xFFF)); w.ep == nil {
		return w, false
	}
	if w.multicast {
		if w.start = c.resolve(origin{}, "tlb window", 0, uint32(target>>12&0xFFF)); w.start == nil {
			return w, false
		}
	}
	return w, true
}

func (c *Chip) noteHost(w *windowTarget, p []byte, load bool) {
	if c.track != nil && w.ep.kind != chip.DRAM {
		a := HostAccess{Start: w.ep.xy, End: w.ep.xy, Load: load, Addr: w.addr, Data: p}
		if w.multicast {
			a.Start = w.start.xy
		}
		c.track.hosts(a)
	}
}

// lost reports a host's store to coordinates without a tile: tt-umd's tests store to (15, 15) of a
// Blackhole to hang it (WarmResetTest.ClusterWarmReset).
func (c *Chip) lost(w windowTarget, target uint64) bool {
	if !c.blackhole() || w.multicast || c.cfg.RefuseUnmapped {
		return false
	}
	_, err := c.topology.Translate(chip.NOC(w.noc), chip.XY{X: uint8(target & 63), Y: uint8(target >> 6 & 63)})
	return err != nil
}

func (c *Chip) windowRead(bar int, off uint64, p []byte) {
	w, ok := c.window(origin{loads: true}, bar, off, len(p))
	if !ok {
		return
	}
	// A read goes to the end of the rectangle (tt-isa-documentation WormholeB0/NoC/MemoryMap.md).
	// tt-umd loads the last word before it stores a part of it (ApiTTDeviceTest.MulticastIO).
	if w.multicast && c.cfg.RefuseUnmapped {
		c.refuse(origin{}, undefined, "tlb window", off, "load through a multicast window")
		return
	}
	buf := c.words(word.Span(w.addr, len(p)))
	if c.readTile(origin{loads: true}, "tlb window", w.noc, w.ep, w.addr, len(p), buf) {
		word.Unpack(p, w.addr, buf)
		c.noteHost(&w, p, true)
	}
}

func (c *Chip) windowWrite(bar int, off uint64, p []byte) {
	w, ok := c.window(origin{}, bar, off, len(p))
	if !ok {
		return
	}
	c.noteHost(&w, p, false)
	buf := c.words(word.Span(w.addr, len(p)))
	word.Pack(buf, w.addr, p)
	write := func(ep *endpoint) bool {
		if !c.writeTile(origin{}, "tlb window", w.noc, ep, w.addr, len(p), buf) {
			return false
		}
		if ep.tile != nil {
			ep.tile.countWrite(w.noc, c.flits(len(p)), word.Bool(w.posted))
		}
		return true
	}
	if !w.multicast {
		write(w.ep)
		return
	}
	a, b := w.start.xy, w.ep.xy
	skipX, skipY := c.params.MulticastSkipColumns, c.params.MulticastSkipRows
	if c.cfg.RefuseUnmapped && ((1<<a.X|1<<b.X)&skipX != 0 || (1<<a.Y|1<<b.Y)&skipY != 0) {
		c.refuse(origin{}, undefined, "tlb window", off, "multicast rectangle from %v to %v is not within the Tensix tiles", a, b)
		return
	}
	// All NIUs but workers' opt out (tt-isa-documentation WormholeB0/NoC/MemoryMap.md): tt-umd's
	// tests multicast to the whole grid and find only workers changed (TestMulticastWrite).
	skipX, skipY = c.topology.MulticastSkip()
	in := func(i, from, to uint8) bool { // beyond the end is the start
		return from <= i && i <= to || from > to && (from <= i || i <= to)
	}
	for y := range c.grid {
		for x := range c.grid[y] {
			if skipX>>x&1 == 0 && skipY>>y&1 == 0 && in(uint8(x), a.X, b.X) && in(uint8(y), a.Y, b.Y) && !write(&c.grid[y][x]) {
				return
			}
		}
	}
}

// words returns scratch memory for host accesses.
func (c *Chip) words(n int) []uint32 {
	if cap(c.scratch) < n {
		c.scratch = make([]uint32, max(n, 4096))
	}
	return c.scratch[:n]
}

// windowConfig stores to a TLB configuration register at an offset.
func (c *Chip) windowConfig(off uint64, width int, v uint64) {
	bar := c.params.BAR.WindowRegs
	switch {
	case off%uint64(width) != 0 || width < 4:
		c.refuse(origin{}, unsupported, "tlb configuration", uint64(bar)+off, "store of %d bytes: want 4 or 8, aligned", width)
	case width == 8 && c.blackhole():
		c.refuse(origin{}, unsupported, "tlb configuration", uint64(bar)+off, "store of 8 bytes: want 4")
	default:
		per := uint64(c.params.BAR.WindowRegsSize)
		c.half[off/per] |= uint8(1<<(width/4)-1) << (off % per / 4)
		c.tlb[off/4] = uint32(v)
		if width == 8 {
			c.tlb[off/4+1] = uint32(v >> 32)
		}
	}
}
