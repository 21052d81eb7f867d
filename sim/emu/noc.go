package emu

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

type endpoint struct {
	xy        chip.XY
	kind      chip.TileKind
	tile      *tile
	bank      int
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
	ctrlVC          = 7 << 13
	ctrlSrcInclude  = 1 << 17
)

type requestKind uint8

const (
	reqRead requestKind = iota
	reqWrite
	reqInline
	reqAtomic
)

type transfer struct {
	kind      requestKind
	marked    bool
	multicast bool
	ordered   bool // by virtual channel and target
	include   bool // the sender too
	linked    bool // its transaction goes on
	vc        uint8
	rect      [4]uint8 // x0, y0, x1, y1, raw NoC 0, ascending
	id        uint32

	from     *endpoint // of a read
	to       *endpoint // of others, unless multicast
	fromAddr uint64
	toAddr   uint64
	n        int
	word     uint32 // inline and atomic
	op       uint32 // atomic: LEN_BE
}

// request is a transfer under way. It is prepared, checked, and applied in five steps: accept,
// leave, drain, arrive, respond. A delay makes them events; a window does the last two at its end.
type request struct {
	transfer
	o    origin
	tile *tile
	niu  *niu
	noc  int
	buf  int

	targets []*endpoint
	flits   uint32
	data    []uint32
	acks    int
	away    bool               // a copy waits for another card's answer
	flight  *check.Flight      // with RefuseRaces
	step    *schedules.Request // with a Schedule
	pc      uint32             // in a window: of its start
}

// posted is the offset from a non-posted counter to its posted neighbour.
func (q *request) posted() uint32 { return word.Bool(!q.marked) }

// known returns what a coordinate means if it was used before, or nil.
func (c *Chip) known(noc int, coord uint32) *endpoint {
	if coord >= uint32(len(c.routes[noc])) {
		return nil
	}
	return c.routes[noc][coord].Load()
}

func (c *Chip) resolve(o origin, where string, noc int, coord uint32) *endpoint {
	if ep := c.known(noc, coord); ep != nil {
		return ep
	}
	if coord > 0xFFF {
		c.refuse(o, unsupported, where, uint64(coord), "coordinate %#x has bits beyond x and y", coord)
		return nil
	}
	v := chip.XY{X: uint8(coord & 63), Y: uint8(coord >> 6)}
	raw, err := c.topology.Translate(chip.NOC(noc), v)
	if err != nil {
		c.refuse(o, unimplemented, where, uint64(coord), "coordinate %v: %v", v, err)
		return nil
	}
	ep := &c.grid[raw.Y][raw.X]
	c.routes[noc][coord].Store(ep)
	return ep
}

// start begins the request in command buffer i.
func (t *tile) start(o origin, noc, i int) slowResult {
	h := t.hand()
	q := h.spare
	if h.spare = nil; q == nil { // also where a request's arrival starts another
		q = new(request)
	}
	q.o, q.tile, q.niu, q.noc, q.buf = o, t, &t.niu[noc], noc, i
	if !q.prepare(&q.niu.buf[i]) || !q.count() {
		return slowHalt
	}
	if t.chip.cfg.Delay > 0 {
		q.niu.buf[i][bufBusy] = 1
		t.chip.delay(q)
		return slowDone
	}
	q.accept()
	q.leave()
	if k := o.core; k != nil && k.thread != nil {
		q.step = k.thread.Request(q.ordered, q.pathName(), k.pc, func() { t.chip.schedule(t.chip.clock, q, stepFinish) })
		if q.drain() && (q.step.Waits() || q.finish()) {
			return slowDone
		}
		return slowHalt
	}
	if t.outbox != nil {
		if !t.outbox.post(q) {
			return slowHalt
		}
	} else if !q.drain() || !q.finish() {
		return slowHalt
	}
	h.spare = q
	return slowDone
}

// pathName is what an ordered request's path is to its tile.
func (q *request) pathName() string {
	to := any(q.rect)
	if k := q.path(); k.to != nil {
		to = k.to.xy
	}
	return fmt.Sprintf("NoC %d VC %d to %v", q.noc, q.vc, to)
}

// touches tells a Schedule that the request is about to use n bytes of a tile.
func (q *request) touches(t *tile, addr uint64, n int, kind schedules.Kind) {
	if q.step == nil || t == nil || t.kind != chip.Tensix {
		return
	}
	if q.kind == reqAtomic && q.op>>12&15 == atomicIncrement {
		kind = schedules.Addition
	}
	for a := addr &^ 3; a < addr+uint64(n); a += 4 {
		if at, _, kind, ok := t.shared(uint32(a), kind); ok {
			q.step.Access(t.xy, at, kind)
		}
	}
}

func (q *request) finish() bool {
	ok := q.arrive() && (q.away || q.respond())
	if q.step != nil {
		q.step.Done()
	}
	return ok
}

// count counts a request as started, or refuses it.
func (q *request) count() bool {
	t, u := q.tile, q.niu
	if (q.linked || u.unfinished) && !u.follow(q) {
		return false
	}
	if c := t.chip.check; c != nil {
		var ok bool
		if q.flight, ok = c.Start(q.checked()); !ok {
			return false
		}
	}
	q.flits = t.chip.flits(q.n)
	u.unread |= 1 << q.id
	u.unsent |= 1 << q.id
	if q.kind == reqRead || q.marked {
		if u.open[q.id] >= 255 {
			return q.refuse(undefined, q.toAddr,
				"more than 255 requests with transaction id %d are unanswered: its counter has 8 bits", q.id)
		}
		u.open[q.id]++
		u.bump8(cntOutstanding+q.id, 1)
	}
	if q.kind == reqWrite {
		u.bump8(cntOutgoing+q.id, 1)
	}
	return true
}

