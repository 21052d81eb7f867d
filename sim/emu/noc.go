package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
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

// transfer is what a program asks of the NoC.
type transfer struct {
	kind      requestKind
	marked    bool // non-posted
	multicast bool
	ordered   bool // keeps its place among requests on the same virtual channel to the same target
	include   bool // multicast: its own tile too
	linked    bool // another one of the same transaction follows
	vc        uint8
	rect      [4]uint8 // multicast: x0, y0, x1, y1, raw NoC 0, in ascending order
	id        uint32

	from     *endpoint // read: the source
	to       *endpoint // write, inline, atomic: the target, unless multicast
	fromAddr uint64
	toAddr   uint64
	n        int
	word     uint32 // inline and atomic
	op       uint32 // atomic: LEN_BE
}

// request is a transfer between the store that starts it and its last response. It is prepared, checked, and then applied in five
// steps: accept, leave, drain, arrive, respond. A delay performs them as events; a window performs the last two at its end.
type request struct {
	transfer
	o    origin
	tile *tile // that started it
	niu  *niu  // of tile
	noc  int
	buf  int

	targets []*endpoint // multicast
	flits   uint32      // that carry the data
	data    []uint32
	acks    int
	plain   bool          // only copies between places that nothing checks
	atOnce  bool          // also, before anybody could see that it isn't answered: it is in no counter of unanswered ones
	away    bool          // at another card, whose answer a copy of it waits for
	flight  *check.Flight // with Config.RefuseRaces
	pc      uint32        // in a window: where it was started
}

// posted returns 1 for a posted request: the offset from a non-posted counter to its posted neighbour.
func (q *request) posted() uint32 { return word.Bool(!q.marked) }

// known returns what a coordinate means, or nil if it was not used so far or is none.
func (c *Chip) known(noc int, coord uint32) *endpoint {
	if coord >= uint32(len(c.routes[noc])) {
		return nil
	}
	return c.routes[noc][coord].Load()
}

// resolve finds the tile that software means with a coordinate on a NoC.
func (c *Chip) resolve(o origin, where string, noc int, coord uint32) *endpoint {
	if ep := c.known(noc, coord); ep != nil {
		return ep
	}
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
	ep := &c.grid[raw.Y][raw.X]
	c.routes[noc][coord].Store(ep)
	return ep
}

// start begins the request in command buffer i.
func (t *tile) start(o origin, noc, i int) slowResult {
	h := t.hand()
	q := h.spare
	if h.spare = nil; q == nil { // also where the arrival of a request starts another one
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

// finish does what remains of a request that has left its NIU.
func (q *request) finish() bool { return q.arrive() && (q.away || q.respond()) }

// count counts a request as started, or refuses one that its NIU can't count, or that the checks by option refuse.
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
	if q.atOnce = q.plain && t.outbox == nil && u.open[q.id] < 255; q.atOnce {
		return true
	}
	if q.kind == reqRead || q.marked {
		if u.open[q.id] >= 255 {
			return q.refuse(UndefinedBehavior, q.toAddr,
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

// follow checks that a request goes where the unfinished transaction before it went, and notes whether it ends it. On
// silicon the NoC fails otherwise (tt-isa-documentation WormholeB0/NoC/MemoryMap.md).
func (u *niu) follow(q *request) bool {
	l := link{to: q.to, rect: q.rect}
	if q.kind == reqRead {
		l.to = q.from
	}
	if u.unfinished && u.linked != l {
		q.tile.chip.refuse(q.o, UndefinedBehavior, "noc", q.toAddr,
			"a transaction was begun with VC_LINKED, and this request, which belongs to it, goes elsewhere")
		return false
	}
	u.linked, u.unfinished = l, q.linked
	return true
}

// bump8 adds to a counter of 8 bits.
func (u *niu) bump8(i, by uint32) { u.count[i] = (u.count[i] + by) & 0xFF }
