package check

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// sharing follows what one processor does with what it loads from L1, and which of its stores to L1
// are there.
//
// Each register and word of local RAM has a tag: the load, or loads, that its value comes from. A
// branch that depends on a load makes it a poll, from which the processor learns; any other use
// makes it data.
type sharing struct {
	core     *Core
	agent    *agent
	wormhole bool

	tags  [rv32.Sink + 1]tag
	local []tag
	loads [256]load // by tag
	next  tag

	queue   [3]pending // the last stores, newest first: maybe in the store queue
	last    uint64     // the last store to L1
	left    uint64     // the last store to L1 that has left the queue
	backs   [8]back    // loads whose results tell that stores are in L1
	waiting int        // of backs
	count   uint64     // instructions

	line uint32 // being executed
	seen uint16 // words of it that were checked
}

type tag uint32

// load is a load from L1, or a value that two of them, a and b, went into.
type load struct {
	w    epoch // what it read
	time uint64
	tag  tag // 0: free
	addr uint32
	pc   uint32
	wpc  uint32
	a, b tag

	bytes uint8
	alien bool // w is unknown to the processor
	poll  bool // a branch depended on it
	data  bool // it was used otherwise
}

// pending is a store that may be in the store queue.
type pending struct {
	addr uint32
	n    uint32 // bytes; 0 if it is to a register
	l1   bool
	time uint64
}

// back is a load from L1. When its result is there, stores until time are.
type back struct {
	reg   uint8
	time  uint64
	count uint64
}

const noReg = 255

func newSharing(k *Core) *sharing {
	return &sharing{core: k, agent: k.agent, wormhole: k.Arch == chip.Wormhole, local: make([]tag, k.LocalBytes/4), next: 1}
}

func (s *sharing) forget() {
	clear(s.tags[:])
	clear(s.local)
	clear(s.loads[:])
	s.queue, s.last, s.left, s.waiting, s.line = [3]pending{}, 0, 0, 0, none
}

func (s *sharing) order() *Chip { return s.core.tile.chip }

func (s *sharing) refuse(addr uint64, other *Other, format string, args ...any) bool {
	k := s.core
	return k.tile.chip.refused(Origin{Tile: k.tile, Core: k}, addr, other, format, args...)
}

func (s *sharing) new(l load) tag {
	if s.next == 0 { // after 2^32 loads
		clear(s.tags[:])
		clear(s.local)
		s.next = 1
	}
	l.tag = s.next
	s.loads[l.tag%tag(len(s.loads))] = l
	s.next++
	return l.tag
}

func (s *sharing) get(t tag) *load {
	if l := &s.loads[t%tag(len(s.loads))]; t != 0 && l.tag == t {
		return l
	}
	return nil
}

func (s *sharing) both(a, b tag) tag {
	if s.get(a) == nil {
		return b
	}
	if a == b || s.get(b) == nil {
		return a
	}
	return s.new(load{a: a, b: b})
}

// poll records a branch that depends on a value.
func (s *sharing) poll(t tag) {
	for l := s.get(t); l != nil && !l.poll; l = s.get(t) {
		l.poll = true
		if l.a == 0 {
			if l.alien {
				l.alien = false
				s.agent.learn(s.order().released(l.w))
				s.order().polled(s.agent, l.w)
			}
			return
		}
		s.poll(l.a)
		t = l.b
	}
}

// use refuses another use of a value without an edge.
func (s *sharing) use(t tag) bool {
	for l := s.get(t); l != nil && !l.data; l = s.get(t) {
		l.data = true
		if l.a == 0 {
			return s.useLoad(l)
		}
		if !s.use(l.a) {
			return false
		}
		t = l.b
	}
	return true
}

func (s *sharing) useLoad(l *load) bool {
	k := s.core
	if l.alien {
		c := clash{uint64(l.addr), l.w, l.wpc, true, false}
		if !s.refuse(c.addr, s.order().other(c), "the value that pc=%#x loaded from %#x of L1 is used, and %s. %s",
			l.pc, l.addr, s.order().describe(c), s.order().missing(s.agent, l.w)) {
			return false
		}
		l.alien = false
		s.agent.learn(s.order().released(l.w))
	}
	if c := k.tile.shadow.at(uint64(l.addr)); c.w == l.w || c.before == l.w {
		c.stampRead(&stamp{agent: s.agent, time: l.time, known: s.agent.known, pc: l.pc}, l.bytes)
	}
	return true
}

