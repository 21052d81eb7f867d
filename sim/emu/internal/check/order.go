package check

import (
	"cmp"
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

// clock is a vector clock, immutable once shared; 0 beyond its end.
type clock []uint64

func (c clock) at(i int) uint64 {
	if i < len(c) {
		return c[i]
	}
	return 0
}

func (c clock) covers(d clock) bool {
	for i, v := range d {
		if v > c.at(i) {
			return false
		}
	}
	return true
}

func (c clock) join(d clock) clock {
	if c.covers(d) {
		return c
	}
	if d.covers(c) {
		return d
	}
	out := slices.Clone(c)
	for len(out) < len(d) {
		out = append(out, 0)
	}
	for i, v := range d {
		out[i] = max(out[i], v)
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

	lately [4]*uint64 // first words of clocks that it has learned
	next   int        // of lately
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

func (a *agent) learn(c clock) {
	if len(c) == 0 || a.lately[0] == &c[0] || a.lately[1] == &c[0] || a.lately[2] == &c[0] || a.lately[3] == &c[0] {
		return
	}
	a.lately[a.next] = &c[0]
	a.next = (a.next + 1) % len(a.lately)
	own := a.index * components
	for i, v := range c {
		if v <= a.known.at(i) || i == own || i == own+1 {
			continue
		}
		known := make(clock, max(len(a.known), len(c)))
		copy(known, a.known)
		for ; i < len(c); i++ {
			if i != own && i != own+1 {
				known[i] = max(known[i], c[i])
			}
		}
		a.known = known
		a.changed()
		return
	}
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

// clock returns what other agents learn from the stamp.
func (s *stamp) clock() clock { return full(s.agent.index, s.known, s.time, s.landed) }

func full(index int, known clock, time, landed uint64) clock {
	i := index * components
	out := make(clock, max(len(known), i+components))
	copy(out, known)
	out[i+programs], out[i+l1Stores] = time, landed
	return out
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
	o := &Chip{host: &agent{}, bus: newShadow(0), refused: refused}
	o.agents = []*agent{o.host}
	for range drams {
		o.drams = append(o.drams, newShadow(0))
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

// released returns the clock that an agent acquires when it learns of access e.
func (o *Chip) released(e epoch) clock {
	if e == 0 {
		return nil
	}
	a, t := o.agents[e.agent()], e.time()
	if t == unfinished {
		t = a.time
	}
	m := a.at(t)
	landed := m.landed
	if a.core == nil || e.component()%components == l1Stores {
		landed = t
	}
	return full(a.index, m.known, t, landed)
}

// Release and Acquire are a store to and a load of something that synchronises: a stream register,
// mailbox, semaphores or configuration words, told apart by name.
func (t *Tile) Release(from Origin, name uint32) {
	if t != nil {
		t.shadow.told[name] = t.shadow.told[name].join(t.chip.by(from).clock())
	}
}

func (t *Tile) Acquire(from Origin, name uint32) {
	if t != nil {
		if c := t.shadow.told[name]; c != nil {
			t.chip.by(from).agent.learn(c)
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
		by.learn(full(a.index, a.known, a.time, a.time))
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
	if s := o.by(from); s.agent != k.agent {
		k.agent.learn(s.clock())
	}
}
