package emu

import (
	"math/bits"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
)

type place struct {
	ep   *endpoint
	addr uint64
}

// prepare fills in the request from its command buffer, or refuses it as ttsim does (src/tile.cpp;
// tt-isa-documentation WormholeB0/NoC/MemoryMap.md, metal noc_parameters.h).
func (q *request) prepare(b *cmdBuf) bool {
	ctrl := b[bufCtrl]
	q.marked = ctrl&ctrlMarked != 0
	q.ordered = ctrl&ctrlStaticVC != 0
	q.linked = ctrl&ctrlLinked != 0
	q.vc = uint8(ctrl >> 13 & 7)
	q.n, q.id = int(b[bufLenBE]), b[bufTag]>>10&15
	q.multicast, q.include, q.away, q.acks = false, false, false, 0
	q.from, q.to, q.rect, q.flight = nil, nil, [4]uint8{}, nil

	targ, ret, targXY, retXY := q.tile.chip.ends(b)
	kind := ctrl &^ (ctrlMarked | ctrlStaticVC | ctrlLinked | ctrlVC)
	switch kind {
	case 0, ctrlWrite, ctrlWrite | ctrlInline, ctrlAtomic, ctrlAtomic | ctrlInline:
		if q.marked || kind != 0 {
			break
		}
		fallthrough
	default:
		if no, cat := ctrlRefused(ctrl); no != "" {
			return q.refuse(cat, uint64(ctrl), "NOC_CTRL = %#x: %s", ctrl, no)
		}
		q.multicast, q.include = true, kind&ctrlSrcInclude != 0
	}
	at := q.resolve("noc TARG coordinate", targXY)
	if at == nil {
		return false
	}
	if q.multicast {
		q.kind, q.fromAddr, q.toAddr = reqWrite, targ, ret
		return q.prepareMulticast(at, retXY)
	}
	back := q.resolve("noc RET coordinate", retXY)
	if back == nil {
		return false
	}
	own := place{back, ret}
	switch kind {
	case 0:
		q.kind, q.from, q.fromAddr, q.toAddr = reqRead, at, targ, ret
		return q.prepareRead(back)
	case ctrlWrite:
		q.kind, q.to, q.fromAddr, q.toAddr = reqWrite, back, targ, ret
		return q.prepareWrite(at)
	case ctrlWrite | ctrlInline:
		q.kind, q.to, q.toAddr, q.word, q.n = reqInline, at, targ, b[bufData], 4
		return q.prepareInline(own, b[bufLenBE])
	}
	q.kind, q.to, q.toAddr, q.fromAddr, q.word, q.op, q.n = reqAtomic, at, targ, ret, b[bufData], b[bufLenBE], 4
	return q.checkOwn(own, "RET") && q.tile.chip.checkAtomic(q)
}

func (c *Chip) ends(b *cmdBuf) (targ, ret uint64, targXY, retXY uint32) {
	targ, ret = uint64(b[bufTargMid])<<32|uint64(b[bufTargLo]), uint64(b[bufRetMid])<<32|uint64(b[bufRetLo])
	if c.wormhole() {
		return targ & (1<<36 - 1), ret & (1<<36 - 1), uint32(targ >> 36), uint32(ret >> 36)
	}
	return targ, ret, b[bufTargHi], b[bufRetHi]
}

func (q *request) resolve(where string, coord uint32) *endpoint {
	if ep := q.tile.chip.known(q.noc, coord); ep != nil {
		return ep
	}
	return q.tile.chip.resolve(q.o, where, q.noc, coord)
}

func (q *request) refuse(cat Category, addr uint64, format string, args ...any) bool {
	return q.tile.chip.refuse(q.o, cat, "noc", addr, format, args...)
}

// checkOwn refuses an end of the request that isn't at its own tile.
func (q *request) checkOwn(p place, what string) bool {
	return p.ep.tile == q.tile ||
		q.refuse(unimplemented, p.addr, "%s coordinate is %v: it must be the tile's own", what, p.ep.xy)
}

// fits refuses lengths that no burst has, and an own end, of the name of its registers, outside L1.
func (q *request) fits(own place, what, name string) bool {
	most, l1, n := uint64(q.tile.chip.params.MaxBurst), q.tile.bytes(), uint64(q.n)
	switch {
	case n-1 < most && own.ep.tile == q.tile && own.addr < l1 && own.addr+n <= l1:
		return true
	case n-1 >= most:
		return q.refuse(unsupported, n, "length %d: want 1 to %d", n, most)
	}
	return q.checkOwn(own, name) &&
		q.refuse(unsupported, own.addr, "%s of %d bytes at %#x reaches beyond L1", what, n, own.addr)
}

func (q *request) aligned(cat Category, mask uint64) bool {
	return (q.fromAddr^q.toAddr)&mask == 0 ||
		q.refuse(cat, q.fromAddr, "source %#x and destination %#x differ in their low bits %#x", q.fromAddr, q.toAddr, mask)
}

