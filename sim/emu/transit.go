package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// accept gives the request its virtual channel.
func (q *request) accept() {
	u := q.niu
	u.buf[q.buf][bufBusy] = 0
	u.count[cntAccepted]++
	switch q.kind {
	case reqRead:
		u.count[cntReadStarted]++
	case reqAtomic:
		u.count[cntAtomicStarted] += word.Bool(q.marked)
	case reqWrite:
		u.count[cntWriteStarted+q.posted()]++
	case reqInline:
		u.count[cntWriteStarted+q.posted()]++
		u.count[cntWriteSent+q.posted()]++
	}
	q.tile.changed(classNIU0 << q.noc)
}

// leave makes the request's packet begin to leave the NIU. A write's data are still to be read then.
func (q *request) leave() {
	u := q.niu
	switch q.kind {
	case reqRead:
		u.count[cntReadSent]++
	case reqAtomic:
		u.count[cntAtomicSent+q.posted()]++
	case reqWrite:
		u.count[cntWriteSent+q.posted()]++
		u.count[cntWriteWords+q.posted()] += q.flits
	}
	q.tile.changed(classNIU0 << q.noc)
}

// drain records that the request's packet has left the NIU wholly: the data of a write are read.
func (q *request) drain() bool {
	if q.kind != reqWrite {
		return true
	}
	t := q.tile
	if q.atOnce {
		q.data = t.view(uint32(q.fromAddr), q.n)
		return true
	}
	if !t.chip.readL1(q.o, t, uint32(q.fromAddr), q.n, q.buffer()) {
		return false
	}
	q.niu.bump8(cntOutgoing+q.id, ^uint32(0))
	t.changed(classNIU0 << q.noc)
	return true
}

// buffer returns room for the request's data.
func (q *request) buffer() []uint32 {
	n, t := word.Span(q.fromAddr, q.n), q.tile
	switch {
	case t.chip.cfg.Delay > 0: // others may be under way
		q.data = make([]uint32, n)
	case t.outbox != nil && q.kind == reqWrite:
		q.data = t.outbox.room(n)
	default:
		if cap(t.data) < n {
			t.data = make([]uint32, n)
		}
		q.data = t.data[:n]
	}
	return q.data
}

// arrive makes the request take effect at its target.
func (q *request) arrive() bool {
	c := q.tile.chip
	if q.flight != nil {
		c.check.Arrive(q.flight)
		defer c.check.Leave()
	}
	switch q.kind {
	case reqRead:
		return q.read()
	case reqAtomic:
		return q.atomic()
	case reqInline:
		q.buffer()[0] = q.word
		return q.put("noc inline write", q.to)
	}
	if !q.multicast {
		return q.put("noc write", q.to)
	}
	for _, ep := range q.targets {
		if !q.put("noc multicast", ep) {
			return false
		}
	}
	return true
}

// read reads the data of a read. Another card may be asked for them, which answers later.
func (q *request) read() bool {
	c := q.tile.chip
	c.moved += uint64(q.n)
	if t := q.from.tile; t != nil {
		s := &t.niuWords[q.noc]
		s.count[cntSlaveAccepted]++
		s.count[cntSlaveRead]++
		s.count[cntSlaveReadResp]++
		s.count[cntSlaveReadWords] += q.flits
		t.changed(classServed0 << q.noc)
	}
	if q.plain {
		if q.data = c.view(q.from, q.fromAddr, q.n); q.data != nil {
			mergeTime(&q.tile.newest, c.newestAt(q.from))
			return true
		}
	}
	if q.from.kind != chip.PCIe {
		return c.readReachable(q.o, "noc read", q.noc, q.from, q.fromAddr, q.n, q.buffer())
	}
	asks := *q
	c.pcie.asks = &asks
	ok := c.readReachable(q.o, "noc read", q.noc, q.from, q.fromAddr, q.n, q.buffer())
	c.pcie.asks = nil
	q.away = asks.away
	return ok
}

// put makes a write take effect at a tile.
func (q *request) put(where string, ep *endpoint) bool {
	c := q.tile.chip
	if q.plain {
		c.takeAt(ep, q.toAddr, q.n, q.data, q.tile.newest)
	} else if !c.writeReachable(q.o, where, ep, q.toAddr, q.n, q.data) {
		return false
	}
	q.acks++
	c.moved += uint64(q.n)
	if t := ep.tile; t != nil {
		t.countWrite(q.noc, q.flits, q.posted())
	}
	return true
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
	if t.check != nil && !t.check.Access(q.o.far().checked(), addr, 4, true, true) {
		return false
	}
	if q.flight != nil && !c.check.Atomic(q.flight, t.check, addr, q.op>>12&15 != atomicIncrement) {
		return false
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
				line[i/2] = word.Insert(line[i/2], q.word>>sh, sh, 0xFFFF)
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

// respond completes a request with its last response: data of a read, the old value of an atomic, acks of a write.
func (q *request) respond() bool {
	t, u := q.tile, q.niu
	if q.kind != reqRead && !q.marked {
		// ttsim returns the old value of posted atomics too; silicon sends no response.
		return true
	}
	answered := uint32(1)
	switch q.kind {
	case reqRead:
		if q.plain {
			t.take(uint32(q.toAddr), q.n, q.data)
		} else if q.flight != nil && !t.chip.check.Land(q.flight, q.data) || !t.chip.landL1(q.o, t, uint32(q.toAddr), q.n, q.data) {
			return false
		}
		u.count[cntReadResp]++
		u.count[cntReadWords] += q.flits
	case reqAtomic:
		mergeTime(&t.newest, &q.to.tile.newest)
		t.memory(uint32(q.fromAddr) + 4)[q.fromAddr>>2] = q.word
		t.stored(uint32(q.fromAddr), 4)
		u.count[cntAtomicResp]++
	default:
		answered = uint32(q.acks)
		u.count[cntWriteAck] += answered
	}
	if !q.atOnce {
		u.open[q.id] = max(0, u.open[q.id]-1)
		u.bump8(cntOutstanding+q.id, -answered)
	} else if answered != 1 { // a multicast
		u.bump8(cntOutstanding+q.id, 1-answered)
	}
	t.changed(classNIU0 << q.noc)
	return true
}
