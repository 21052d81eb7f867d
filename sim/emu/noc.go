package emu

import (
	"math/bits"

	"github.com/reprise-tt/reprise/chip"
)

// endpoint is what lies at a raw coordinate of the grid.
type endpoint struct {
	xy        chip.XY
	kind      chip.TileKind
	tile      *tile // Tensix and Ethernet
	bank      int   // DRAM controller
	harvested bool
}

// Bits of NOC_CTRL (tt-isa-documentation WormholeB0/NoC/MemoryMap.md).
const (
	ctrlAtomic      = 1 << 0
	ctrlWrite       = 1 << 1
	ctrlByteEnable  = 1 << 2
	ctrlInline      = 1 << 3
	ctrlMarked      = 1 << 4
	ctrlBroadcast   = 1 << 5
	ctrlLinked      = 1 << 6
	ctrlStaticVC    = 1 << 7
	ctrlPathReserve = 1 << 8
	ctrlSrcInclude  = 1 << 17
)

type requestKind uint8

const (
	reqRead requestKind = iota
	reqWrite
	reqInline
	reqAtomic
)

// request is a NoC request between the store that starts it and its last response.
type request struct {
	o         origin
	tile      *tile // that started it
	noc       int
	buf       int
	kind      requestKind
	marked    bool // non-posted
	multicast bool
	ordered   bool // keeps its place among requests on the same virtual channel to the same target
	vc        uint8
	id        uint32

	from     *endpoint // read: the source
	to       *endpoint // write, inline, atomic: the target, unless multicast
	rect     [4]uint8  // multicast: x0, y0, x1, y1, raw NoC 0, in ascending order
	include  bool
	fromAddr uint64
	toAddr   uint64
	n        int
	word     uint32 // inline and atomic
	op       uint32 // atomic: LEN_BE
	data     []uint32
	acks     int
	away     bool    // at another card, whose answer a copy of it waits for
	flight   *flight // with Config.RefuseRaces
	by       *stamp  // the same
}

// words is the number of flits that carry the request's data.
func (q *request) words() uint32 {
	flit := int(q.tile.chip.params.NOCWord)
	return uint32((q.n + flit - 1) / flit)
}

// posted is 1 for a posted request: the offset from a non-posted counter to its posted neighbour.
func (q *request) posted() uint32 { return b2u(!q.marked) }

// resolve finds the tile that software means with a coordinate on a NoC.
func (c *Chip) resolve(o origin, where string, noc int, coord uint32) *endpoint {
	if coord > 0xFFF {
		c.refuse(o, UnsupportedFunctionality, where, uint64(coord), "coordinate %#x has bits beyond x and y", coord)
		return nil
	}
	v := chip.XY{X: uint8(coord & 63), Y: uint8(coord >> 6)}
	raw, err := c.topology.Translate(chip.NOC(noc), v)
	if err != nil {
		c.refuse(o, UnimplementedFunctionality, where, uint64(coord), "coordinate %v: %v", v, err)
		return nil
	}
	return &c.grid[raw.Y][raw.X]
}

// start begins the request in command buffer i: it checks everything that can be checked before anything moves.
func (t *tile) start(o origin, noc, i int) slowResult {
	c, u := t.chip, &t.niu[noc]
	b := &u.buf[i]
	q := &c.request
	*q = request{o: o, tile: t, noc: noc, buf: i, id: b.tag >> 10 & 15, data: q.data[:0]}
	if !t.prepare(b, q) || !u.follow(q, b.ctrl&ctrlLinked != 0) {
		return slowHalt
	}
	if t.races != nil {
		var ok bool
		if q.flight, ok = t.races.started(q); !ok || !c.edges.starts(q) {
			return slowHalt
		}
	}
	u.unread |= 1 << q.id
	u.unsent |= 1 << q.id
	if q.kind == reqRead || q.marked {
		if u.open[q.id]++; u.open[q.id] > 255 {
			c.refuse(o, UndefinedBehavior, "noc", q.toAddr, "more than 255 requests with transaction id %d are unanswered: its counter has 8 bits", q.id)
			return slowHalt
		}
		u.bump8(cntOutstanding+q.id, 1)
	}
	if q.kind == reqWrite {
		u.bump8(cntOutgoing+q.id, 1)
	}
	if c.cfg.Delay > 0 {
		b.busy = true
		c.delay(q)
		return slowDone
	}
	q.accept()
	if !q.leave() || !q.drain() || !q.arrive() || !q.away && !q.respond() {
		return slowHalt
	}
	return slowDone
}

