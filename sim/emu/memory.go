package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// dramAPBBase is where Wormhole's DRAM tiles have their controllers' registers and NIUs
// (tt-isa-documentation WormholeB0/DRAMTile/README.md).
const dramAPBBase = 0x1_0000_0000

// dram is one controller's memory; pages appear on their first write.
type dram struct {
	pages [][]uint32
	known []bitset // with RefuseUnwritten: by page, what was written
	size  uint64

	newest uint64 // see mergeTime
}

const dramPage = 256 << 10

// bitset has a bit for each word of a memory.
type bitset []uint64

func newBitset(bytes uint32) bitset   { return make(bitset, (bytes/4+63)/64) }
func (b bitset) has(word uint32) bool { return b[word>>6]>>(word&63)&1 != 0 }
func (b bitset) set(word uint32)      { b[word>>6] |= 1 << (word & 63) }

func newDRAM(size uint64, know bool) *dram {
	d := &dram{pages: make([][]uint32, size/dramPage), size: size}
	if know {
		d.known = make([]bitset, len(d.pages))
	}
	return d
}

func (d *dram) unwritten(addr uint64, n int) (uint64, bool) {
	for a := addr &^ 3; a < addr+uint64(n); a += 4 {
		if p := d.known[a/dramPage]; p == nil || !p.has(uint32(a%dramPage>>2)) {
			return a, true
		}
	}
	return 0, false
}

func (d *dram) know(addr uint64, n int) {
	for a := addr &^ 3; a < addr+uint64(n); a += 4 {
		p := &d.known[a/dramPage]
		if *p == nil {
			*p = newBitset(dramPage)
		}
		p.set(uint32(a % dramPage >> 2))
	}
}

func (d *dram) read(addr uint64, n int, buf []uint32) {
	for n > 0 {
		off := addr % dramPage
		k := min(n, int(dramPage-off))
		w := word.Span(off, k)
		if p := d.pages[addr/dramPage]; p != nil {
			copy(buf[:w], p[off>>2:])
		} else {
			clear(buf[:w])
		}
		addr, n, buf = addr+uint64(k), n-k, buf[min(w, len(buf)):]
	}
}

// view returns the words that hold n bytes at addr, or nil unless one written page has them all.
func (d *dram) view(addr uint64, n int) []uint32 {
	off := addr % dramPage
	if addr >= d.size || off+uint64(n) > dramPage || d.pages[addr/dramPage] == nil {
		return nil
	}
	return d.pages[addr/dramPage][off>>2:][:word.Span(off, n)]
}

func (d *dram) write(addr uint64, n int, buf []uint32) {
	for n > 0 {
		off := addr % dramPage
		k := min(n, int(dramPage-off))
		p := &d.pages[addr/dramPage]
		if *p == nil {
			*p = make([]uint32, dramPage/4)
		}
		word.Merge(*p, off, buf, k)
		w := word.Span(off, k)
		addr, n, buf = addr+uint64(k), n-k, buf[min(w, len(buf)):]
	}
}

func (c *Chip) reachable(o origin, where string, ep *endpoint, addr uint64, n int) bool {
	if ep.tile != nil && addr < ep.tile.bytes() && addr+uint64(n) <= ep.tile.bytes() {
		return true
	}
	bad := func(cat Category, format string, args ...any) bool {
		return c.refuse(o, cat, where, addr, format, args...)
	}
	if ep.harvested {
		if _, _, ok := c.harvestedNIU(ep, addr); ok && o.isHostLoad() && n == 4 && addr&3 == 0 {
			return true
		}
		return bad(undefined, "%v tile %v is harvested", ep.kind, ep.xy)
	}
	switch ep.kind {
	case chip.Tensix, chip.Ethernet:
		if l1 := ep.tile.bytes(); addr < l1 {
			return bad(undefined, "%d bytes at %#x of tile %v reach beyond its L1, which ends at %#x", n, addr, ep.xy, l1)
		}
		if addr > 0xFFFFFFFF {
			return bad(unimplemented, "tile %v has no address %#x", ep.xy, addr)
		}
		if n != 4 {
			return bad(unsupported, "%d bytes at %#x of tile %v, which are registers: want 4", n, addr, ep.xy)
		}
		if addr&3 != 0 {
			return bad(unimplemented, "register %#x of tile %v: want a multiple of 4", addr, ep.xy)
		}
	case chip.DRAM:
		d := c.drams[ep.bank]
		if c.wormhole() && addr >= dramAPBBase && addr < dramAPBBase+0x100000 {
			return true
		}
		if addr+uint64(n) > d.size || addr >= d.size {
			if c.showsNIU(o, ep.kind, addr, n) {
				return true
			}
			return bad(undefined, "%d bytes at %#x of DRAM controller %d, which ends at %#x", n, addr, ep.bank, d.size)
		}
	case chip.PCIe, chip.ARC:
	default:
		if c.showsNIU(o, ep.kind, addr, n) {
			return true
		}
		return bad(unimplemented, "tile %v (%v) answers no requests", ep.xy, ep.kind)
	}
	return true
}

