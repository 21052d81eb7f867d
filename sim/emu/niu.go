package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

type niu struct {
	*niuWords
	open [16]int16 // unanswered requests, by transaction id
	// Ids with requests started since a CMD_CTRL was last loaded, or a count of sent writes.
	unread, unsent uint32
	linked         link // of the newest request of a transaction with several
	unfinished     bool // the transaction goes on
	config0        uint32
	router         [5]uint32
	recipients     *recipients // of the last multicast, nil once the router is reconfigured
}

type link struct {
	to   *endpoint
	rect [4]uint8
}

type recipients struct {
	rect    [4]uint8
	include bool // the sender too
	tiles   []*endpoint
}

func (u *niu) reset(c *Chip) {
	*u = niu{niuWords: u.niuWords}
	*u.niuWords = niuWords{}
	u.router[1], u.router[3] = c.topology.MulticastSkip()
}

func (t *tile) refuseNIU(o origin, noc int, off uint32, what string) slowResult {
	return t.refuse(o, unimplemented, "niu", niuAddress(noc, off), "%s NIU %d register %#x, which is not emulated", what, noc, off)
}

func niuAddress(noc int, off uint32) uint32 { return niu0Base + 0x10000*uint32(noc) + off }

// nodeID is NOC_NODE_ID: raw coordinate, size of the grid, direction of routing.
func (c *Chip) nodeID(xy chip.XY, noc int) uint32 {
	dir := uint32(1)
	if noc == 1 {
		xy, dir = c.arch.Mirror(xy), 0
	}
	return uint32(xy.X) | uint32(xy.Y)<<6 | uint32(c.params.GridWidth)<<12 | uint32(c.params.GridHeight)<<19 | dir<<28
}

func (t *tile) niuLoad(o origin, noc int, off uint32) (uint32, slowResult) {
	c, u, l := t.chip, &t.niu[noc], &t.chip.layout
	if i, r, ok := l.register(off); ok {
		if r == bufBusy {
			u.unread, u.unsent = 0, 0
		}
		return u.buf[i][r], slowDone
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
	if o.isHostLoad() && c.tileNIUHas(off) {
		return 0, slowDone
	}
	return 0, t.refuseNIU(o, noc, off, "load of")
}

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
	if t.check != nil {
		open := i >= cntOutstanding && i < cntOutgoing && u.open[i-cntOutstanding] != 0
		t.check.Counted(o.checked(), noc, i, v, open)
	}
	return v, slowDone
}

// checkID refuses a load of an id's counter that can't become zero, or need not count yet what was
// started before (tt-isa-documentation BlackholeA0/NoC/Counters.md).
func (t *tile) checkID(o origin, noc int, i uint32) bool {
	u, id := &t.niu[noc], (i-cntOutstanding)&15
	bad := func(format string, args ...any) bool {
		return t.chip.flag(o, "counters", undefined, "niu", uint64(niuAddress(noc, 0x200+4*i)), format, args...)
	}
	if i < cntOutgoing && u.count[i] != 0 && u.open[id] == 0 {
		return bad("the counter of transaction id %d is %d, and nothing is unanswered: "+
			"a multicast took it beyond zero until it is cleared", id, u.count[i])
	}
	started := u.unread
	if i >= cntOutgoing {
		started = u.unsent
	}
	if started>>id&1 != 0 && !o.core.Assumes(CountedAtOnce) {
		return bad("a counter of transaction id %d is looked at before a CMD_CTRL was loaded: it need not count the last request yet",
			id)
	}
	return true
}

func (t *tile) endpointID(noc int) uint32 {
	kind := uint32(0)
	if t.kind == chip.Ethernet {
		kind = 2
	}
	return uint32(t.chip.topology.Tile(t.xy).Index) | kind<<16 | uint32(noc)<<24
}

