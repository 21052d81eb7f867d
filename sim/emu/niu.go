package emu

import "github.com/reprise-tt/reprise/chip"

// cmdBuf is a request initiator: the registers of one command buffer.
type cmdBuf struct {
	targLo, targMid, targHi uint32
	retLo, retMid, retHi    uint32
	tag, ctrl, lenBE, data  uint32
	busy                    bool // CMD_CTRL reads 1: no virtual channel yet
}

// Counters of an NIU by index (tt-isa-documentation WormholeB0/NoC/Counters.md).
const (
	cntAtomicResp      = 0x0
	cntWriteAck        = 0x1
	cntReadResp        = 0x2
	cntReadWords       = 0x3
	cntAccepted        = 0x4
	cntReadSent        = 0x5
	cntAtomicSent      = 0x6 // + 1 if posted, like the next four
	cntWriteWords      = 0x8
	cntWriteSent       = 0xA
	cntWriteStarted    = 0xC
	cntReadStarted     = 0xE
	cntAtomicStarted   = 0xF
	cntOutstanding     = 0x10
	cntOutgoing        = 0x20
	cntSlaveAtomicResp = 0x30
	cntSlaveWriteAck   = 0x31
	cntSlaveReadResp   = 0x32
	cntSlaveReadWords  = 0x33
	cntSlaveAccepted   = 0x34
	cntSlaveRead       = 0x35
	cntSlaveAtomic     = 0x36 // + 1 if posted
	cntSlaveWords      = 0x38
	cntSlaveWrite      = 0x3A
	cntSlaveStarted    = 0x3C
	numCounters        = 0x3E
)

// niu is one network interface of a tile.
type niu struct {
	buf   [4]cmdBuf
	count [numCounters]uint32
	open  [16]int // requests really unanswered, by transaction id
	// Ids with requests started since a CMD_CTRL was last loaded; and, for the counters of outgoing writes, since a
	// count of sent writes was: what is sent is counted.
	unread, unsent uint32
	linked         link // of the newest request
	unfinished     bool // the transaction that it belongs to, which has several
	config0        uint32
	router         [5]uint32
}

// link is where the requests of a transaction go.
type link struct {
	to   *endpoint
	rect [4]uint8
}

func (u *niu) reset(c *Chip) {
	*u = niu{}
	u.router[1], u.router[3] = c.topology.MulticastSkip()
}

// niuReg names a register of an NIU outside its command buffers.
type niuLayout struct {
	stride                      uint32
	hi, atData, exclude, cmd    uint32 // in a command buffer; none where absent
	nodeID, clearReqs, logical  uint32
	endpointID                  uint32
	translateX, translateY, end uint32
}

const none = ^uint32(0)

// layoutOf returns the register offsets (tt-isa-documentation */NoC/MemoryMap.md, ttsim data/*/tile_regs.json).
func layoutOf(a chip.Arch) niuLayout {
	if a == chip.Wormhole {
		return niuLayout{
			stride: 0x400, hi: none, atData: 0x24, exclude: none, cmd: 0x28,
			nodeID: 0x2C, endpointID: 0x30, clearReqs: 0x50, logical: 0x138,
			translateX: 0x118, translateY: 0x128, end: 0x138,
		}
	}
	return niuLayout{
		stride: 0x800, hi: 0x08, atData: 0x28, exclude: 0x2C, cmd: 0x40,
		nodeID: 0x44, endpointID: none, clearReqs: 0x60, logical: 0x148,
		translateX: none, translateY: none, end: none,
	}
}

func (t *tile) refuseNIU(o origin, noc int, off uint32, what string) slowResult {
	t.chip.refuse(o, UnimplementedFunctionality, "niu", uint64(niu0Base+0x10000*uint32(noc)+off),
		"%s NIU %d register %#x, which is not emulated", what, noc, off)
	return slowHalt
}

