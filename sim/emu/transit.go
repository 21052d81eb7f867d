package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// accept gives the request its virtual channel.
func (q *request) accept() {
	u := &q.tile.niu[q.noc]
	u.buf[q.buf][bufBusy] = 0
	u.count[cntAccepted]++
	switch {
	case q.kind == reqRead:
		u.count[cntReadStarted]++
	case q.kind == reqAtomic:
		if q.marked {
			u.count[cntAtomicStarted]++
		}
	default:
		u.count[cntWriteStarted+q.posted()]++
	}
	if q.kind == reqInline {
		u.count[cntWriteSent+q.posted()]++
	}
	q.tile.changed(classNIU0 << q.noc)
}

// leave makes the request's packet begin to leave the NIU. A write's data are still to be read
// then.
func (q *request) leave() bool {
	t := q.tile
	u := &t.niu[q.noc]
	switch q.kind {
	case reqRead:
		u.count[cntReadSent]++
	case reqAtomic:
		u.count[cntAtomicSent+q.posted()]++
	case reqWrite:
		u.count[cntWriteSent+q.posted()]++
		u.count[cntWriteWords+q.posted()] += q.flits
	}
	t.changed(classNIU0 << q.noc)
	return true
}

// drain records that the request's packet has left the NIU wholly: the data of a write are read.
func (q *request) drain() bool {
	if q.kind != reqWrite {
		return true
	}
	t := q.tile
	if q.data = nil; t.outbox == nil && !q.include && (q.to == nil || q.to.tile != t) {
		q.data = q.view(t)
	}
	if q.data == nil && !t.chip.readL1(q.o, t, uint32(q.fromAddr), q.n, q.buffer()) {
		return false
	}
	t.niu[q.noc].bump8(cntOutgoing+q.id, ^uint32(0))
	t.changed(classNIU0 << q.noc)
	return true
}

// buffer returns room for the request's data.
func (q *request) buffer() []uint32 {
	n, t := span(q.fromAddr, q.n), q.tile
	if t.chip.cfg.Delay > 0 { // others may be under way
		q.data = make([]uint32, n)
		return q.data
	}
	if t.outbox != nil && q.kind == reqWrite {
		q.data = t.outbox.room(n)
		return q.data
	}
	if cap(t.data) < n {
		t.data = make([]uint32, n)
	}
	q.data = t.data[:n]
	return q.data
}

// view returns the data of a request in L1 of a tile in place; nil if they can change before they
// have arrived, or if there are checks of them.
func (q *request) view(t *tile) []uint32 {
	if c := t.chip; !c.bare || c.cfg.Delay > 0 || t.kind != chip.Tensix || q.fromAddr >= t.bytes() {
		return nil
	}
	return t.memory(uint32(q.fromAddr) + uint32(q.n))[q.fromAddr>>2:][:span(q.fromAddr, q.n)]
}

// source is view for what a read reads.
func (q *request) source() []uint32 {
	c := q.tile.chip
	switch {
	case q.from.tile == q.tile:
	case q.from.tile != nil:
		return q.view(q.from.tile)
	case q.from.kind == chip.DRAM && c.bare && c.cfg.Delay == 0:
		return c.drams[q.from.bank].view(q.fromAddr, q.n)
	}
	return nil
}

// arrive makes the request take effect at its target.
func (q *request) arrive() bool {
	c := q.tile.chip
	if q.flight != nil {
		q.flight.arrived = true
		c.edges.carry, c.edges.open = q.by, q.flight.storing
		defer func() { c.edges.carry, c.edges.open = nil, false }()
	}
	switch q.kind {
	case reqRead:
		c.moved += uint64(q.n)
		if q.from.tile != nil {
			s := &q.from.tile.niu[q.noc]
			s.count[cntSlaveAccepted]++
			s.count[cntSlaveRead]++
			s.count[cntSlaveReadResp]++
			s.count[cntSlaveReadWords] += q.flits
			q.from.tile.changed(classServed0 << q.noc)
		}
		if q.data = q.source(); q.data != nil {
			mergeTime(c.newestOf(q.o), c.newestAt(q.from))
			return true
		}
		return q.read()
	case reqAtomic:
		return q.atomic()
	case reqInline:
		q.buffer()[0] = q.word
		return q.put("noc inline write", q.to)
	}
	if q.multicast {
		return q.each(func(ep *endpoint) bool { return q.put("noc multicast", ep) })
	}
	return q.put("noc write", q.to)
}

// read reads what isn't read in place. Another card may be asked for it, which answers later.
func (q *request) read() bool {
	c := q.tile.chip
	if q.from.kind != chip.PCIe {
		return c.readTile(q.o, "noc read", q.noc, q.from, q.fromAddr, q.n, q.buffer())
	}
	asks := *q
	c.pcie.asks = &asks
	ok := c.readTile(q.o, "noc read", q.noc, q.from, q.fromAddr, q.n, q.buffer())
	c.pcie.asks = nil
	q.away = asks.away
	return ok
}