// translateTable returns a word of Wormhole's translation tables: eight entries of four bits, X
// first.
func (c *Chip) translateTable(noc int, off uint32) uint32 {
	var w uint32
	axis, first := off/16, off%16*2
	for i := range uint32(8) {
		n := uint8(first + i)
		v := chip.XY{X: n, Y: 16}
		if axis == 1 {
			v = chip.XY{X: 16, Y: n}
		}
		if n < 16 { // identity: no tile is beyond the grid
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
	u := &t.niu[noc]
	i, r, ok := t.chip.layout.register(off)
	switch {
	case !ok:
		return t.niuConfigure(o, noc, off, v)
	case r == bufBusy && v == 1 && !u.buf[i].busy():
		if st, ok := t.direct(o, noc, &u.buf[i]); ok {
			return st
		}
		return t.start(o, noc, int(i))
	}
	bad := t.refuser(o, "niu", niuAddress(noc, off))
	switch busy := u.buf[i].busy(); {
	case r == bufBusy && v != 1:
		return bad(unimplemented, "CMD_CTRL = %#x: want 1", v)
	case r == bufTag && v&^translate.NarrowBits != 0:
		return bad(unimplemented, "PACKET_TAG = %#x: only the transaction id in bits 13:10 is emulated", v)
	case busy && r == bufBusy:
		return bad(nonContractual, "command buffer %d started while its last request has no virtual channel yet", i)
	case busy:
		return bad(nonContractual, "command buffer %d changed while its last request has no virtual channel yet", i)
	}
	u.buf[i][r] = v
	return slowDone
}

func (t *tile) niuConfigure(o origin, noc int, off, v uint32) slowResult {
	c, u, l := t.chip, &t.niu[noc], &t.chip.layout
	bad := t.refuser(o, "niu", niuAddress(noc, off))
	if off < 4*l.stride && off%l.stride == l.exclude {
		if v != 0 {
			return bad(unimplemented, "BRCST_EXCLUDE = %#x: want 0", v)
		}
		return slowDone
	}
	switch off {
	case l.clearReqs:
		if v == 0 {
			return bad(unsupported, "CLEAR_OUTSTANDING_REQ_CNT = 0 clears nothing")
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
			return bad(undefined, "ROUTER_CFG_1 = %#x: columns without Tensix tiles, %#x, must stay left out", v, m)
		}
		u.router[1], u.recipients = v, nil
	case 0x110:
		if m := c.params.MulticastSkipRows; v&m != m {
			return bad(undefined, "ROUTER_CFG_3 = %#x: rows without Tensix tiles, %#x, must stay left out", v, m)
		}
		u.router[3], u.recipients = v, nil
	default:
		return t.refuseNIU(o, noc, off, "store to")
	}
	t.changed(classNIU0 << noc)
	return slowDone
}

func (t *tile) streamAt(o origin, off uint32) *stream {
	if n := off / 0x1000; n < uint32(len(t.streams)) {
		return &t.streams[n]
	}
	t.chip.refuse(o, undefined, "stream", uint64(streamBase+off), "stream %d: the tile has %d", off/0x1000, len(t.streams))
	return nil
}

// shared is the word that a Schedule follows for an access to an address, its value, and what the
// access does, false if it follows none.
func (t *tile) shared(addr uint32, kind schedules.Kind) (at, value uint32, as schedules.Kind, ok bool) {
	if addr < t.size {
		return addr &^ 3, t.memory(addr | 3 + 1)[addr>>2], kind, true
	}
	n := (addr - streamBase) / 0x1000
	if addr < streamBase || n >= uint32(len(t.streams)) {
		return 0, 0, 0, false
	}
	r := streamRegister(t.chip.arch, addr&0xFFF)
	p := t.streams[n].word(r)
	if p == nil || r == streamRemoteSource {
		return 0, 0, 0, false
	}
	if r == streamUpdate {
		r, kind = streamAvailable, schedules.Addition
	}
	return addr&^0xFFF + uint32(r), *p, kind, true
}

func (t *tile) streamLoad(o origin, off uint32) (uint32, slowResult) {
	s := t.streamAt(o, off)
	if s == nil {
		return 0, slowHalt
	}
	if t.check != nil && o.mine() != nil {
		t.check.Look(streamBase + off)
	}
	r := streamRegister(t.chip.arch, off&0xFFF)
	if p := s.word(r); p != nil && r != streamUpdate {
		if r != streamRemoteSource {
			t.check.Acquire(o.checked(), streamBase+off&^0xFFF+uint32(r))
		}
		return *p, slowDone
	}
	if o.isHostLoad() { // a stream has many more registers
		return 0, slowDone
	}
	return 0, t.refuse(o, unimplemented, "stream", streamBase+off, "load of stream %d register %#x", off/0x1000, off&0xFFF)
}

func (t *tile) streamStore(o origin, off, v uint32) slowResult {
	s := t.streamAt(o, off)
	if s == nil {
		return slowHalt
	}
	at := streamBase + off&^0xFFF
	switch streamRegister(t.chip.arch, off&0xFFF) {
	case streamRemoteSource:
		if v > 0xFFFFFF {
			return t.refuse(o, unsupported, "stream", streamBase+off, "REMOTE_SRC = %#x: it has 24 bits", v)
		}
		s.remoteSource = v
	case streamBufStart:
		if !t.checkTaken(o, off, v) {
			return slowHalt
		}
		s.bufStart = v & streamMask
		t.pagers[off/streamBytes].took = o.pager(v)
		t.check.Release(o.checked(), at+uint32(streamBufStart))
	case streamBufSize:
		s.bufSize = v & streamMask
		s.available = s.bufSize
		t.pagers[off/streamBytes].put = o.pager(v)
		t.check.Release(o.checked(), at+uint32(streamBufSize))
		t.check.Release(o.checked(), at+uint32(streamAvailable))
	case streamUpdate:
		if v&0x3F != 0 {
			return t.refuse(o, unsupported, "stream", streamBase+off,
				"SPACE_AVAILABLE_UPDATE = %#x: the destination index in bits 5:0 must be 0", v)
		}
		// Up it may wrap, since cores compare modulo the range; and the host may set any value.
		if n := v >> 6 & streamMask; t.chip.cfg.RefuseCounters && o.core != nil && n > streamMask/2+1 && s.available < streamMask+1-n {
			if !t.chip.flag(o, "counters", undefined, "stream", uint64(streamBase+off),
				"SPACE_AVAILABLE of stream %d is %d, and %d is to be subtracted: it would go below zero",
				off/0x1000, s.available, streamMask+1-n) {
				return slowHalt
			}
		}
		s.available = (s.available + v>>6) & streamMask
		t.check.Release(o.checked(), at+uint32(streamAvailable))
	default:
		return t.refuse(o, unimplemented, "stream", streamBase+off, "store to stream %d register %#x", off/0x1000, off&0xFFF)
	}
	t.changed(classStream)
	return slowDone
}

// pager returns the core that moves a counter of pages to v, nil for one that resets it.
func (o origin) pager(v uint32) *core {
	if v == 0 {
		return nil
	}
	return o.mine()
}

// checkTaken refuses a counter of pages taken from a circular buffer that overtakes the pages put.
// Both wrap at 16 bits, and firmware zeroes both before a program. Circular buffer 0 of newer
// revisions of tt-metal has stream 0, also on Wormhole.
func (t *tile) checkTaken(o origin, off, v uint32) bool {
	n := int(off / 0x1000)
	if !t.chip.cfg.RefuseCounters || o.mine() == nil || t.kind != chip.Tensix || n >= t.chip.params.Stream.FirstCB+pageCounters {
		return true
	}
	put, taken := uint16(t.streams[n].bufSize), uint16(t.streams[n].bufStart)
	if more := uint16(v) - put; more == 0 || more > 1<<15 {
		return true
	}
	return t.chip.flag(o, "counters", undefined, "stream", uint64(streamBase+off),
		"circular buffer of stream %d: %d pages are taken, and %d are there", n, uint16(v)-taken, max(0, int16(put-taken)))
}
