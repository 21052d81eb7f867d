package emu

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
)

// In a window (see the package's documentation) a goroutine that runs a tile touches state of that
// tile only, its own hand, and what nothing changes meanwhile: the chip's clock, events and
// configuration, DRAM, and translated code. All else that cores do, down to waking each other and
// refusals, goes by way of tile.outbox, which is nil outside windows.

const (
	// minTiles is how many tiles make a window. Cores of fewer have their slices one after another:
	// they mostly wait for each other.
	minTiles = 4
	// maxWindow is how many instructions a window has, roughly. The host waits for its end.
	maxWindow = 1 << 21
	// worthWaking is how many instructions of a window are worth waking another goroutine.
	worthWaking = 20000
	// maxTileTurns is how many slices cores of a tile have in a window, and maxTileUsed after how
	// many instructions none has another one.
	maxTileTurns = 64
	maxTileUsed  = 1 << 14
	// A core waits for the end of the window if its tile's outbox has so many requests or words of
	// data: fewer than the 8 bits of a counter of unanswered requests hold.
	maxOutbox      = 128
	maxOutboxWords = 16 << 10
)

// workerState is the scratch state of one goroutine that runs cores.
type workerState struct {
	lines *[decodedLines]decodedLine // by the line's number, modulo their number; nil until code runs
	spare *request                   // for the next one, or nil
}

// hand returns the hand of the goroutine that runs the tile.
func (t *tile) hand() *workerState {
	if b := t.outbox; b != nil {
		return b.hand
	}
	return &t.chip.hand
}

// outbox is what a tile does in a window to others, and to what it shares with them.
type outbox struct {
	tile  *tile
	hand  *workerState
	draw  splitmix
	turns []*core // those that have had one are in front
	ran   int     // of turns

	requests  []request
	stores    []dramStore // that come before all requests
	data      []uint32    // of both
	words     int         // of data, in all
	readsDRAM bool        // one of requests does
	awaited   [2][5]uint8 // responses that cores wait for, by NoC and core: a bit for each requestKind

	used, longest int    // instructions in all, and of one core
	moved         uint64 // bytes, over NoCs
	hot           []hotLine
	fault         error
}

// dramStore is a write to DRAM that was answered at once.
type dramStore struct {
	bank, n int
	addr    uint64
	data    []uint32
}

// hotLine is a line to be translated when no code runs.
type hotLine struct {
	page *codePage
	base uint32
	line int
}

// wide reports whether so many tiles have runnable cores that they run in a window.
func (s *sched) wide() bool {
	cfg := &s.chip.cfg
	if !cfg.Parallel || len(s.queue)-s.pos < minTiles || cfg.Delay > 0 || cfg.RefuseCounters || cfg.checks() {
		return false
	}
	var seen [minTiles]*tile
	n := 0
next:
	for _, k := range s.queue[s.pos:] {
		for _, t := range seen[:n] {
			if t == k.tile {
				continue next
			}
		}
		if k.tile.kind != chip.Tensix {
			continue
		}
		if seen[n], n = k.tile, n+1; n == minTiles {
			return true
		}
	}
	return false
}

// window runs the cores of tiles that it draws, and returns the number of instructions.
func (s *sched) window() int {
	boxes, weight := s.gather()
	n := 1
	if weight >= worthWaking {
		n = min(s.workers(), len(boxes))
	}
	for len(s.parts) < n {
		s.parts = append(s.parts, new(part))
	}
	for _, p := range s.parts {
		p.boxes = p.boxes[:0]
		p.next.Store(0)
	}
	for _, b := range boxes {
		p := s.parts[b.tile.number%n]
		p.boxes = append(p.boxes, b)
	}
	s.unrun.Store(int32(len(boxes)))
	s.lane.Store(0)
	s.crew.Run(n, n, func(i int) { s.runPart(boxes, i, n) })
	used := 1
	for _, b := range boxes {
		used += b.used
		s.rejoin(b)
	}
	for _, b := range boxes {
		b.deliver(s.chip)
	}
	return used
}

