package emu

import (
	"math/bits"

	"github.com/reprise-tt/reprise/chip"
)

// prepare fills in q from the command buffer, or refuses it. The rules are those of
// tt-isa-documentation WormholeB0/NoC/MemoryMap.md and Alignment rules of metal's noc_parameters.h,
// as ttsim checks them (src/tile.cpp).
func (t *tile) prepare(b *cmdBuf, q *request) bool {
	ctrl := b[bufCtrl]
	if no, cat := ctrlRefused(ctrl); no != "" {
		return q.refuse(cat, uint64(ctrl), "NOC_CTRL = %#x: %s", ctrl, no)
	}
	q.multicast = ctrl&ctrlBroadcast != 0
	q.marked = ctrl&ctrlMarked != 0
	q.include = ctrl&ctrlSrcInclude != 0
	q.ordered = ctrl&ctrlStaticVC != 0
	q.vc = uint8(ctrl >> 13 & 7)
	q.n = int(b[bufLenBE])

	targ, ret, corner, ok := q.ends(b)
	switch {
	case !ok:
		return false
	case q.multicast:
		return q.prepareMulticast(targ, ret, corner)
	case ctrl&ctrlAtomic != 0:
		return q.prepareAtomic(targ, ret, b)
	case ctrl&ctrlInline != 0:
		return q.prepareInline(targ, ret, b)
	case ctrl&ctrlWrite != 0:
		return q.prepareWrite(targ, ret)
	}
	return q.prepareRead(targ, ret)
}

// place is an address at a tile, as a command buffer names it.
type place struct {
	ep   *endpoint
	addr uint64
}

// ends finds what the TARG and RET registers name, and the first corner of a multicast.
func (q *request) ends(b *cmdBuf) (targ, ret place, corner *endpoint, ok bool) {
	c := q.tile.chip
	targ.addr, ret.addr = uint64(b[bufTargMid])<<32|uint64(b[bufTargLo]), uint64(b[bufRetMid])<<32|uint64(b[bufRetLo])
	targXY, retXY := b[bufTargHi], b[bufRetHi]
	if c.arch == chip.Wormhole {
		targXY, retXY = uint32(targ.addr>>36), uint32(ret.addr>>36)
		targ.addr, ret.addr = targ.addr&(1<<36-1), ret.addr&(1<<36-1)
	}
	cornerXY := retXY
	if q.multicast {
		cornerXY, retXY = retXY>>12, retXY&0xFFF
	}
	if targ.ep = c.resolve(q.o, "noc TARG coordinate", q.noc, targXY); targ.ep == nil {
		return targ, ret, nil, false
	}
	if ret.ep = c.resolve(q.o, "noc RET coordinate", q.noc, retXY); ret.ep == nil {
		return targ, ret, nil, false
	}
	if !q.multicast {
		return targ, ret, nil, true
	}
	corner = c.resolve(q.o, "noc RET start corner", q.noc, cornerXY)
	return targ, ret, corner, corner != nil
}

// refuse refuses the request and returns false.
func (q *request) refuse(cat Category, addr uint64, format string, args ...any) bool {
	q.tile.chip.refuse(q.o, cat, "noc", addr, format, args...)
	return false
}

// checkOwn refuses a place, called what, that isn't at the request's own tile.
func (q *request) checkOwn(p place, what string) bool {
	return p.ep.tile == q.tile ||
		q.refuse(UnimplementedFunctionality, p.addr, "%s coordinate is %v: it must be the tile's own", what, p.ep.xy)
}

// checkLength refuses a length that no burst may have.
func (q *request) checkLength() bool {
	most := q.tile.chip.params.MaxBurst
	return q.n >= 1 && uint32(q.n) <= most ||
		q.refuse(UnsupportedFunctionality, uint64(q.n), "length %d: want 1 to %d", q.n, most)
}

// checkL1 refuses memory of the request's own tile, called what, that isn't all in its L1.
func (q *request) checkL1(what string, addr uint64) bool {
	l1 := q.tile.bytes()
	return addr+uint64(q.n) <= l1 && addr < l1 ||
		q.refuse(UnsupportedFunctionality, addr, "%s of %d bytes at %#x reaches beyond L1", what, q.n, addr)
}

