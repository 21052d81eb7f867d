package emu

import "container/heap"

// event is a step of a request in flight.
type event struct {
	at  uint64
	seq uint64 // breaks ties in the order of creation
	q   *request
	do  step
}

type step uint8

const (
	stepAccept step = iota
	stepLeave
	stepArrive
	stepRespond
)

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push and Pop implement heap.Interface.
func (h *eventHeap) Push(x any) { *h = append(*h, x.(event)) }

// Pop implements heap.Interface.
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// orderKey names requests that do not overtake each other: same source, NoC and virtual channel, asked for with
// VC_STATIC, and same destination (tt-isa-documentation WormholeB0/NoC/Ordering.md). Multicasts have channels of
// their own.
type orderKey struct {
	tile      *tile
	noc       int
	vc        uint8
	multicast bool
	to        *endpoint
}

// delay puts a request in flight.
func (c *Chip) delay(q *request) {
	f := *q
	f.data = nil
	now := c.now(q.o)
	accept := now + c.someTime()
	leave := accept + c.someTime()
	arrive := leave + c.someTime()
	if q.ordered {
		k := orderKey{q.tile, q.noc, q.vc, q.multicast, q.to}
		if q.kind == reqRead {
			k.to = q.from
		}
		arrive = max(arrive, c.order[k])
		c.order[k] = arrive
	}
	for i, at := range [4]uint64{accept, leave, arrive, arrive + c.someTime()} {
		c.eventSeq++
		heap.Push(&c.events, event{at, c.eventSeq, &f, step(i)})
	}
}

// someTime draws a delay.
func (c *Chip) someTime() uint64 { return 1 + c.random()%uint64(c.cfg.Delay) }

// runEvents does what is due.
func (s *sched) runEvents() {
	for len(s.events) > 0 && s.events[0].at <= s.clock && s.chip.fault == nil {
		e := heap.Pop(&s.events).(event)
		switch e.do {
		case stepAccept:
			e.q.accept()
		case stepLeave:
			e.q.leave()
		case stepArrive:
			e.q.arrive()
		case stepRespond:
			e.q.respond()
		}
	}
}