func (s *sharing) step(o rv32.Inst, addr, n uint32, inL1 bool, v uint32) bool {
	s.count++
	s.retire(o)
	switch code := o.Code; {
	case code.IsLoad():
		return s.load(o, addr, n, inL1)
	case code.IsStore():
		return s.store(o, addr, n, inL1, v)
	case code.IsBranch(), code == rv32.Skewed:
		s.poll(s.tags[o.Rs1])
		s.poll(s.tags[o.Rs2])
		return true
	case code == rv32.JALR:
		t := s.tags[o.Rs1]
		s.tags[o.Rd] = 0
		return s.use(t)
	case code == rv32.FENCE:
		s.agent.land(s.agent.time)
		s.waiting = 0
	case code.IsAMO():
		if inL1 {
			s.agent.land(s.agent.time)
			by := s.agent.now()
			s.core.tile.shadow.atomic(s.order(), by, uint64(addr), l1Stores, true)
		}
		s.tags[o.Rd] = 0
	case code == rv32.LI, code == rv32.JAL, code >= rv32.CSRRW && code <= rv32.CSRRWI:
		s.tags[o.Rd] = 0
	case code == rv32.Nop, code == rv32.Tensix, code == rv32.Illegal, code == rv32.Undecoded:
	case readsTwo(code):
		s.tags[o.Rd] = s.both(s.tags[o.Rs1], s.tags[o.Rs2])
	default:
		s.tags[o.Rd] = s.tags[o.Rs1]
	}
	s.tags[0], s.tags[rv32.Sink] = 0, 0
	return true
}

func readsTwo(c rv32.Opcode) bool {
	return c >= rv32.ADD && c <= rv32.REMU || c >= rv32.MIN && c <= rv32.ROR || c == rv32.PACK
}

func (s *sharing) load(o rv32.Inst, addr, n uint32, inL1 bool) bool {
	if s.wormhole && !s.waits(addr, n) {
		return false
	}
	from := s.tags[o.Rs1]
	s.tags[o.Rd] = 0
	switch {
	case inL1:
		s.agent.time++
		s.readsBack(o.Rd, addr)
		c := s.core.tile.shadow.at(uint64(addr))
		l := load{addr: addr, bytes: bytesAt(uint64(addr), uint64(addr)&^3, uint64(n)), time: s.agent.time, pc: s.core.PC(), w: c.w,
			wpc: c.wpc}
		if c.common {
			s.agent.learn(s.core.tile.shadow.common[uint64(addr)&^3]...)
		} else if e := s.unseen(c, addr, n); e != 0 {
			l.alien, l.w = true, e
		}
		s.tags[o.Rd] = s.both(s.new(l), from)
	case (addr-localBase)>>2 < uint32(len(s.local)):
		s.tags[o.Rd] = s.both(s.local[(addr-localBase)>>2], from)
	default:
		return s.use(from)
	}
	s.tags[rv32.Sink] = 0
	return true
}

// waits refuses a load that overlaps a queued store that begins elsewhere, and may pass it
// (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md, Sub-word load not
// observing previous store).
func (s *sharing) waits(addr, n uint32) bool {
	for _, p := range s.queue {
		if p.addr == addr && p.n != 0 {
			return true // and for those before it
		}
		if p.addr < addr+n && addr < p.addr+p.n && !s.core.Assumes(PassedBytesUnused) {
			return s.refuse(uint64(addr), &Other{Core: s.core, PC: s.core.PC(), Addr: uint64(p.addr), Wrote: true},
				"load of %d bytes, which may pass the store of %d bytes to %#x just before: "+
					"only a load that begins where the store does waits for it", n, p.n, p.addr)
		}
	}
	return true
}

// unseen returns the last write of n bytes at addr that nothing orders before, or 0.
func (s *sharing) unseen(c *cell, addr, n uint32) epoch {
	by := stamp{agent: s.agent, known: s.agent.known, landed: unfinished} // a processor sees its own stores
	return c.last(uint8((1<<n-1)<<(addr&3)), &by)
}