// checkAligned refuses addresses that differ in the bits of a mask.
func (q *request) checkAligned(cat Category, targ, ret place, mask uint64) bool {
	return targ.addr&mask == ret.addr&mask ||
		q.refuse(cat, targ.addr, "source %#x and destination %#x differ in their low bits %#x", targ.addr, ret.addr, mask)
}

// prepareMulticast prepares a write of L1 to a rectangle of tiles, from the corner to the one that
// ret names.
func (q *request) prepareMulticast(targ, ret place, corner *endpoint) bool {
	c := q.tile.chip
	q.kind, q.fromAddr, q.toAddr = reqWrite, targ.addr, ret.addr
	if !q.checkLength() || !q.checkOwn(targ, "TARG") || !q.checkL1("source", targ.addr) {
		return false
	}
	switch l1 := uint64(c.params.L1Size); {
	case ret.addr < l1:
		if ret.addr+uint64(q.n) > l1 {
			return q.refuse(UnsupportedFunctionality, ret.addr, "multicast of %d bytes to %#x reaches beyond L1", q.n, ret.addr)
		}
	case q.n != 4:
		return q.refuse(UnsupportedFunctionality, ret.addr, "multicast of %d bytes to registers: want 4", q.n)
	case ret.addr&3 != 0:
		return q.refuse(UnimplementedFunctionality, ret.addr, "multicast to a register at an address that is not a multiple of 4")
	}
	return q.checkAligned(UnimplementedFunctionality, targ, ret, 15) && c.rectangle(q, corner.xy, ret.ep.xy)
}

// prepareAtomic prepares an atomic at targ whose old value goes to ret.
func (q *request) prepareAtomic(targ, ret place, b *cmdBuf) bool {
	q.kind, q.to, q.toAddr, q.fromAddr = reqAtomic, targ.ep, targ.addr, ret.addr
	q.word, q.op, q.n = b[bufData], b[bufLenBE], 4
	return q.checkOwn(ret, "RET") && q.tile.chip.checkAtomic(q)
}

// prepareInline prepares a write of the command buffer's own word to targ.
func (q *request) prepareInline(targ, ret place, b *cmdBuf) bool {
	q.kind, q.to, q.toAddr, q.word, q.n = reqInline, targ.ep, targ.addr, b[bufData], 4
	if targ.ep.tile == nil {
		return q.refuse(UnimplementedFunctionality, targ.addr, "inline write to a %v tile: only Tensix and Ethernet tiles take them",
			targ.ep.kind)
	}
	return q.checkOwn(ret, "RET") && q.tile.chip.checkInline(q, b[bufLenBE])
}

// prepareWrite prepares a write of L1 at targ to ret.
func (q *request) prepareWrite(targ, ret place) bool {
	c := q.tile.chip
	q.kind, q.to, q.fromAddr, q.toAddr = reqWrite, ret.ep, targ.addr, ret.addr
	if !q.checkLength() || !q.checkOwn(targ, "TARG") || !q.checkL1("source", targ.addr) || !q.checkAligned(UndefinedBehavior, targ, ret, 15) {
		return false
	}
	if c.arch == chip.Wormhole && q.marked && q.id != 0 && (ret.ep.kind == chip.PCIe || ret.ep.kind == chip.ARC) {
		return q.refuse(UndefinedBehavior, ret.addr, "non-posted write to the %v tile with transaction id %d: only id 0 works", ret.ep.kind, q.id)
	}
	return c.reachable(q.o, "noc write", ret.ep, ret.addr, q.n)
}