// nodeID is NOC_NODE_ID of the tile at raw NoC 0 coordinate xy: its raw coordinate on that NoC, the size of the grid
// and the direction of routing.
func (c *Chip) nodeID(xy chip.XY, noc int) uint32 {
	dir := uint32(1)
	if noc == 1 {
		xy, dir = c.arch.Mirror(xy), 0
	}
	return uint32(xy.X) | uint32(xy.Y)<<6 | uint32(c.params.GridWidth)<<12 | uint32(c.params.GridHeight)<<19 | dir<<28
}

func (t *tile) niuLoad(o origin, noc int, off uint32) (uint32, slowResult) {
	c, u, l := t.chip, &t.niu[noc], &t.chip.layout
	if i := off / l.stride; i < 4 {
		b, ok := &u.buf[i], true
		var v uint32
		switch off % l.stride {
		case 0x00:
			v = b.targLo
		case 0x04:
			v = b.targMid
		case 0x0C:
			v = b.retLo
		case 0x10:
			v = b.retMid
		case 0x18:
			v = b.tag
		case 0x1C:
			v = b.ctrl
		case 0x20:
			v = b.lenBE
		case l.atData:
			v = b.data
		case l.cmd:
			v = b2u(b.busy)
			u.unread, u.unsent = 0, 0
		case l.hi:
			v = b.targHi
		case l.hi + 0xC:
			v, ok = b.retHi, l.hi != none
		default:
			ok = false
		}
		if ok {
			return v, slowDone
		}
	}
	switch {
	case off >= 0x200 && off < 0x200+4*numCounters:
		return t.counter(o, noc, (off-0x200)/4)
	case off == l.nodeID:
		return c.nodeID(t.xy, noc), slowDone
	case off == l.endpointID:
		return t.endpointID(noc), slowDone
	case off == l.logical:
		return t.id[noc], slowDone
	case off == 0x100:
		return u.config0, slowDone
	case off >= 0x104 && off <= 0x114:
		return u.router[(off-0x104)/4], slowDone
	case l.translateX != none && off >= l.translateX && off < l.end:
		return c.translateTable(noc, off-l.translateX), slowDone
	}
	if o.inert() && c.tileNIUHas(off) {
		return 0, slowDone
	}
	return 0, t.refuseNIU(o, noc, off, "load of")
}

// counter loads counter i.
func (t *tile) counter(o origin, noc int, i uint32) (uint32, slowResult) {
	if t.outbox.awaits(o.mine(), noc, i) {
		return 0, slowAgain
	}
	u := &t.niu[noc]
	v := u.count[i]
	if t.chip.cfg.RefuseCounters && o.mine() != nil && i >= cntOutstanding && i < cntOutgoing+16 && !t.checkID(o, noc, i) {
		return 0, slowHalt
	}
	if i == cntWriteSent || i == cntWriteSent+1 {
		u.unsent = 0
	}
	if t.races != nil {
		t.races.counted(o, u, noc, i, v)
	}
	return v, slowDone
}

// checkID refuses a load of an id's counter that tells nothing: of one that cannot become zero, since nothing is unanswered
// any more, and of one that need not count yet what was started before (tt-isa-documentation BlackholeA0/NoC/Counters.md).
func (t *tile) checkID(o origin, noc int, i uint32) bool {
	u, id := &t.niu[noc], (i-cntOutstanding)&15
	bad := func(format string, args ...any) bool {
		t.chip.refuse(o, UndefinedBehavior, "niu", uint64(niu0Base+0x10000*uint32(noc)+0x200+4*i), format, args...)
		return false
	}
	if i < cntOutgoing && u.count[i] != 0 && u.open[id] == 0 {
		return bad("the counter of transaction id %d is %d, and nothing is unanswered: a multicast took it beyond zero, and it stays there until it is cleared", id, u.count[i])
	}
	started := u.unread
	if i >= cntOutgoing {
		started = u.unsent
	}
	if started>>id&1 != 0 && !o.core.assumes(CountedAtOnce) {
		return bad("a counter of transaction id %d is looked at before a CMD_CTRL was loaded: the request just started need not be counted yet", id)
	}
	return true
}

// endpointID is Wormhole's ENDPOINT_ID: type in 23:16, NoC in 31:24.
func (t *tile) endpointID(noc int) uint32 {
	kind := uint32(0)
	if t.kind == chip.Ethernet {
		kind = 2
	}
	return uint32(t.chip.topology.Tile(t.xy).Index) | kind<<16 | uint32(noc)<<24
}

