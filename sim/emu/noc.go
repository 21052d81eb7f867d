package emu

import "github.com/reprise-tt/reprise/chip"

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
	flits    uint32 // that carry the data
	word     uint32 // inline and atomic
	op       uint32 // atomic: LEN_BE
	data     []uint32
	acks     int
	away     bool    // at another card, whose answer a copy of it waits for
	flight   *flight // with Config.RefuseRaces
	by       *stamp  // the same
	pc       uint32  // in a window: where it was started
}

// posted returns 1 for a posted request: the offset from a non-posted counter to its posted
// neighbour.
func (q *request) posted() uint32 { return b2u(!q.marked) }

// resolve finds the tile that software means with a coordinate on a NoC.
func (c *Chip) resolve(o origin, where string, noc int, coord uint32) *endpoint {
	if coord < uint32(len(c.routes[noc])) {
		if ep := c.routes[noc][coord].Load(); ep != nil {
			return ep
		}
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

// start begins the request in command buffer i: it checks everything that can be checked before
// anything moves.
func (t *tile) start(o origin, noc, i int) slowResult {
	c, u := t.chip, &t.niu[noc]
	b := &u.buf[i]
	q := &request{o: o, tile: t, noc: noc, buf: i, id: b[bufTag] >> 10 & 15}
	if !t.prepare(b, q) || !u.follow(q, b[bufCtrl]&ctrlLinked != 0) {
		return slowHalt
	}
	q.flits = c.flits(q.n)
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
			c.refuse(o, UndefinedBehavior, "noc", q.toAddr, "more than 255 requests with transaction id %d are unanswered: its counter has 8 bits",
				q.id)
			return slowHalt
		}
		u.bump8(cntOutstanding+q.id, 1)
	}
	if q.kind == reqWrite {
		u.bump8(cntOutgoing+q.id, 1)
	}
	if c.cfg.Delay > 0 {
		b[bufBusy] = 1
		c.delay(q)
		return slowDone
	}
	q.accept()
	if t.outbox != nil {
		return t.outbox.post(q)
	}
	if !q.leave() || !q.drain() || !q.arrive() || !q.away && !q.respond() {
		return slowHalt
	}
	return slowDone
}

// follow checks that a request goes where the unfinished transaction before it went, and notes
// whether it ends it. On silicon the NoC fails otherwise (tt-isa-documentation
// WormholeB0/NoC/MemoryMap.md).
func (u *niu) follow(q *request, linked bool) bool {
	if !u.unfinished && !linked {
		return true
	}
	l := link{to: q.to, rect: q.rect}
	if q.kind == reqRead {
		l.to = q.from
	}
	if u.unfinished && u.linked != l {
		q.tile.chip.refuse(q.o, UndefinedBehavior, "noc", q.toAddr,
			"a transaction was begun with VC_LINKED, and this request, which belongs to it, goes elsewhere")
		return false
	}
	u.linked, u.unfinished = l, linked
	return true
}

// bump8 adds to a counter of 8 bits.
func (u *niu) bump8(i, by uint32) { u.count[i] = (u.count[i] + by) & 0xFF }

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