// follow refuses a request that leaves the path of its unfinished transaction, at which silicon's
// NoC fails (tt-isa-documentation WormholeB0/NoC/MemoryMap.md).
func (u *niu) follow(q *request) bool {
	l := link{to: q.to, rect: q.rect}
	if q.kind == reqRead {
		l.to = q.from
	}
	if u.unfinished && u.linked != l {
		return q.tile.chip.refuse(q.o, undefined, "noc", q.toAddr,
			"a transaction was begun with VC_LINKED, and this request, which belongs to it, goes elsewhere")
	}
	u.linked, u.unfinished = l, q.linked
	return true
}

func (u *niu) bump8(i, by uint32) { u.count[i] = (u.count[i] + by) & 0xFF }

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

// leave makes the packet begin to leave. A write's data are read later.
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

// drain makes the packet have left: a write's data are read.
func (q *request) drain() bool {
	if q.kind != reqWrite {
		return true
	}
	t := q.tile
	if !t.chip.readL1(q.o, t, uint32(q.fromAddr), q.n, q.buffer()) {
		return false
	}
	q.niu.bump8(cntOutgoing+q.id, ^uint32(0))
	t.changed(classNIU0 << q.noc)
	return true
}

func (q *request) buffer() []uint32 {
	n, t := word.Span(q.fromAddr, q.n), q.tile
	switch {
	case t.chip.cfg.Delay > 0 || q.step != nil: // others may be under way
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
	if q.flight == nil {
		return q.apply()
	}
	checks := q.tile.chip.check
	checks.Arrive(q.flight)
	ok := q.apply()
	checks.Leave()
	return ok
}

func (q *request) apply() bool {
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

// read reads a read's data, or asks another card, which answers later.
func (q *request) read() bool {
	c := q.tile.chip
	c.moved += uint64(q.n)
	if t := q.from.tile; t != nil {
		t.countRead(q.noc, q.flits)
	}
	q.touches(q.from.tile, q.fromAddr, q.n, schedules.Load)
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

func (q *request) put(where string, ep *endpoint) bool {
	c := q.tile.chip
	q.touches(ep.tile, q.toAddr, q.n, schedules.Store)
	if !c.writeReachable(q.o, where, ep, q.toAddr, q.n, q.data) {
		return false
	}
	q.acks++
	c.moved += uint64(q.n)
	if t := ep.tile; t != nil {
		t.countWrite(q.noc, q.flits, q.posted())
		t.changedBy(q.o, q.toAddr, uint64(q.n))
	}
	return true
}

// countWrite counts a write at its target; posted is 0 or 1.
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

// atomic performs the operation; q.word becomes the old value.
func (q *request) atomic() bool {
	c, t := q.tile.chip, q.to.tile
	addr := uint32(q.toAddr)
	q.touches(t, q.toAddr, 4, schedules.Store)
	if t.known != nil && !t.written(q.o, "noc atomic", addr, 4, "atomic on") {
		return false
	}
	if t.check != nil && !t.check.Access(q.o.far().checked(), addr, 4, true, true) {
		return false
	}
	if q.flight != nil && !c.check.Atomic(q.flight, t.check, addr, q.op>>12&15 != atomicIncrement) {
		return false
	}
	p := &t.memory(addr + 4)[addr>>2]
	old := *p
	t.use(addr, 4, false)
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
		t.use(addr&^15, 16, true)
	}
	t.stored(addr, 4)
	t.changedBy(q.o, q.toAddr, 4)
	t.use(addr, 4, true)
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

func (q *request) respond() bool {
	t, u := q.tile, q.niu
	if q.kind != reqRead && !q.marked {
		// ttsim answers posted atomics too; silicon doesn't.
		return true
	}
	answered, told := uint32(1), uint32(cntWriteAck)
	switch q.kind {
	case reqRead:
		q.touches(t, q.toAddr, q.n, schedules.Store)
		if q.flight != nil && !t.chip.check.Land(q.flight, q.data) || !t.chip.landL1(q.o, t, uint32(q.toAddr), q.n, q.data) {
			return false
		}
		told = cntReadResp
		u.count[cntReadWords] += q.flits
	case reqAtomic:
		mergeTime(&t.newest, &q.to.tile.newest)
		t.memory(uint32(q.fromAddr) + 4)[q.fromAddr>>2] = q.word
		t.stored(uint32(q.fromAddr), 4)
		t.use(uint32(q.fromAddr), 4, true)
		told = cntAtomicResp
	default:
		answered = uint32(q.acks)
	}
	u.count[told] += answered
	u.open[q.id] = max(0, u.open[q.id]-1)
	u.bump8(cntOutstanding+q.id, -answered)
	if q.step != nil {
		q.step.Tell(niuAddress(q.noc, 0x200+4*told))
		q.step.Tell(niuAddress(q.noc, 0x200+4*(cntOutstanding+q.id)))
	}
	t.changed(classNIU0 << q.noc)
	return true
}

func (c *Chip) flits(n int) uint32 {
	return (uint32(n) + c.params.NOCWord - 1) >> c.flitShift
}