// put makes a write take effect at a tile.
func (q *request) put(where string, ep *endpoint) bool {
	c := q.tile.chip
	if t := ep.tile; c.bare && t != nil && t.kind == chip.Tensix && q.toAddr < t.bytes() { // prepare has checked the rest
		mergeTime(&t.newest, c.newestOf(q.o))
		t.take(uint32(q.toAddr), q.n, q.data)
	} else if c.bare && ep.kind == chip.DRAM && q.toAddr < c.drams[ep.bank].size {
		d := c.drams[ep.bank]
		mergeTime(&d.newest, c.newestOf(q.o))
		d.write(q.toAddr, q.n, q.data)
	} else if !c.writeTile(q.o, where, q.noc, ep, q.toAddr, q.n, q.data) {
		return false
	}
	q.delivered(ep)
	return true
}

// equal is slices.Equal for two slices of the same length, by 64 bytes at once.
func equal(a, b []uint32) bool {
	for ; len(a) >= 16; a, b = a[16:], b[16:] {
		if [16]uint32(a) != [16]uint32(b) {
			return false
		}
	}
	return slices.Equal(a, b)
}

// delivered counts a write at its target.
func (q *request) delivered(ep *endpoint) {
	q.acks++
	q.tile.chip.moved += uint64(q.n)
	if ep.tile == nil {
		return
	}
	ep.tile.countWrite(q.noc, q.flits, q.posted())
}

// countWrite counts a write of some flits of data at its target; posted is 1 for a posted one.
func (t *tile) countWrite(noc int, words, posted uint32) {
	s := &t.niuWords[noc]
	s.count[cntSlaveAccepted]++
	s.count[cntSlaveStarted+posted]++
	s.count[cntSlaveWrite+posted]++
	s.count[cntSlaveWords+posted] += words
	if posted == 0 {
		s.count[cntSlaveWriteAck]++
	}
	t.changed(classServed0 << noc)
}

// atomic performs the operation and keeps the old value for the response.
func (q *request) atomic() bool {
	c, t := q.tile.chip, q.to.tile
	addr := uint32(q.toAddr)
	if t.known != nil {
		if a, unknown := t.unwritten(addr, 4); unknown {
			c.refuse(q.o, UnpredictableValueUsed, "noc atomic", uint64(a), "atomic on memory of tile %v that was never written", t.xy)
			return false
		}
	}
	if t.races != nil && !t.races.access(q.o.far(), addr, 4, true, true) {
		return false
	}
	if t.shadow != nil && q.by != nil {
		cl, ok := t.shadow.atomic(c.edges, q.by, uint64(addr), programs, q.op>>12&15 != atomicIncrement)
		if !ok {
			return c.edges.refuse(q.o, "NoC atomic on", "L1", q.by, cl)
		}
	}
	p := &t.memory(addr + 4)[addr>>2]
	old := *p
	c.moved += 4
	mergeTime(&t.newest, &q.tile.newest)
	switch q.op >> 12 & 15 {
	case atomicIncrement:
		mask := uint32(2)<<(q.op>>2&31) - 1
		*p = (old+q.word)&mask | old&^mask
	case atomicCompareSwap:
		if old == q.op>>2&15 {
			*p = q.op >> 6 & 15
		}
	case atomicSwapIndex6, atomicSwapIndex7:
		*p = q.word
	case atomicSwapMask:
		line := t.l1[addr>>2&^3:][:4]
		for i := range uint32(8) {
			if q.op>>(2+i)&1 != 0 {
				sh := i & 1 * 16
				line[i/2] = insert(line[i/2], q.word>>sh, sh, 0xFFFF)
			}
		}
		t.stored(addr&^15, 16)
	}
	t.stored(addr, 4)
	s := &t.niu[q.noc]
	s.count[cntSlaveAccepted]++
	s.count[cntSlaveAtomic+q.posted()]++
	if q.marked {
		s.count[cntSlaveAtomicResp]++
	}
	t.changed(classServed0 << q.noc)
	q.word = old
	return true
}

// respond completes a request with its last response: data of a read, the old value of an atomic,
// acks of a write.
func (q *request) respond() bool {
	c, t := q.tile.chip, q.tile
	u := &t.niu[q.noc]
	if q.kind != reqRead && !q.marked {
		// ttsim returns the old value of posted atomics too; silicon sends no response.
		return true
	}
	u.open[q.id] = max(0, u.open[q.id]-1)
	switch q.kind {
	case reqRead:
		if q.by != nil && !c.edges.landed(q) {
			return false
		}
		if !c.landL1(q.o, t, uint32(q.toAddr), q.n, q.data) {
			return false
		}
		u.count[cntReadResp]++
		u.count[cntReadWords] += q.flits
		u.bump8(cntOutstanding+q.id, ^uint32(0))
	case reqAtomic:
		mergeTime(&t.newest, &q.to.tile.newest)
		t.memory(uint32(q.fromAddr) + 4)[q.fromAddr>>2] = q.word
		t.stored(uint32(q.fromAddr), 4)
		u.count[cntAtomicResp]++
		u.bump8(cntOutstanding+q.id, ^uint32(0))
	default:
		u.count[cntWriteAck] += uint32(q.acks)
		u.bump8(cntOutstanding+q.id, -uint32(q.acks))
	}
	t.changed(classNIU0 << q.noc)
	return true
}