// follow checks that a request goes where the unfinished transaction before it went, and notes whether it ends it. On
// silicon the NoC fails otherwise (tt-isa-documentation WormholeB0/NoC/MemoryMap.md).
func (u *niu) follow(q *request, linked bool) bool {
	l := link{to: q.to, rect: q.rect}
	if q.kind == reqRead {
		l.to = q.from
	}
	if u.linked != nil && *u.linked != l {
		q.tile.chip.refuse(q.o, UndefinedBehavior, "noc", q.toAddr,
			"a transaction was begun with VC_LINKED, and this request, which belongs to it, goes elsewhere")
		return false
	}
	switch {
	case !linked:
		u.linked = nil
	case u.linked == nil:
		u.linked = &l
	}
	return true
}

// bump8 adds to a counter of 8 bits.
func (u *niu) bump8(i, by uint32) { u.count[i] = (u.count[i] + by) & 0xFF }

// prepare fills in q from the command buffer, or refuses it. The rules are those of tt-isa-documentation
// WormholeB0/NoC/MemoryMap.md and Alignment rules of metal's noc_parameters.h, as ttsim checks them
// (src/tile.cpp).
func (t *tile) prepare(b *cmdBuf, q *request) bool {
	c := t.chip
	bad := func(cat Category, addr uint64, format string, args ...any) bool {
		c.refuse(q.o, cat, "noc", addr, format, args...)
		return false
	}
	ctrl := b.ctrl
	if no, cat := ctrlRefused(ctrl); no != "" {
		return bad(cat, uint64(ctrl), "NOC_CTRL = %#x: %s", ctrl, no)
	}
	q.multicast = ctrl&ctrlBroadcast != 0
	q.marked = ctrl&ctrlMarked != 0
	q.include = ctrl&ctrlSrcInclude != 0
	q.ordered = ctrl&ctrlStaticVC != 0
	q.vc = uint8(ctrl >> 13 & 7)

	targ, ret := uint64(b.targMid)<<32|uint64(b.targLo), uint64(b.retMid)<<32|uint64(b.retLo)
	targXY, retXY := b.targHi, b.retHi
	if c.arch == chip.Wormhole {
		targXY, retXY = uint32(targ>>36), uint32(ret>>36)
		targ, ret = targ&(1<<36-1), ret&(1<<36-1)
	}
	cornerXY := retXY
	if q.multicast {
		cornerXY, retXY = retXY>>12, retXY&0xFFF
	}
	targEP := c.resolve(q.o, "noc TARG coordinate", q.noc, targXY)
	if targEP == nil {
		return false
	}
	retEP := c.resolve(q.o, "noc RET coordinate", q.noc, retXY)
	if retEP == nil {
		return false
	}
	corner := retEP
	if q.multicast {
		if corner = c.resolve(q.o, "noc RET start corner", q.noc, cornerXY); corner == nil {
			return false
		}
	}
	q.n = int(b.lenBE)
	own := func(ep *endpoint, what string, addr uint64) bool {
		return ep.tile == t || bad(UnimplementedFunctionality, addr, "%s coordinate is %v: it must be the tile's own", what, ep.xy)
	}
	length := func() bool {
		return b.lenBE >= 1 && b.lenBE <= c.params.MaxBurst ||
			bad(UnsupportedFunctionality, uint64(b.lenBE), "length %d: want 1 to %d", b.lenBE, c.params.MaxBurst)
	}
	inL1 := func(what string, addr uint64) bool {
		return addr+uint64(q.n) <= t.bytes() && addr < t.bytes() ||
			bad(UnsupportedFunctionality, addr, "%s of %d bytes at %#x reaches beyond L1", what, q.n, addr)
	}
	aligned := func(cat Category, mask uint64) bool {
		return targ&mask == ret&mask ||
			bad(cat, targ, "source %#x and destination %#x differ in their low bits %#x", targ, ret, mask)
	}
	switch {
	case q.multicast:
		q.kind, q.fromAddr, q.toAddr = reqWrite, targ, ret
		if !length() || !own(targEP, "TARG", targ) || !inL1("source", targ) {
			return false
		}
		if l1 := uint64(c.params.L1Size); ret < l1 {
			if ret+uint64(q.n) > l1 {
				return bad(UnsupportedFunctionality, ret, "multicast of %d bytes to %#x reaches beyond L1", q.n, ret)
			}
		} else if q.n != 4 {
			return bad(UnsupportedFunctionality, ret, "multicast of %d bytes to registers: want 4", q.n)
		} else if ret&3 != 0 {
			return bad(UnimplementedFunctionality, ret, "multicast to a register at an address that is not a multiple of 4")
		}
		return aligned(UnimplementedFunctionality, 15) && c.rectangle(q, corner.xy, retEP.xy)
	case ctrl&ctrlAtomic != 0:
		q.kind, q.to, q.toAddr, q.fromAddr = reqAtomic, targEP, targ, ret
		q.word, q.op, q.n = b.data, b.lenBE, 4
		return own(retEP, "RET", ret) && c.checkAtomic(q)
	case ctrl&ctrlInline != 0:
		q.kind, q.to, q.toAddr, q.word, q.n = reqInline, targEP, targ, b.data, 4
		if targEP.tile == nil {
			return bad(UnimplementedFunctionality, targ, "inline write to a %v tile: only Tensix and Ethernet tiles take them", targEP.kind)
		}
		return own(retEP, "RET", ret) && c.checkInline(q, b.lenBE)
	case ctrl&ctrlWrite != 0:
		q.kind, q.to, q.fromAddr, q.toAddr = reqWrite, retEP, targ, ret
		if !length() || !own(targEP, "TARG", targ) || !inL1("source", targ) || !aligned(UndefinedBehavior, 15) {
			return false
		}
		if c.arch == chip.Wormhole && q.marked && q.id != 0 && (retEP.kind == chip.PCIe || retEP.kind == chip.ARC) {
			return bad(UndefinedBehavior, ret, "non-posted write to the %v tile with transaction id %d: only id 0 works", retEP.kind, q.id)
		}
		return c.reachable(q.o, "noc write", retEP, ret, q.n)
	}
	q.kind, q.from, q.fromAddr, q.toAddr = reqRead, targEP, targ, ret
	if !length() || !own(retEP, "RET", ret) || !inL1("destination", ret) {
		return false
	}
	a := &c.params.Align
	switch {
	case targEP.kind == chip.DRAM && !(c.arch == chip.Wormhole && targ >= dramAPBBase):
		if !aligned(UndefinedBehavior, uint64(a.DRAMRead)-1) {
			return false
		}
	case targEP.kind == chip.PCIe:
		if !aligned(UndefinedBehavior, uint64(a.PCIeRead)-1) {
			return false
		}
	case targ >= localBase:
		if uint32(q.n) > 4-uint32(ret&3) {
			return bad(UnimplementedFunctionality, targ, "read of %d bytes of registers to %#x: want 4, aligned", q.n, ret)
		}
		if !aligned(UndefinedBehavior, 3) {
			return false
		}
	default:
		if !aligned(UndefinedBehavior, 15) {
			return false
		}
	}
	return c.reachable(q.o, "noc read", targEP, targ, q.n)
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

// rectangle checks the corners of a multicast. On NoC 1, which runs the other way, software swaps them.
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
				c.refuse(q.o, UndefinedBehavior, "noc multicast", q.toAddr, "the rectangle holds %v, which is harvested, and the router does not leave it out", ep.xy)
				return false
			}
		}
	}
	return true
}

// each visits the tiles of a multicast.
func (q *request) each(f func(*endpoint) bool) bool {
	c := q.tile.chip
	u := &q.tile.niu[q.noc]
	for y := q.rect[1]; y <= q.rect[3]; y++ {
		for x := q.rect[0]; x <= q.rect[2]; x++ {
			if u.router[1]>>x&1 != 0 || u.router[3]>>y&1 != 0 {
				continue
			}
			ep := &c.grid[y][x]
			if ep.tile == q.tile && !q.include {
				continue
			}
			if !f(ep) {
				return false
			}
		}
	}
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