// gather draws tiles among those whose cores have not run in the round, and gives each an outbox.
// It returns them, and how many instructions they may execute.
func (s *sched) gather() (boxes []*outbox, weight int) {
	for end := len(s.queue); s.pos < end && weight < maxWindow; {
		at := s.pos + int(s.random()%uint64(end-s.pos))
		t := s.queue[at].tile
		if t.kind != chip.Tensix { // its cores run alone
			end--
			s.swap(at, end)
			continue
		}
		if len(boxes) == len(s.boxes) {
			s.boxes = append(s.boxes, new(outbox))
		}
		b := s.boxes[len(boxes)]
		boxes = s.boxes[:len(boxes)+1]
		b.tile, t.outbox = t, b
		b.draw = splitmix(s.random())
		for _, k := range t.cores {
			if k.queueIndex >= s.pos {
				s.swap(s.pos, k.queueIndex)
				s.pos++
				b.enqueue(k)
				weight += min(k.slice, maxSlice)
			}
		}
	}
	return boxes, weight
}

// part is the tiles of a window that one goroutine runs.
type part struct {
	boxes []*outbox
	next  atomic.Int32 // of boxes
	hand  workerState
}

// runPart runs the tiles of part i of n. A part has the same tiles in each window, so that their
// memory stays in the caches of one processor. Then it runs what others have not got to, waits for
// what they run, and does the same with writes to DRAM.
func (s *sched) runPart(boxes []*outbox, i, n int) {
	for j := range n {
		p, ran := s.parts[(i+j)%n], int32(0)
		for k := p.next.Add(1); int(k) <= len(p.boxes); k = p.next.Add(1) {
			p.boxes[k-1].run(s, &s.parts[i].hand)
			ran++
		}
		s.unrun.Add(-ran)
	}
	for s.unrun.Load() > 0 {
		runtime.Gosched()
	}
	s.storeDRAM(boxes, n)
}

// enqueue gives a core that can run a turn in the window.
func (b *outbox) enqueue(k *core) {
	if !k.listed {
		k.listed = true
		b.turns = append(b.turns, k)
	}
}

// run runs the cores of the tile, each for a slice, and those that they wake. It may do so beside
// other tiles.
func (b *outbox) run(s *sched, h *workerState) {
	b.hand = h
	for b.ran < min(len(b.turns), maxTileTurns) && b.fault == nil {
		at := b.ran + int(b.draw.next()%uint64(len(b.turns)-b.ran))
		b.turns[b.ran], b.turns[at] = b.turns[at], b.turns[b.ran]
		k := b.turns[b.ran]
		b.ran++
		k.listed = false
		if k.state != runnable { // another one has put it into reset
			continue
		}
		n, more := s.slice(k, &b.draw)
		k.base += n
		b.longest = max(b.longest, k.base+int(k.ahead))
		if b.used += n; more && b.used < maxTileUsed {
			b.enqueue(k)
		}
	}
}

// rejoin ends the window for a tile: its cores are in the chip's queue again, those that ran as
// such.
func (s *sched) rejoin(b *outbox) {
	t := b.tile
	t.outbox = nil
	for i, k := range b.turns {
		k.listed, k.base = false, 0
		switch {
		case k.state != runnable:
			s.dequeue(k)
		case k.queueIndex < 0:
			s.enqueue(k)
			if i < b.ran {
				s.swap(s.pos, k.queueIndex)
				s.pos++
			}
		}
	}
	for _, k := range t.cores { // those that others have stopped
		if k.state != runnable {
			s.dequeue(k)
		}
	}
	s.turns += b.ran
	s.longest = max(s.longest, b.longest)
	s.chip.moved += b.moved
	if e := t.tensix.engines; e != nil && len(e.ops) > 0 {
		s.await(e)
	}
	for _, h := range b.hot {
		if h.page.code[h.line] == nil && h.page.decoded(h.line) && !t.adopt(h.page, h.base, h.line) {
			t.translate(h.page, h.base, h.line)
		}
	}
	b.turns, b.ran, b.used, b.longest, b.moved, b.hot = b.turns[:0], 0, 0, 0, 0, b.hot[:0]
}