// aliased returns the address that a host's access reaches. tt-umd's tests expect 0x40000000 of
// Wormhole workers to be L1 (ClusterWH.HarvestingRuntime); no document mentions it, and ttsim
// refuses it.
func (c *Chip) aliased(o origin, ep *endpoint, addr uint64) uint64 {
	const alias = 0x40000000
	if o.tile == nil && c.wormhole() && ep.kind == chip.Tensix && !ep.harvested && !c.cfg.RefuseUnmapped && addr >= alias &&
		addr < alias+ep.tile.bytes() {
		return addr - alias
	}
	return addr
}

// registersAt reports whether an address is no memory. The NoC reads registers by aligned words
// (tt-isa-documentation WormholeB0/NoC/MemoryMap.md); other loads of a host are made of those.
func (c *Chip) registersAt(ep *endpoint, addr uint64) bool {
	switch {
	case ep.harvested:
	case ep.kind == chip.Tensix, ep.kind == chip.Ethernet:
		return addr >= ep.tile.bytes()
	case ep.kind == chip.DRAM:
		return addr >= c.drams[ep.bank].size
	case ep.kind == chip.PCIe && c.blackhole():
		return addr >= c.params.PCI.DBIBase
	case ep.kind == chip.PCIe:
		return addr >= c.params.PCI.NOCBase+c.params.PCI.NOCSize || c.dbiOpen(6)
	}
	return true // ARC memory too
}

// isBlockRead reports a host's read of a block. It is not refused for what it finds, and reads
// garbage where nothing was written: after a hang the host keeps whole rings.
func (o origin) isBlockRead(n int) bool { return o.loads && n > 8 }

func (c *Chip) scramble(buf []uint32, addr uint64, n int, unknown func(uint64) bool) {
	for i, a := 0, addr&^3; a < addr+uint64(n); i, a = i+1, a+4 {
		if unknown(a) {
			x := (a ^ c.cfg.Seed<<32 ^ c.cfg.Seed) * 0x9E3779B97F4A7C15
			buf[i] = uint32(x >> 32)
		}
	}
}

func (c *Chip) isMemory(ep *endpoint, addr, n uint64) bool {
	size := uint64(0)
	switch {
	case ep.harvested:
	case ep.kind == chip.Tensix:
		size = ep.tile.bytes()
	case ep.kind == chip.DRAM:
		size = c.drams[ep.bank].size
	}
	return addr < size && addr+n <= size
}

// readL1 copies n bytes of L1 into buf, whose first word starts with addr&3 bytes of padding.
func (c *Chip) readL1(o origin, t *tile, addr uint32, n int, buf []uint32) bool {
	if t.known != nil {
		t.memory(0) // firmware has written to that of Ethernet tiles
		if !o.isBlockRead(n) {
			if !t.written(o, "l1", addr, n, "read of") {
				return false
			}
		} else if _, unknown := t.unwritten(addr, n); unknown && c.observed == nil {
			defer c.scramble(buf, uint64(addr), n, func(a uint64) bool { _, unknown := t.unwritten(uint32(a), 4); return unknown })
		}
	}
	if t.check != nil && !o.isBlockRead(n) && !t.check.Access(o.far().checked(), addr, uint32(n), true, false) {
		return false
	}
	if t.kind == chip.Ethernet && n == 4 {
		t.eth.beat(addr)
	}
	copy(buf, t.memory(addr + uint32(n))[addr>>2:][:word.Span(uint64(addr), n)])
	if !o.isHostLoad() {
		t.use(addr, n, false)
	}
	return true
}

