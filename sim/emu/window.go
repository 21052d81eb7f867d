package emu

import (
	"errors"
	"runtime"

	"github.com/reprise-tt/reprise/chip"
)

// In a window a goroutine that runs a tile touches only that tile, its own workerState, and what
// nothing changes meanwhile: clock, events, configuration, DRAM and translated code. All other
// effects go through tile.outbox, which is nil outside windows.

// wide reports whether enough tiles have runnable cores for a window.
func (s *sched) wide() bool {
	cfg := &s.chip.cfg
	if !cfg.Parallel || len(s.queue)-s.pos < minTiles || cfg.Delay > 0 || cfg.Track || cfg.RefuseCounters ||
		cfg.Launches != nil || cfg.checks() {
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

// window runs the cores of drawn tiles and returns the number of instructions.
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

// gather draws tiles among those whose cores have not run in the round, gives each an outbox, and
// returns the weight in instructions.
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

// runPart runs the tiles of part i of n, always the same so that their memory stays cached. Then it
// helps with other parts, waits for them, and does the same with writes to DRAM.
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

// run runs the cores of the tile and those that they wake.
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

// rejoin puts the tile's cores back into the chip's queue.
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
	for _, k := range t.cores { // stopped by others
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

// storeDRAM does the writes to DRAM of all outboxes, by lanes of banks, until no lane is left.
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

// deliver finishes the requests of an outbox, after all tiles have rejoined, and stops the chip for
// what the tile was refused.
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
