package emu

import (
	"cmp"
	"slices"
)

// orderKey is of requests that don't overtake each other: same source, NoC, virtual channel by
// VC_STATIC, and target (tt-isa-documentation WormholeB0/NoC/Ordering.md).
type orderKey struct {
	tile      *tile
	noc       int
	vc        uint8
	multicast bool
	to        *endpoint
	rect      [4]uint8
}

// In place of a virtual channel: all of an NIU.
const (
	sentInOrder = 0xFF - iota
	readInOrder
)

// path is the orderKey of an ordered request.
func (q *request) path() orderKey {
	k := orderKey{q.tile, q.noc, q.vc, q.multicast, q.to, q.rect}
	if q.kind == reqRead {
		k.to = q.from
	}
	return k
}

// delay puts a request in flight. With SentIsRead, writes are counted as sent, in order, when their
// data are read; with ReadInOrder, requests arrive after earlier writes' data are read.
func (c *Chip) delay(q *request) {
	now := c.now(q.o)
	accept := now + c.someTime()
	leave := accept + c.someTime()
	if q.ordered {
		// Requests on one virtual channel leave in order, wherever they go.
		leave = max(leave, c.order[orderKey{tile: q.tile, noc: q.noc, vc: q.vc}])
	}
	drain := leave
	if q.kind == reqWrite {
		drain += c.someTime()
	}
	if (q.kind == reqWrite || q.kind == reqInline) && q.o.core != nil && q.o.core.Assumes(SentIsRead) {
		k := orderKey{tile: q.tile, noc: q.noc, vc: sentInOrder}
		sent := max(drain, c.order[k])
		c.order[k], leave, drain = sent, sent, sent
		if q.kind == reqInline { // counted as sent when it is accepted
			accept = sent
		}
	}
	if q.ordered {
		c.order[orderKey{tile: q.tile, noc: q.noc, vc: q.vc}] = drain
	}
	arrive := drain + c.someTime()
	if q.o.core != nil && q.o.core.Assumes(ReadInOrder) {
		k := orderKey{tile: q.tile, noc: q.noc, vc: readInOrder}
		arrive = max(arrive, c.order[k])
		if q.kind == reqWrite {
			c.order[k] = max(c.order[k], drain)
		}
	}
	if q.ordered {
		k := q.path()
		arrive = max(arrive, c.order[k])
		c.order[k] = arrive
	}
	for i, at := range [...]uint64{accept, leave, drain, arrive, arrive + c.someTime()} {
		c.schedule(at, q, step(i))
	}
}

func (c *Chip) someTime() uint64 { return 1 + c.random()%uint64(c.cfg.Delay) }

func (q *request) perform(do step) {
	switch do {
	case stepAccept:
		q.accept()
	case stepLeave:
		q.leave()
	case stepDrain:
		q.drain()
	case stepArrive:
		q.arrive()
	case stepRespond:
		if !q.away {
			q.respond()
		}
	case stepFinish:
		q.finish()
	}
}

// event is a step of a request or packet in flight.
type event struct {
	at uint64
	of stepper
	do step
}

// schedule schedules a step after all others at the same time.
func (s *sched) schedule(at uint64, of stepper, do step) {
	i, _ := slices.BinarySearchFunc(s.events, at+1, func(e event, at uint64) int { return cmp.Compare(e.at, at) })
	s.events = slices.Insert(s.events, i, event{at, of, do})
}

// stepper is a NoC request or an Ethernet packet.
type stepper interface{ perform(step) }

type step uint8

const (
	stepAccept step = iota
	stepLeave
	stepDrain
	stepArrive
	stepRespond
	stepFinish // both, of a request that a Schedule held
	stepEthSend
	stepEthLand
)
