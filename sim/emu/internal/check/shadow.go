package check

import "slices"

// cell is the record of a word of memory.
type cell struct {
	w      epoch    // last write
	before epoch    // the write of other bytes, which happened before w
	r      [2]epoch // reads since, of which two are remembered
	wpc    uint32
	rpc    [2]uint32
	rbytes [2]uint8 // that were read
	bytes  uint8    // from w, one bit each
	older  uint8    // from before
	common bool     // several agents write it without an edge; shadow.common holds what they knew
	atomic bool     // all of them by atomics
}

const (
	shadowWords = 256
	wholeWord   = 15
)

type shadow struct {
	name   string
	low    []*shadowPage          // of a small memory
	high   map[uint64]*shadowPage // of a large one, as used
	common map[uint64]news
	told   map[uint32]*news // by register: from who stored there
}

type shadowPage [shadowWords]cell

func newShadow(name string, size uint32) *shadow {
	return &shadow{name: name, low: make([]*shadowPage, size/4/shadowWords), high: map[uint64]*shadowPage{}, common: map[uint64]news{},
		told: map[uint32]*news{}}
}

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

// bytesAt is a bit for each of the n bytes at addr that lie in the word.
func bytesAt(addr, word uint64, n uint64) uint8 {
	lo, hi := max(addr, word)-word, min(addr+n, word+4)-word
	return uint8(1<<hi - 1<<lo)
}

// last returns the last write of any of bytes that s does not see, or 0.
func (c *cell) last(bytes uint8, s *stamp) epoch {
	if bytes&c.bytes != 0 && !s.sees(c.w) {
		return c.w
	}
	if bytes&c.older != 0 && !s.sees(c.before) {
		return c.before
	}
	return 0
}

// share records that several agents write the word, the latest by. A store to L1 lands after all
// earlier ones.
func (s *shadow) share(o *Chip, addr uint64, c *cell, by *stamp, component int) {
	addr &^= 3
	told := s.tells(o, addr, c)
	*c = cell{common: true}
	tells := *by
	if component == l1Stores {
		tells.landed = by.time
	}
	told.add(tells)
	s.common[addr] = told
}

// tells returns what an agent learns that sees the word.
func (s *shadow) tells(o *Chip, addr uint64, c *cell) news {
	if c.common {
		return s.common[addr&^3]
	}
	return news{o.released(c.w)} // which knew of the write before
}

// clash is an access without an edge to an earlier one.
type clash struct {
	addr  uint64
	e     epoch
	pc    uint32
	wrote bool

	atomic bool // the last of atomics not all known
}

// wrote records a write to bytes of the word at addr, by s through component; same says that it
// changes nothing.
func (s *shadow) wrote(o *Chip, by *stamp, component int, addr uint64, bytes uint8, same bool) (clash, bool) {
	c := s.at(addr)
	trusted := by.agent.core == nil
	if c.common {
		sees := !slices.ContainsFunc(s.common[addr], func(t stamp) bool { return !t.before(by) })
		if c.atomic && !sees && !trusted && !same {
			return clash{addr: addr, pc: c.wpc, atomic: true}, false
		}
		if bytes != wholeWord || !sees {
			s.share(o, addr, c, by, component)
			return clash{}, true
		}
		delete(s.common, addr)
		*c = cell{}
	}
	if e := c.last(bytes, by); e != 0 && e.agent() != by.agent.index {
		if same || trusted {
			s.share(o, addr, c, by, component)
			return clash{}, true
		}
		return clash{addr, e, c.wpc, true, false}, false
	}
	if !same {
		if !trusted {
			for i, r := range c.r {
				if c.rbytes[i]&bytes != 0 && r.agent() != by.agent.index && !by.sees(r) {
					return clash{addr, r, c.rpc[i], false, false}, false
				}
			}
		}
		for i := range c.r {
			if c.rbytes[i] &^= bytes; c.rbytes[i] == 0 {
				c.r[i] = 0
			}
		}
	}
	switch left := (c.bytes | c.older) &^ bytes; {
	case left&c.bytes == 0:
		c.older = left
	case left&c.older == 0 && (c.w.agent() == by.agent.index || by.sees(c.w)):
		c.before, c.older = c.w, left
	default: // the bytes of three writes, or of two without an edge
		s.share(o, addr, c, by, component)
		return clash{}, true
	}
	c.bytes = bytes
	c.w, c.wpc = by.epoch(component), by.pc
	return clash{}, true
}