func (q *request) prepareMulticast(own *endpoint, corners uint32) bool {
	end := q.resolve("noc RET coordinate", corners&0xFFF)
	if end == nil {
		return false
	}
	start := q.resolve("noc RET start corner", corners>>12)
	if start == nil || !q.fits(place{own, q.fromAddr}, "source", "TARG") {
		return false
	}
	c := q.tile.chip
	switch l1 := uint64(c.params.L1Size); {
	case q.toAddr < l1:
		if q.toAddr+uint64(q.n) > l1 {
			return q.refuse(unsupported, q.toAddr, "multicast of %d bytes to %#x reaches beyond L1", q.n, q.toAddr)
		}
	case q.n != 4:
		return q.refuse(unsupported, q.toAddr, "multicast of %d bytes to registers: want 4", q.n)
	case q.toAddr&3 != 0:
		return q.refuse(unimplemented, q.toAddr, "multicast to a register at an address that is not a multiple of 4")
	}
	return q.aligned(unimplemented, 15) && c.rectangle(q, start.xy, end.xy)
}

func (q *request) prepareInline(own place, be uint32) bool {
	if q.to.tile == nil {
		return q.refuse(unimplemented, q.toAddr, "inline write to a %v tile: only Tensix and Ethernet tiles take them", q.to.kind)
	}
	return q.checkOwn(own, "RET") && q.tile.chip.checkInline(q, be)
}

func (q *request) prepareWrite(own *endpoint) bool {
	c := q.tile.chip
	if !q.fits(place{own, q.fromAddr}, "source", "TARG") || !q.aligned(undefined, 15) {
		return false
	}
	if c.wormhole() && q.marked && q.id != 0 && (q.to.kind == chip.PCIe || q.to.kind == chip.ARC) {
		return q.refuse(undefined, q.toAddr, "non-posted write to the %v tile with transaction id %d: only id 0 works", q.to.kind, q.id)
	}
	return c.reachable(q.o, "noc write", q.to, q.toAddr, q.n)
}

func (q *request) prepareRead(own *endpoint) bool {
	c := q.tile.chip
	if !q.fits(place{own, q.toAddr}, "destination", "RET") {
		return false
	}
	mask := uint64(15)
	switch a := &c.params.Align; {
	case q.from.kind == chip.DRAM && !(c.wormhole() && q.fromAddr >= dramAPBBase):
		mask = uint64(a.DRAMRead) - 1
	case q.from.kind == chip.PCIe:
		mask = uint64(a.PCIeRead) - 1
	case q.fromAddr >= localBase:
		if uint32(q.n) > 4-uint32(q.toAddr&3) {
			return q.refuse(unimplemented, q.fromAddr, "read of %d bytes of registers to %#x: want 4, aligned", q.n, q.toAddr)
		}
		mask = 3
	}
	return q.aligned(undefined, mask) && c.reachable(q.o, "noc read", q.from, q.fromAddr, q.n)
}