// prepareRead prepares a read of targ to L1 at ret.
func (q *request) prepareRead(targ, ret place) bool {
	c := q.tile.chip
	q.kind, q.from, q.fromAddr, q.toAddr = reqRead, targ.ep, targ.addr, ret.addr
	if !q.checkLength() || !q.checkOwn(ret, "RET") || !q.checkL1("destination", ret.addr) {
		return false
	}
	mask := uint64(15)
	switch a := &c.params.Align; {
	case targ.ep.kind == chip.DRAM && !(c.arch == chip.Wormhole && targ.addr >= dramAPBBase):
		mask = uint64(a.DRAMRead) - 1
	case targ.ep.kind == chip.PCIe:
		mask = uint64(a.PCIeRead) - 1
	case targ.addr >= localBase:
		if uint32(q.n) > 4-uint32(ret.addr&3) {
			return q.refuse(UnimplementedFunctionality, targ.addr, "read of %d bytes of registers to %#x: want 4, aligned", q.n, ret.addr)
		}
		mask = 3
	}
	return q.checkAligned(UndefinedBehavior, targ, ret, mask) && c.reachable(q.o, "noc read", targ.ep, targ.addr, q.n)
}

// ctrlRefused returns why a value of NOC_CTRL is refused, or "".
func ctrlRefused(v uint32) (string, Category) {
	const unimplemented, unsupported = UnimplementedFunctionality, UnsupportedFunctionality
	switch {
	case v&ctrlByteEnable != 0:
		return "byte-enable writes are not emulated", unimplemented
	case v&(1<<9) != 0:
		return "RD_DROP_ACK is not emulated", unimplemented
	case v&(7<<10) != 0, v&(0x1FF<<18) != 0:
		return "reserved bits are set", unsupported
	case v&(1<<16) != 0:
		return "Y-major multicast is not emulated", unimplemented
	case v&(15<<27) != 0:
		return "arbitration priorities are not emulated", unimplemented
	case v&(1<<31) != 0:
		return "L1 accumulation is not emulated", unsupported
	}
	if v&ctrlBroadcast != 0 {
		switch {
		case v&ctrlAtomic != 0:
			return "multicast atomics are not emulated", unimplemented
		case v&ctrlWrite == 0:
			return "a read cannot be multicast", unsupported
		case v&ctrlInline != 0:
			return "multicast inline writes are not emulated", unimplemented
		case v&ctrlPathReserve == 0:
			return "a multicast must reserve its path", unimplemented
		}
		return "", 0
	}
	switch {
	case v&ctrlPathReserve != 0:
		return "a unicast must not reserve a path", unimplemented
	case v&ctrlSrcInclude != 0:
		return "SRC_INCLUDE is for multicasts", unimplemented
	case v&ctrlAtomic != 0 && v&ctrlWrite != 0:
		return "type 3 is reserved", unsupported
	case v&(ctrlAtomic|ctrlWrite) == 0 && v&ctrlInline != 0:
		return "a read cannot be inline", unimplemented
	case v&(ctrlAtomic|ctrlWrite) == 0 && v&ctrlMarked == 0:
		return "a read needs RESP_MARKED", unimplemented
	}
	return "", 0
}

// rectangle checks the corners of a multicast. On NoC 1, which runs the other way, software swaps
// them.
func (c *Chip) rectangle(q *request, start, end chip.XY) bool {
	if q.noc == 1 {
		start, end = end, start
	}
	if start.X > end.X || start.Y > end.Y {
		c.refuse(q.o, UnimplementedFunctionality, "noc multicast", q.toAddr,
			"rectangle from %v to %v (raw NoC 0) runs against NoC %d: swap its corners", start, end, q.noc)
		return false
	}
	q.rect = [4]uint8{start.X, start.Y, end.X, end.Y}
	u := &q.tile.niu[q.noc]
	if u.recipients != nil && u.recipients.rect == q.rect {
		return true
	}
	to := &recipients{rect: q.rect}
	for y := start.Y; y <= end.Y; y++ {
		for x := start.X; x <= end.X; x++ {
			if u.router[1]>>x&1 != 0 || u.router[3]>>y&1 != 0 {
				continue
			}
			ep := &c.grid[y][x]
			if ep.kind != chip.Tensix {
				c.refuse(q.o, UnimplementedFunctionality, "noc multicast", q.toAddr, "the rectangle holds %v, a %v tile", ep.xy, ep.kind)
				return false
			}
			if ep.harvested {
				c.refuse(q.o, UndefinedBehavior, "noc multicast", q.toAddr,
					"the rectangle holds %v, which is harvested, and the router does not leave it out", ep.xy)
				return false
			}
			if ep.tile != q.tile {
				to.tiles = append(to.tiles, ep.tile)
			}
		}
	}
	u.recipients = to
	return true
}