// unfinished is the time of an access that isn't known to be over.
const unfinished = 1<<epochBits - 1

// finished and stored record that a program knows the end of its read, or write, of n bytes at
// addr.
func (s *shadow) finished(a *agent, addr uint64, n int, t uint64) {
	e := epoch(a.index*components+programs) << epochBits
	for at := addr &^ 3; at < addr+uint64(n); at += 4 {
		c := s.at(at)
		for i, r := range c.r {
			if r == e|unfinished {
				c.r[i] = e | epoch(t)
			}
		}
	}
}

func (s *shadow) stored(a *agent, addr uint64, n int, t uint64) {
	e := epoch(a.index*components+programs) << epochBits
	for at := addr &^ 3; at < addr+uint64(n); at += 4 {
		if c := s.at(at); c.w == e|unfinished {
			c.w = e | epoch(t)
		} else if c.before == e|unfinished {
			c.before = e | epoch(t)
		}
	}
}

func (c *cell) stampRead(by *stamp, bytes uint8) {
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
	if c.r[i].agent() == by.agent.index { // of other bytes before
		bytes |= c.rbytes[i]
	}
	c.r[i], c.rpc[i], c.rbytes[i] = by.epoch(programs), by.pc, bytes
}

// wroteRange records a write of n bytes through a NoC or by the host. open means until
// shadow.stored says so; unchanged reports whether word i keeps its value.
func (s *shadow) wroteRange(o *Chip, by *stamp, addr uint64, n int, open bool, unchanged func(i int) bool) (clash, bool) {
	end := addr + uint64(n)
	for i, a := 0, addr&^3; a < end; i, a = i+1, a+4 {
		if cl, ok := s.wrote(o, by, programs, a, bytesAt(addr, a, uint64(n)), unchanged != nil && unchanged(i)); !ok {
			return cl, false
		}
		if c := s.at(a); open && !c.common {
			c.w |= unfinished
		}
	}
	return clash{}, true
}

// flit is the bytes that a read through a NoC may poll.
const flit = 16

// readRange records a read of n bytes. Up to poll bytes it may be a poll, which learns. open means
// until shadow.finished says so.
func (s *shadow) readRange(o *Chip, by *stamp, addr uint64, n int, open bool, poll int) (clash, bool) {
	reader := *by
	if open && by.agent.core != nil {
		reader.time = unfinished
	}
	for a := addr &^ 3; a < addr+uint64(n); a += 4 {
		c := s.at(a)
		if c.common {
			by.agent.learn(s.common[a]...)
		} else if e := c.last(bytesAt(addr, a, uint64(n)), by); e != 0 {
			if e.agent() == by.agent.index || n > poll && by.agent.core != nil {
				return clash{a, e, c.wpc, true, false}, false
			}
			by.agent.learn(s.tells(o, a, c)...)
		}
		if by.agent.core != nil {
			c.stampRead(&reader, bytesAt(addr, a, uint64(n)))
		}
	}
	return clash{}, true
}

// atomic records an atomic: the word is common from now on. An agent that uses the old value learns
// from it.
func (s *shadow) atomic(o *Chip, by *stamp, addr uint64, component int, learns bool) (clash, bool) {
	c := s.at(addr)
	if learns {
		by.agent.learn(s.tells(o, addr, c)...)
	} else if e := c.last(wholeWord, by); !c.common && e != 0 && o.agents[e.agent()].core != nil && by.agent.core != nil {
		return clash{addr, e, c.wpc, true, false}, false
	}
	atomic := !c.common || c.atomic
	s.share(o, addr, c, by, component)
	c.atomic, c.wpc = atomic, by.pc
	return clash{}, true
}