// ctrlRefused returns why a NOC_CTRL value is refused, or "".
func ctrlRefused(v uint32) (string, Category) {
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

// rectangle resolves a multicast. Software swaps its corners on NoC 1, which runs the other way.
func (c *Chip) rectangle(q *request, start, end chip.XY) bool {
	if q.noc == 1 {
		start, end = end, start
	}
	if start.X > end.X || start.Y > end.Y {
		return c.refuse(q.o, unimplemented, "noc multicast", q.toAddr,
			"rectangle from %v to %v (raw NoC 0) runs against NoC %d: swap its corners", start, end, q.noc)
	}
	q.rect = [4]uint8{start.X, start.Y, end.X, end.Y}
	u := q.niu
	if to := u.recipients; to != nil && to.rect == q.rect && to.include == q.include {
		q.targets = to.tiles
		return true
	}
	to := &recipients{rect: q.rect, include: q.include}
	for y := start.Y; y <= end.Y; y++ {
		for x := start.X; x <= end.X; x++ {
			if u.router[1]>>x&1 != 0 || u.router[3]>>y&1 != 0 {
				continue
			}
			ep := &c.grid[y][x]
			if ep.kind != chip.Tensix {
				return c.refuse(q.o, unimplemented, "noc multicast", q.toAddr, "the rectangle holds %v, a %v tile", ep.xy, ep.kind)
			}
			if ep.harvested {
				return c.refuse(q.o, undefined, "noc multicast", q.toAddr,
					"the rectangle holds %v, which is harvested, and the router does not leave it out", ep.xy)
			}
			if ep.tile != q.tile || q.include {
				to.tiles = append(to.tiles, ep)
			}
		}
	}
	u.recipients, q.targets = to, to.tiles
	return true
}

// checkAtomic: L1 only, and the offset must agree with the address (tt-isa-documentation
// WormholeB0/NoC/Atomics.md).
func (c *Chip) checkAtomic(q *request) bool {
	bad := func(cat Category, addr uint64, format string, args ...any) bool {
		return c.refuse(q.o, cat, "noc atomic", addr, format, args...)
	}
	switch {
	case q.to.tile == nil:
		return bad(unimplemented, q.toAddr, "atomic on a %v tile: atomics work on L1 only", q.to.kind)
	case q.toAddr&3 != 0:
		return bad(unimplemented, q.toAddr, "TARG address of an atomic is not a multiple of 4")
	case q.fromAddr&3 != 0:
		return bad(unimplemented, q.fromAddr, "RET address of an atomic is not a multiple of 4")
	case q.fromAddr >= q.tile.bytes():
		return bad(unsupported, q.fromAddr, "RET address of an atomic is beyond L1")
	}
	if !c.reachable(q.o, "noc atomic", q.to, q.toAddr, 4) {
		return false
	}
	if q.toAddr >= q.to.tile.bytes() {
		return bad(undefined, q.toAddr, "atomic on a register: atomics work on L1 only")
	}
	ofs := uint32(q.toAddr >> 2 & 3)
	switch q.op >> 12 & 15 {
	case atomicIncrement, atomicCompareSwap, atomicSwapIndex6:
		if q.op&3 != ofs {
			return bad(undefined, q.toAddr, "atomic %#x: offset %d, but the address is word %d of its line", q.op, q.op&3, ofs)
		}
	case atomicSwapIndex7:
		if q.op>>2&3 != ofs {
			return bad(undefined, q.toAddr, "atomic %#x: offset %d, but the address is word %d of its line", q.op, q.op>>2&3, ofs)
		}
	case atomicSwapMask:
	default:
		return bad(unimplemented, q.toAddr, "atomic %#x: opcode %d is not emulated", q.op, q.op>>12&15)
	}
	return true
}

const (
	atomicIncrement   = 1
	atomicSwapMask    = 3
	atomicCompareSwap = 4
	atomicSwapIndex6  = 6
	atomicSwapIndex7  = 7
)

func (c *Chip) checkInline(q *request, be uint32) bool {
	bad := c.refuser(q.o, "noc inline write", q.toAddr)
	if q.toAddr >= localBase {
		if q.toAddr&3 != 0 {
			return bad(unimplemented, "the register address is not a multiple of 4")
		}
		return c.reachable(q.o, "noc inline write", q.to, q.toAddr, 4)
	}
	if c.blackhole() {
		return bad(undefined, "inline writes to L1 are unsafe on Blackhole: write through scratch memory instead")
	}
	if be == 0 {
		return bad(unimplemented, "no byte is enabled")
	}
	shift := uint32(bits.TrailingZeros32(be))
	if be>>shift != 15 || shift&3 != 0 {
		return bad(unimplemented, "byte mask %#x: want four bytes of one word", be)
	}
	if uint32(q.toAddr&15) != shift&15 {
		return bad(unimplemented, "byte mask %#x does not agree with the address", be)
	}
	return c.reachable(q.o, "noc inline write", q.to, q.toAddr, 4)
}

func (q *request) checked() *check.Transfer {
	f := &check.Transfer{By: q.o.checked(), Tile: q.tile.check, NoC: q.noc, ID: q.id,
		Kind: check.Kind(q.kind), Marked: q.marked, Multicast: q.multicast, Ordered: q.ordered,
		From: q.place(q.from, q.fromAddr), To: q.place(q.to, q.toAddr), FromAddr: q.fromAddr, ToAddr: q.toAddr, N: q.n,
		Path: q.path()}
	switch {
	case q.multicast:
		for _, ep := range q.targets {
			f.Targets = append(f.Targets, ep.tile.check)
		}
	case q.to != nil && q.to.tile != nil:
		f.Targets = []*check.Tile{q.to.tile.check}
		f.Completes = q.kind == reqInline && q.o.core != nil && q.tile.completes(q.toAddr)
	}
	return f
}

func (q *request) place(ep *endpoint, addr uint64) check.Place {
	p := check.Place{Bank: check.NoBank}
	if ep == nil {
		return p
	}
	if p.XY = ep.xy; ep.tile != nil {
		p.Tile = ep.tile.check
	}
	if ep.kind == chip.DRAM && addr < q.tile.chip.drams[ep.bank].size {
		p.Bank = ep.bank
	}
	return p
}

// completes reports whether addr is a stream update by which dispatchers count completions.
func (t *tile) completes(addr uint64) bool {
	s := &t.chip.params.Stream
	first := streamBase + uint64(s.FirstDispatch)*0x1000
	return addr >= first && addr < streamBase+uint64(s.Count)*0x1000 && streamRegister(t.chip.arch, uint32(addr)&0xFFF) == streamUpdate
}