// checkAtomic checks an atomic: L1 only, and an offset that agrees with the address
// (tt-isa-documentation WormholeB0/NoC/Atomics.md).
func (c *Chip) checkAtomic(q *request) bool {
	bad := func(cat Category, addr uint64, format string, args ...any) bool {
		c.refuse(q.o, cat, "noc atomic", addr, format, args...)
		return false
	}
	switch {
	case q.to.tile == nil:
		return bad(UnimplementedFunctionality, q.toAddr, "atomic on a %v tile: atomics work on L1 only", q.to.kind)
	case q.toAddr&3 != 0:
		return bad(UnimplementedFunctionality, q.toAddr, "TARG address of an atomic is not a multiple of 4")
	case q.fromAddr&3 != 0:
		return bad(UnimplementedFunctionality, q.fromAddr, "RET address of an atomic is not a multiple of 4")
	case q.fromAddr >= q.tile.bytes():
		return bad(UnsupportedFunctionality, q.fromAddr, "RET address of an atomic is beyond L1")
	}
	if !c.reachable(q.o, "noc atomic", q.to, q.toAddr, 4) {
		return false
	}
	if q.toAddr >= q.to.tile.bytes() {
		return bad(UndefinedBehavior, q.toAddr, "atomic on a register: atomics work on L1 only")
	}
	ofs := uint32(q.toAddr >> 2 & 3)
	switch q.op >> 12 & 15 {
	case atomicIncrement, atomicCompareSwap, atomicSwapIndex6:
		if q.op&3 != ofs {
			return bad(UndefinedBehavior, q.toAddr, "atomic %#x: offset %d, but the address is word %d of its line", q.op, q.op&3, ofs)
		}
	case atomicSwapIndex7:
		if q.op>>2&3 != ofs {
			return bad(UndefinedBehavior, q.toAddr, "atomic %#x: offset %d, but the address is word %d of its line", q.op, q.op>>2&3, ofs)
		}
	case atomicSwapMask:
	default:
		return bad(UnimplementedFunctionality, q.toAddr, "atomic %#x: opcode %d is not emulated", q.op, q.op>>12&15)
	}
	return true
}

// Opcodes of atomics.
const (
	atomicIncrement   = 1
	atomicSwapMask    = 3
	atomicCompareSwap = 4
	atomicSwapIndex6  = 6
	atomicSwapIndex7  = 7
)

func (c *Chip) checkInline(q *request, be uint32) bool {
	bad := func(cat Category, format string, args ...any) bool {
		c.refuse(q.o, cat, "noc inline write", q.toAddr, format, args...)
		return false
	}
	if q.toAddr >= localBase {
		if q.toAddr&3 != 0 {
			return bad(UnimplementedFunctionality, "the register address is not a multiple of 4")
		}
		return c.reachable(q.o, "noc inline write", q.to, q.toAddr, 4)
	}
	if c.arch == chip.Blackhole {
		return bad(UndefinedBehavior, "inline writes to L1 are unsafe on Blackhole: write through scratch memory instead")
	}
	if be == 0 {
		return bad(UnimplementedFunctionality, "no byte is enabled")
	}
	shift := uint32(bits.TrailingZeros32(be))
	if be>>shift != 15 || shift&3 != 0 {
		return bad(UnimplementedFunctionality, "byte mask %#x: want four bytes of one word", be)
	}
	if uint32(q.toAddr&15) != shift&15 {
		return bad(UnimplementedFunctionality, "byte mask %#x does not agree with the address", be)
	}
	return c.reachable(q.o, "noc inline write", q.to, q.toAddr, 4)
}