func (c *Chip) writeL1(o origin, t *tile, addr uint32, n int, buf []uint32) bool {
	if t.check != nil && word.Differ(t.memory(addr+uint32(n)), addr, buf, n) &&
		!t.check.Access(o.far().checked(), addr, uint32(n), false, true) {
		return false
	}
	if t.check != nil && !c.check.WroteL1(o.checked(), t.check, addr, n, buf) {
		return false
	}
	return c.landL1(o, t, addr, n, buf)
}

// landL1 is writeL1 without checks: for responses to the tile's own requests.
func (c *Chip) landL1(o origin, t *tile, addr uint32, n int, buf []uint32) bool {
	if t.writers != nil && word.Differ(t.memory(addr+uint32(n)), addr, buf, n) {
		t.writers.Note(writerOf(o, true), addr, n)
	}
	l1 := t.memory(addr + uint32(n))
	c.keep(t, addr, n)
	if o.tile == nil {
		t.overwrites(addr, n)
	}
	if c.bare {
		t.take(addr, n, buf)
	} else {
		word.Merge(l1, uint64(addr), buf, n)
		t.stored(addr, n)
	}
	t.use(addr, n, true)
	return t.kind != chip.Ethernet || t.eth.told(o, addr, n)
}

// keep notes n bytes of L1 that a tool is about to overwrite, for standStill.
func (s *sched) keep(t *tile, addr uint32, n int) {
	if !s.visited {
		return
	}
	for a := addr &^ 3; a < addr+uint32(n); a += 4 {
		if _, ok := s.kept[keptWord{t, a}]; !ok {
			s.kept[keptWord{t, a}] = t.memory(a + 4)[a>>2]
		}
	}
}

// use notes an access to L1, which has been done.
func (t *tile) use(addr uint32, n int, write bool) {
	if end := addr + uint32(n); t.track != nil && end > FirstL1 {
		addr = max(addr, FirstL1)
		t.track.use(TrackL1Address(t.xy, addr), int(end-addr), t.view(addr, int(end-addr)), write)
	}
}

// readTile reads n bytes at addr of a tile into buf as readL1 does; buf holds word.Span(addr, n)
// words.
func (c *Chip) readTile(o origin, where string, noc int, ep *endpoint, addr uint64, n int, buf []uint32) bool {
	addr = c.aliased(o, ep, addr)
	if o.isHostLoad() && (n != 4 || addr&3 != 0) && !c.cfg.RefuseUnmapped && c.registersAt(ep, addr) {
		for i, at := 0, addr&^3; at < addr+uint64(n); i, at = i+1, at+4 {
			if !c.readTile(o, where, noc, ep, at, 4, buf[i:]) {
				return false
			}
		}
		return true
	}
	if !c.reachable(o, where, ep, addr, n) {
		return false
	}
	if ep.harvested {
		var ok bool
		niu, off, _ := c.harvestedNIU(ep, addr)
		buf[0], ok = c.edgeNIU(o, ep.xy, niu, off)
		return ok
	}
	return c.readReachable(o, where, noc, ep, addr, n, buf)
}

func (c *Chip) readReachable(o origin, where string, noc int, ep *endpoint, addr uint64, n int, buf []uint32) bool {
	mergeTime(c.newestOf(o), c.newestAt(ep))
	switch ep.kind {
	case chip.DRAM:
		if addr >= dramAPBBase && c.wormhole() {
			return c.readDRAMRegister(o, where, ep, addr, n, buf)
		}
		d := c.drams[ep.bank]
		if addr >= d.size {
			return c.readNIU(o, ep, noc, addr, buf)
		}
		if d.known != nil && c.observed == nil {
			if a, unknown := d.unwritten(addr, n); unknown {
				padding := a > addr && addr+uint64(n)-a < 64 && o.core != nil && o.core.Assumes(PaddingUnused)
				if o.isBlockRead(n) || padding {
					defer c.scramble(buf, addr, n, func(a uint64) bool { _, unknown := d.unwritten(a, 4); return unknown })
				} else if d.know(addr, n); !c.flag(o, "unwritten", unpredictable, where, a,
					"read of memory of DRAM controller %d that was never written", ep.bank) {
					return false
				}
			}
		}
		if c.check != nil && !c.check.ReadDRAM(o.checked(), ep.bank, addr, n) {
			return false
		}
		d.read(addr, n, buf)
		if c.track != nil && !o.isHostLoad() {
			c.track.use(TrackAddress(ep.bank, addr), n, buf, false)
		}
		return true
	case chip.PCIe:
		return c.readPCIe(o, where, ep, noc, addr, n, buf)
	case chip.ARC:
		return c.readARC(o, where, noc, addr, n, buf)
	case chip.RouterOnly, chip.Security, chip.L2CPU:
		return c.readNIU(o, ep, noc, addr, buf)
	}
	if addr < ep.tile.bytes() {
		return c.readL1(o, ep.tile, uint32(addr), n, buf) &&
			(ep.tile.check == nil || c.check.ReadL1(o.checked(), ep.tile.check, uint32(addr), n))
	}
	v, st := ep.tile.load(o.far(), uint32(addr))
	buf[0] = v
	return st == slowDone
}