// translateTable returns a word of Wormhole's coordinate translation tables: eight entries of four bits, X first.
func (c *Chip) translateTable(noc int, off uint32) uint32 {
	var w uint32
	axis, first := off/16, off%16*2
	for i := range uint32(8) {
		n := uint8(first + i)
		v := chip.XY{X: n, Y: 16}
		if axis == 1 {
			v = chip.XY{X: 16, Y: n}
		}
		if n < 16 { // identity; numbers beyond the grid have no tile
			w |= uint32(n) << (4 * i)
			continue
		}
		raw, err := c.topology.Translate(chip.NOC(noc), v)
		if err != nil {
			continue
		}
		if noc == 1 {
			raw = c.arch.Mirror(raw)
		}
		e := raw.X
		if axis == 1 {
			e = raw.Y
		}
		w |= uint32(e) << (4 * i)
	}
	return w
}

func (t *tile) niuStore(o origin, noc int, off, v uint32) slowResult {
	c, u, l := t.chip, &t.niu[noc], &t.chip.layout
	bad := func(cat Category, format string, args ...any) slowResult {
		c.refuse(o, cat, "niu", uint64(niu0Base+0x10000*uint32(noc)+off), format, args...)
		return slowHalt
	}
	if i := off / l.stride; i < 4 {
		b, r := &u.buf[i], off%l.stride
		var field *uint32
		switch r {
		case 0x00:
			field = &b.targLo
		case 0x04:
			field = &b.targMid
		case 0x0C:
			field = &b.retLo
		case 0x10:
			field = &b.retMid
		case 0x18:
			if v&^(15<<10) != 0 {
				return bad(UnimplementedFunctionality, "PACKET_TAG = %#x: only the transaction id in bits 13:10 is emulated", v)
			}
			field = &b.tag
		case 0x1C:
			field = &b.ctrl
		case 0x20:
			field = &b.lenBE
		case l.atData:
			field = &b.data
		case l.hi:
			field = &b.targHi
		case l.hi + 0xC:
			if l.hi != none {
				field = &b.retHi
			}
		case l.exclude:
			if v != 0 {
				return bad(UnimplementedFunctionality, "BRCST_EXCLUDE = %#x: want 0", v)
			}
			return slowDone
		case l.cmd:
			if v != 1 {
				return bad(UnimplementedFunctionality, "CMD_CTRL = %#x: want 1", v)
			}
			if b.busy {
				return bad(NonContractualBehavior, "command buffer %d started while its last request has no virtual channel yet", i)
			}
			return t.start(o, noc, int(i))
		}
		if field != nil {
			if b.busy {
				return bad(NonContractualBehavior, "command buffer %d changed while its last request has no virtual channel yet", i)
			}
			*field = v
			return slowDone
		}
	}
	switch off {
	case l.clearReqs:
		if v == 0 {
			return bad(UnsupportedFunctionality, "CLEAR_OUTSTANDING_REQ_CNT = 0 clears nothing")
		}
		for i := range uint32(16) {
			if v>>i&1 != 0 {
				u.count[cntOutstanding+i] = 0
				u.open[i] = 0
			}
		}
	case 0x100:
		u.config0 = v
	case 0x104, 0x10C, 0x114:
		u.router[(off-0x104)/4] = v
	case 0x108:
		if m := c.params.MulticastSkipColumns; v&m != m {
			return bad(UndefinedBehavior, "ROUTER_CFG_1 = %#x: columns without Tensix tiles, %#x, must stay left out", v, m)
		}
		u.router[1] = v
	case 0x110:
		if m := c.params.MulticastSkipRows; v&m != m {
			return bad(UndefinedBehavior, "ROUTER_CFG_3 = %#x: rows without Tensix tiles, %#x, must stay left out", v, m)
		}
		u.router[3] = v
	default:
		return t.refuseNIU(o, noc, off, "store to")
	}
	t.changed(classNIU0 << noc)
	return slowDone
}
