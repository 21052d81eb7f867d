package emu

// cell is what is known of a word of memory.
type cell struct {
	w      epoch    // last write
	r      [2]epoch // reads since, of which two are remembered
	wpc    uint32
	rpc    [2]uint32
	common bool // several agents write it without an edge, and mean to: shadow.common holds what they knew
}

const shadowWords = 256

// shadow is what is known of a memory.
type shadow struct {
	low    []*shadowPage          // of a small memory, all of it
	high   map[uint64]*shadowPage // of a large one, what was used
	common map[uint64]clock
	told   map[uint32]clock // by register: what those knew who stored there
}

type shadowPage [shadowWords]cell

func newShadow(size uint32) *shadow {
	return &shadow{low: make([]*shadowPage, size/4/shadowWords), high: map[uint64]*shadowPage{}, common: map[uint64]clock{}, told: map[uint32]clock{}}
}

// at returns the cell of the word that holds addr.
func (s *shadow) at(addr uint64) *cell {
	n := addr / 4 / shadowWords
	if n < uint64(len(s.low)) {
		p := s.low[n]
		if p == nil {
			p = new(shadowPage)
			s.low[n] = p
		}
		return &p[addr/4%shadowWords]
	}
	p := s.high[n]
	if p == nil {
		p = new(shadowPage)
		s.high[n] = p
	}
	return &p[addr/4%shadowWords]
}

// share makes the word one that several agents write.
func (s *shadow) share(o *order, addr uint64, c *cell, by clock) {
	if !c.common {
		s.common[addr&^3] = o.released(c.w)
		*c = cell{common: true}
	}
	s.common[addr&^3] = s.common[addr&^3].join(by)
}

// learned is what a load of the word tells.
func (s *shadow) learned(o *order, addr uint64, c *cell) clock {
	if c.common {
		return s.common[addr&^3]
	}
	return o.released(c.w)
}

// clash is an access without an edge to the one before.
type clash struct {
	addr  uint64
	e     epoch // the access before
	pc    uint32
	wrote bool // it was a write
}

// wrote is a write to the word that holds addr, as a whole or not, by s through component; same says that it changes
// nothing.
func (s *shadow) wrote(o *order, by *stamp, component int, addr uint64, whole, same bool) (clash, bool) {
	c := s.at(addr)
	trusted := by.agent.core == nil
	switch {
	case c.common:
		if !whole || !by.clock().covers(s.common[addr&^3]) {
			s.share(o, addr, c, s.writes(by, component))
			return clash{}, true
		}
		delete(s.common, addr&^3)
		*c = cell{}
	case c.w.agent() != by.agent.index && !by.sees(c.w):
		if !whole || same || trusted {
			s.share(o, addr, c, s.writes(by, component))
			return clash{}, true
		}
		return clash{addr &^ 3, c.w, c.wpc, true}, false
	case !whole && c.w != 0 && c.w.agent() != by.agent.index:
		s.share(o, addr, c, s.writes(by, component))
		return clash{}, true
	}
	if !same {
		if !trusted {
			for i, r := range c.r {
				if r.agent() != by.agent.index && !by.sees(r) {
					return clash{addr &^ 3, r, c.rpc[i], false}, false
				}
			}
		}
		c.r = [2]epoch{}
	}
	c.w, c.wpc = by.epoch(component), by.pc
	return clash{}, true
}

// writes is what a write tells whoever sees it: through L1 it comes after all stores to L1 before it.
func (s *shadow) writes(by *stamp, component int) clock {
	if component == l1Stores {
		return full(by.agent.index, by.known, by.time, by.time)
	}
	return by.clock()
}

// stampRead remembers a read.
func (c *cell) stampRead(by *stamp) {
	if c.common {
		return
	}
	i := 0
	for j, r := range c.r {
		if r == 0 || r.agent() == by.agent.index || by.sees(r) {
			i = j
			break
		}
	}
	c.r[i], c.rpc[i] = by.epoch(programs), by.pc
}

// wroteRange is a write of n bytes through a NoC or by the host. unchanged tells of a word whether it keeps its value.
func (s *shadow) wroteRange(o *order, by *stamp, addr uint64, n int, unchanged func(i int) bool) (clash, bool) {
	end := addr + uint64(n)
	for i, a := 0, addr&^3; a < end; i, a = i+1, a+4 {
		whole := a >= addr && a+4 <= end
		if cl, ok := s.wrote(o, by, programs, a, whole, unchanged != nil && unchanged(i)); !ok {
			return cl, false
		}
	}
	return clash{}, true
}

// readRange is a read of n bytes through a NoC. Up to a flit of 16 bytes may be a poll, which learns what it reads.
func (s *shadow) readRange(o *order, by *stamp, addr uint64, n int) (clash, bool) {
	for a := addr &^ 3; a < addr+uint64(n); a += 4 {
		c := s.at(a)
		switch {
		case c.common || !by.sees(c.w) && (n <= 16 || by.agent.core == nil) && c.w.agent() != by.agent.index:
			by.agent.learn(s.learned(o, a, c))
		case !by.sees(c.w):
			return clash{a, c.w, c.wpc, true}, false
		}
		if by.agent.core != nil {
			c.stampRead(by)
		}
	}
	return clash{}, true
}

// atomic is an atomic: the word belongs to several agents from now on. Who uses the old value learns what it tells.
func (s *shadow) atomic(o *order, by *stamp, addr uint64, component int, learns bool) {
	c := s.at(addr)
	if learns {
		by.agent.learn(s.learned(o, addr, c))
	}
	s.share(o, addr, c, s.writes(by, component))
}