func (c *Chip) writeTile(o origin, where string, noc int, ep *endpoint, addr uint64, n int, buf []uint32) bool {
	addr = c.aliased(o, ep, addr)
	return c.reachable(o, where, ep, addr, n) && c.writeReachable(o, where, ep, addr, n, buf)
}

func (c *Chip) writeReachable(o origin, where string, ep *endpoint, addr uint64, n int, buf []uint32) bool {
	if t := ep.tile; t != nil && addr < t.bytes() {
		mergeTime(&t.newest, c.newestOf(o))
		return c.writeL1(o, t, uint32(addr), n, buf)
	}
	mergeTime(c.newestAt(ep), c.newestOf(o))
	switch ep.kind {
	case chip.DRAM:
		if addr >= dramAPBBase && c.wormhole() {
			return c.refuse(o, unimplemented, where, addr, "store to a DRAM controller's registers")
		}
		d := c.drams[ep.bank]
		if d.known != nil {
			d.know(addr, n)
		}
		if c.check != nil && !c.check.WroteDRAM(o.checked(), ep.bank, addr, n) {
			return false
		}
		d.write(addr, n, buf)
		if c.track != nil {
			now := make([]uint32, word.Span(addr, n))
			d.read(addr, n, now)
			c.track.use(TrackAddress(ep.bank, addr), n, now, true)
		}
		return true
	case chip.PCIe:
		return c.writePCIe(o, where, ep, addr, n, buf)
	case chip.ARC:
		return c.writeARC(o, where, addr, n, buf)
	}
	return ep.tile.store(o.far(), uint32(addr), buf[0]) == slowDone
}

func (c *Chip) readDRAMRegister(o origin, where string, ep *endpoint, addr uint64, n int, buf []uint32) bool {
	off := addr - dramAPBBase
	if n != 4 || off&3 != 0 {
		return c.refuse(o, undefined, where, addr, "%d bytes of a DRAM controller's registers: want 4, aligned", n)
	}
	ok := o.isHostLoad()
	buf[0] = 0
	if off >= 0x80000 && off < 0xB0000 {
		buf[0], ok = c.edgeNIU(o, ep.xy, int(off/0x8000%2), off%0x8000)
	}
	if !ok {
		c.refuse(o, unimplemented, where, addr, "DRAM controller register %#x", off)
	}
	return ok
}

// Cores of a round begin at the same time and run one after another, so a core could read an
// earlier clock than another core whose data it has. The chip therefore keeps the newest clock read
// for each tile, DRAM controller and the host; it moves with data, and a reader of a clock sees a
// later time.

// wallClock is what o reads as the tile's clock. A core that reads ahead of its slice stays ahead
// for the rest of it.
func (t *tile) wallClock(o origin) uint64 {
	now, reader := t.chip.now(o), t.chip.newestOf(o)
	later := max(now, t.newest+1, *reader+1)
	if o.core == nil {
		later = max(later, now+uint64(t.chip.longest))
	} else {
		later = max(later, now+o.core.ahead)
		o.core.ahead = later - now
	}
	t.newest, *reader = later, later
	return later
}

func (c *Chip) newestAt(ep *endpoint) *uint64 {
	switch {
	case ep.tile != nil:
		return &ep.tile.newest
	case ep.kind == chip.DRAM:
		return &c.drams[ep.bank].newest
	}
	return &c.newest
}

func (c *Chip) newestOf(o origin) *uint64 {
	if o.tile != nil {
		return &o.tile.newest
	}
	return &c.newest
}

func mergeTime(to, from *uint64) { *to = max(*to, *from) }