func (s *sharing) store(o rv32.Inst, addr, n uint32, inL1 bool, v uint32) bool {
	if w := (addr - localBase) >> 2; w < uint32(len(s.local)) {
		t := s.both(s.tags[o.Rs2], s.tags[o.Rs1])
		if n < 4 {
			t = s.both(t, s.local[w])
		}
		s.local[w] = t
		s.queued(pending{addr: addr, n: n})
		return true
	}
	if !s.use(s.tags[o.Rs1]) || !s.use(s.tags[o.Rs2]) {
		return false
	}
	a, t := s.agent, s.core.tile
	if !inL1 {
		s.queued(pending{addr: addr})
		inOrder := StoresInOrder
		if addr >= streamBase && addr < streamEnd {
			inOrder = StoredBeforePush
		}
		if s.last > a.landed && s.core.Assumes(inOrder) {
			a.land(s.last)
		}
		return true
	}
	a.time++
	s.last = a.time
	s.queued(pending{addr, n, true, a.time})
	old := t.L1(addr + n)[addr>>2]
	switch n {
	case 1:
		v = word.Insert(old, v, addr&3*8, 0xFF)
	case 2:
		v = word.Insert(old, v, addr&2*8, 0xFFFF)
	}
	by := stamp{agent: a, time: a.time, known: a.known, landed: a.time, pc: s.core.PC()}
	from := Origin{Tile: t, Core: s.core}
	cl, ok := t.shadow.wrote(s.order(), &by, l1Stores, uint64(addr&^3), bytesAt(uint64(addr), uint64(addr&^3), uint64(n)), v == old)
	return (ok || s.order().refuse(from, "store to", t.shadow, &by, uint64(addr), int(n), cl)) &&
		s.order().codeWritten(from, &by, t, addr, int(n))
}

// queued puts a store into the queue: the last but three has left it.
func (s *sharing) queued(p pending) {
	if q := s.queue[2]; q.l1 {
		s.left = q.time
	}
	s.queue[2], s.queue[1], s.queue[0] = s.queue[1], s.queue[0], p
}

// readsBack is a load from L1: stores that have left the queue are in L1 before it, and a store at
// the same address has left it (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md).
func (s *sharing) readsBack(reg uint8, addr uint32) {
	t := s.left
	for _, p := range s.queue {
		if p.l1 && p.addr == addr {
			t = p.time
			break
		}
	}
	if t <= s.agent.landed {
		return
	}
	if s.waiting == len(s.backs) {
		copy(s.backs[:], s.backs[1:])
		s.waiting--
	}
	s.backs[s.waiting] = back{reg, t, s.count}
	s.waiting++
}

// retire notes which loads have results when o is executed: those that it uses, those that seven
// instructions have followed, and all before them.
func (s *sharing) retire(o rv32.Inst) {
	if s.waiting == 0 {
		return
	}
	two := o.Code == rv32.Nop || readsTwo(o.Code) || o.Code.IsBranch() || o.Code.IsStore() || o.Code.IsAMO()
	for i := s.waiting - 1; i >= 0; i-- {
		b := &s.backs[i]
		if b.reg != rv32.Sink && b.reg != 0 && (b.reg == o.Rs1 || two && b.reg == o.Rs2) || s.count-b.count >= 8 {
			s.agent.land(b.time)
			s.waiting = copy(s.backs[:], s.backs[i+1:s.waiting])
			break
		}
		if b.reg == o.Rd && !o.Code.IsBranch() && !o.Code.IsStore() {
			b.reg = noReg
		}
	}
}

func (s *sharing) fetch() bool {
	k := s.core
	pc := k.PC()
	line, bit := pc>>lineShift, uint16(1)<<(pc>>2&15)
	if line != s.line {
		s.line, s.seen = line, 0
	}
	if s.seen&bit != 0 {
		return true
	}
	s.seen |= bit
	s.agent.time++
	c := k.tile.shadow.at(uint64(k.PC()))
	by := &stamp{agent: s.agent, time: s.agent.time, known: s.agent.known, landed: s.agent.landed, pc: k.PC()}
	if e := c.last(wholeWord, by); !c.common && e != 0 {
		cl := clash{uint64(k.PC()), e, c.wpc, true, false}
		if !s.refuse(cl.addr, s.order().other(cl), "fetch of an instruction, and %s. %s", s.order().describe(cl),
			s.order().missing(s.agent, e)) {
			return false
		}
		s.agent.learn(s.order().released(e))
	}
	c.stampRead(by, wholeWord)
	return true
}
