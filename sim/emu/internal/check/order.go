package check

import (
	"cmp"
	"fmt"
	"slices"
)

// Chip records what happens before what: each agent's vector clock, and the last accesses to each
// word of L1, DRAM and host memory.
//
// An agent is the host or a processor. It has two components in every vector clock: its program
// order, and its stores to L1, which stay in order but may reach L1 later than anything that it
// does elsewhere.
type Chip struct {
	agents  []*agent
	host    *agent
	carry   *stamp // of the request that is taking effect, or nil
	open    bool   // it writes to DRAM and isn't known to be over
	flights uint64 // requests started

	drams []*shadow
	bus   *shadow // host memory

	refused func(by Origin, addr uint64, other *Other, format string, args ...any) bool
}

// clock is a vector clock in parts, which clocks share; immutable once shared, 0 beyond its end.
type clock []*[clockPart]uint64

const clockPart = 32 // components, whole agents

func (c clock) at(i int) uint64 {
	if n := i / clockPart; n < len(c) && c[n] != nil {
		return c[n][i%clockPart]
	}
	return 0
}

// later returns the later of each component of a and b, or a or b itself.
func later(a, b *[clockPart]uint64) *[clockPart]uint64 {
	if a == nil || a == b || b == nil {
		return cmp.Or(a, b)
	}
	out := a
	for i, v := range b {
		if v > out[i] {
			if out == a {
				out = new(*a)
			}
			out[i] = v
		}
	}
	return out
}

// epoch is one access: a component and its time; 0 means none.
type epoch uint64

const (
	epochBits  = 48
	programs   = 0 // component of an agent
	l1Stores   = 1
	components = 2
)

func (e epoch) component() int { return int(e >> epochBits) }
func (e epoch) agent() int     { return e.component() / components }
func (e epoch) time() uint64   { return uint64(e) & (1<<epochBits - 1) }

type agent struct {
	core   *Core // nil: the host
	index  int
	time   uint64 // of its last access
	known  clock  // of others
	landed uint64 // its stores to L1 until then are in L1
	past   []moment
}

// moment is what an agent knew from a time on.
type moment struct {
	time   uint64
	known  clock
	landed uint64
}

// maxPast bounds how far back an agent's knowledge is remembered; later knowledge stands for older.
const maxPast = 512

// changed notes that the agent knows more from its next access on.
func (a *agent) changed() {
	m := moment{a.time + 1, a.known, a.landed}
	if n := len(a.past); n > 0 && a.past[n-1].time == m.time {
		a.past[n-1] = m
		return
	}
	if len(a.past) == maxPast {
		a.past = a.past[:copy(a.past, a.past[maxPast/2:])]
	}
	a.past = append(a.past, m)
}

func (a *agent) at(t uint64) moment {
	i, ok := slices.BinarySearchFunc(a.past, t, func(m moment, t uint64) int { return cmp.Compare(m.time, t) })
	if !ok {
		i--
	}
	if len(a.past) == 0 {
		return moment{}
	}
	return a.past[max(i, 0)]
}

// learn adds what others tell, all that each of them knew included.
func (a *agent) learn(told ...stamp) {
	for _, s := range told {
		if s.agent == a || s.toldTo(a.known) {
			continue
		}
		part, i := s.agent.index*components/clockPart, s.agent.index*components%clockPart
		known := make(clock, max(len(a.known), len(s.known), part+1))
		copy(known, a.known)
		for j, p := range s.known {
			known[j] = later(known[j], p)
		}
		var own [clockPart]uint64
		own[i+programs], own[i+l1Stores] = s.time, s.landed
		known[part] = later(&own, known[part])
		a.known = known
		a.changed()
	}
}

// toldTo reports whether who knows so much knows of s. It then knows all that s's agent knew.
func (s *stamp) toldTo(known clock) bool {
	i := s.agent.index * components
	return known.at(i+programs) >= s.time && known.at(i+l1Stores) >= s.landed
}

func (s *stamp) before(by *stamp) bool {
	return s.agent == by.agent && s.landed <= by.landed || s.agent != by.agent && s.toldTo(by.known)
}

// news is what several agents tell, one stamp each.
type news []stamp