// post puts a request that has left into the outbox. What of it is the tile's own is done. Reads
// and writes of DRAM, which nothing changes in a window, end at once unless they might overtake
// another one of the tile's.
func (b *outbox) post(q *request) bool {
	switch {
	case q.kind == reqRead && b.readsNow(q.from, q.fromAddr, uint64(q.n)):
		d := b.tile.chip.drams[q.from.bank]
		mergeTime(&b.tile.newest, &d.newest)
		if q.data = d.view(q.fromAddr, q.n); q.data == nil {
			d.read(q.fromAddr, q.n, q.buffer())
		}
		b.moved += uint64(q.n)
		return q.respond()
	case !q.drain():
		return false
	case q.kind == reqWrite && !q.multicast && b.storesSoon(q.to, q.toAddr):
		b.stores = append(b.stores, dramStore{q.to.bank, q.n, q.toAddr, q.data})
		b.moved += uint64(q.n)
		q.acks++
		return q.respond()
	}
	k := q.o.core
	if q.kind == reqRead || q.marked {
		b.awaited[q.noc][k.hw] |= 1 << q.kind
	}
	q.pc = k.pc
	b.readsDRAM = b.readsDRAM || q.kind == reqRead && q.from.kind == chip.DRAM
	b.requests = append(b.requests, *q)
	return true
}

// readsNow reports whether n bytes are of DRAM, in which everything is that the tile has written to
// where they are.
func (b *outbox) readsNow(from *endpoint, addr, n uint64) bool {
	if from.kind != chip.DRAM || len(b.requests) > 0 || addr >= b.tile.chip.drams[from.bank].size {
		return false
	}
	for i := range b.stores {
		if s := &b.stores[i]; s.bank == from.bank && s.addr < addr+n && addr < s.addr+uint64(s.n) {
			return false
		}
	}
	return true
}

// storesSoon reports whether a write to an address is to DRAM and may come before all requests in
// outboxes: none that the tile has started earlier reads DRAM. So whoever is told of it finds it
// there, and its answer needn't wait.
func (b *outbox) storesSoon(to *endpoint, addr uint64) bool {
	return to.kind == chip.DRAM && addr < b.tile.chip.drams[to.bank].size && !b.readsDRAM
}

// room returns room for n words of a request's data, until the end of the window.
func (b *outbox) room(n int) []uint32 {
	if cap(b.data)-len(b.data) < n {
		b.data = make([]uint32, 0, max(2*cap(b.data), n, 256)) // requests keep the old one
	}
	at := len(b.data)
	b.data = b.data[:at+n]
	b.words += n
	return b.data[at : at+n : at+n]
}

// storeDRAM does the writes to DRAM of all outboxes, which take most of the time of delivering
// requests, to one lane of banks after the other until others do all the rest.
func (s *sched) storeDRAM(boxes []*outbox, lanes int) {
	for {
		lane := int(s.lane.Add(1)) - 1
		if lane >= lanes {
			return
		}
		for _, b := range boxes {
			for i := range b.stores {
				if w := &b.stores[i]; w.bank%lanes == lane {
					d := s.chip.drams[w.bank]
					mergeTime(&d.newest, &b.tile.newest)
					d.write(w.addr, w.n, w.data)
				}
			}
		}
	}
}

// full reports whether no further request may be posted. A tile that isn't in a window has no
// outbox.
func (b *outbox) full() bool {
	return b != nil && (len(b.requests) >= maxOutbox || len(b.stores) >= maxOutbox || b.words >= maxOutboxWords)
}

// awaits reports whether a counter will count responses to requests of core k when the window ends,
// so that k waits for that.
func (b *outbox) awaits(k *core, noc int, counter uint32) bool {
	if b == nil || k == nil {
		return false
	}
	kinds := b.awaited[noc][k.hw]
	switch {
	case kinds == 0:
		return false
	case counter == cntReadResp || counter == cntReadWords:
		kinds &= 1 << reqRead
	case counter == cntWriteAck:
		kinds &= 1<<reqWrite | 1<<reqInline
	case counter == cntAtomicResp:
		kinds &= 1 << reqAtomic
	case counter < cntOutstanding || counter >= cntOutgoing:
		return false
	}
	return kinds != 0
}

// deliver takes the requests of an outbox to where they go, after all tiles of the window have
// rejoined the chip, and stops the chip for what the tile was refused.
func (b *outbox) deliver(c *Chip) {
	for i := range b.requests {
		q := &b.requests[i]
		if c.fault != nil {
			break
		}
		ok := q.finish()
		if r := (*Refusal)(nil); !ok && errors.As(c.fault, &r) && r.HasCore {
			r.PC = q.pc // its core has gone on
		}
	}
	if c.fault == nil && b.fault != nil {
		c.fault = b.fault
		c.announceFault()
	}
	b.requests, b.stores, b.data, b.words, b.readsDRAM, b.fault = b.requests[:0], b.stores[:0], b.data[:0], 0, false, nil
	b.awaited = [2][5]uint8{}
}