func (n *news) add(by stamp) {
	if len(*n) != 1 || !(*n)[0].before(&by) {
		*n = append(slices.DeleteFunc(*n, func(s stamp) bool { return s.before(&by) }), by)
		return
	}
	(*n)[0] = by
}

func (a *agent) land(t uint64) {
	if t > a.landed {
		a.landed = t
		a.changed()
	}
}

// stamp is what an agent knew at an access, and so what others learn from it.
type stamp struct {
	agent  *agent
	time   uint64
	known  clock
	landed uint64 // of its own stores to L1
	pc     uint32
}

// now stamps an access that is not to L1: the agent's stores to L1 may still be under way.
func (a *agent) now() *stamp {
	a.time++
	s := &stamp{agent: a, time: a.time, known: a.known, landed: a.landed}
	if a.core == nil {
		s.landed = a.time
	} else {
		s.pc = a.core.PC()
	}
	return s
}

func (s *stamp) epoch(component int) epoch {
	return epoch(s.agent.index*components+component)<<epochBits | epoch(s.time)
}

func (s *stamp) sees(e epoch) bool {
	switch i := e.component(); {
	case e == 0:
		return true
	case s.agent.core == nil:
		return e.agent() == s.agent.index || s.agent.known.at(i) >= e.time()
	case e.agent() != s.agent.index:
		return s.known.at(i) >= e.time()
	case i%components == l1Stores:
		return s.landed >= e.time()
	}
	return true
}

// New returns the checks of a chip with so many DRAM controllers. They tell refused what they find,
// which stops the chip, or returns true to go on. Then what was found counts as ordered.
func New(drams int, refused func(by Origin, addr uint64, other *Other, format string, args ...any) bool) *Chip {
	o := &Chip{host: &agent{}, bus: newShadow("host memory", 0), refused: refused}
	o.agents = []*agent{o.host}
	for i := range drams {
		o.drams = append(o.drams, newShadow(fmt.Sprintf("DRAM controller %d", i), 0))
	}
	return o
}

// AddTile adds a tile with its processors.
func (o *Chip) AddTile(t *Tile, cores ...*Core) {
	t.chip, t.cores = o, cores
	for _, k := range cores {
		k.tile = t
		k.agent = &agent{core: k, index: len(o.agents)}
		o.agents = append(o.agents, k.agent)
	}
}

func (o *Chip) by(from Origin) *stamp {
	switch {
	case o.carry != nil:
		return o.carry
	case from.Core != nil:
		return from.Core.agent.now()
	}
	return o.host.now()
}

// released returns what an agent acquires when it learns of access e.
func (o *Chip) released(e epoch) stamp {
	a, t := o.agents[e.agent()], e.time()
	if t == unfinished {
		t = a.time
	}
	m := a.at(t)
	landed := m.landed
	if a.core == nil || e.component()%components == l1Stores {
		landed = t
	}
	return stamp{agent: a, time: t, known: m.known, landed: landed}
}

// Release and Acquire are a store to and a load of something that synchronises: a stream register,
// mailbox, semaphores or configuration words, told apart by name.
func (t *Tile) Release(from Origin, name uint32) {
	if t != nil {
		told := t.shadow.told[name]
		if told == nil {
			told = new(news)
			t.shadow.told[name] = told
		}
		told.add(*t.chip.by(from))
	}
}

func (t *Tile) Acquire(from Origin, name uint32) {
	if t != nil {
		if told := t.shadow.told[name]; told != nil {
			t.chip.by(from).agent.learn(*told...)
		}
	}
}

// Held records that another agent puts a processor into reset, and so knows all that it did.
func (o *Chip) Held(from Origin, k *Core) {
	if o == nil {
		return
	}
	a := k.agent
	a.time++
	if by := o.by(from).agent; by != a {
		by.learn(stamp{agent: a, time: a.time, known: a.known, landed: a.time})
	}
	a.land(a.time)
}

// Released records that a processor leaves reset.
func (o *Chip) Released(from Origin, k *Core) {
	if o == nil {
		return
	}
	if k.share == nil {
		k.share = newSharing(k)
	}
	k.share.forget()
	k.agent.learn(*o.by(from))
}
