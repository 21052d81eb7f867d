package emu

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

// probeMax bounds the instructions of one iteration of a waiting loop.
const probeMax = 400

// probe executes instructions one by one until it knows whether the core waits: if it comes back to where it started
// with the same registers, having changed nothing and read only what nothing else changed, every further iteration
// would do the same until something that it read changes. It then fills in what the core waits for and returns true.
// Otherwise the instructions it executed are simply executed.
//
// A store that writes what is already there changes nothing; it counts as a read.
func (c *core) probe() (waiting bool, st stop) {
	start := c.pc
	copy(c.regs[:], c.X[:32])
	c.watched, c.classes = 0, 0
	c.wait.begin(c)
	var cache dataCache
	if c.cache != nil {
		cache = *c.cache
	}
	used, visits, base := 0, 0, c.base
	defer func() { c.used, c.base = used, base }()
	for range probeMax {
		pg := c.codePage(c.pc)
		if pg == nil {
			return false, stopHalt
		}
		idx := int(c.pc % pageBytes >> 2)
		if pg.ops[idx].Code() == rv32.Undecoded {
			c.decodeAt(pg, c.pc&^(pageBytes-1), idx)
		}
		pure := c.pure(pg.ops[idx].Inst())
		c.wait.at(c.pc)
		c.base = base + used
		st := c.step(pg, idx)
		used += c.used
		if st != stopSlice || !pure {
			return false, st
		}
		if s := &c.tile.chip.sched; len(s.events) > 0 && s.events[0].at <= s.clock+uint64(base+used) {
			return false, stopSlice // a request takes its next step now
		}
		if c.pc != start {
			continue
		}
		if [32]uint32(c.X[:32]) == c.regs && (c.cache == nil || *c.cache == cache) {
			c.wait.end(c, used)
			return true, stopSlice
		}
		if c.cache != nil { // the first iteration fills it
			cache = *c.cache
		}
		if visits++; visits == 3 {
			break
		}
	}
	// It computes something. Probing again soon would cost more than it can save.
	c.probeDelay = min(2*c.probeDelay+1, 15)
	c.probeSkip = c.probeDelay
	return false, stopSlice
}

// step executes the instruction at pc, which has index idx in its page and is decoded.
func (c *core) step(pg *codePage, idx int) stop {
	if !c.checked {
		base := c.pc &^ (pageBytes - 1)
		if next, _, slow := exec(c, pg.ops[:idx+1], base, idx, idx+1); !slow {
			c.pc = base + uint32(next)<<2
			c.budget = 1
			c.count(0)
			return stopSlice
		}
	}
	return c.advance(1)
}

// pure reports whether executing o now changes nothing but registers, and notes what it reads.
func (c *core) pure(o rv32.Inst) bool {
	switch {
	case o.Code >= rv32.LB && o.Code <= rv32.LHU:
		return c.noteRead(c.X[o.Rs1]+uint32(o.Imm), width(o.Code))
	case o.Code >= rv32.SB && o.Code <= rv32.SW:
		addr := c.X[o.Rs1] + uint32(o.Imm)
		var w uint32
		if addr < c.tile.size {
			w = c.tile.memory(addr + 1)[addr>>2]
		} else if i := (addr - localBase) >> 2; i < uint32(len(c.local)) {
			w = c.local[i]
		} else {
			return false
		}
		v := c.X[o.Rs2]
		switch o.Code {
		case rv32.SB:
			v = insert(w, v, addr&3*8, 0xFF)
		case rv32.SH:
			v = insert(w, v, addr&2*8, 0xFFFF)
		}
		c.wait.known = false // others that wait are woken by it
		return v == w && c.noteRead(addr, 4)
	case o.Code >= rv32.CSRRW && o.Code <= rv32.AMOMAXU, o.Code == rv32.Tensix, o.Code == rv32.EBREAK, o.Code == rv32.Illegal:
		return false
	}
	return true
}

// noteRead adds what a load from addr depends on to what the core would wait for; false if the load has an effect or a
// value that changes by itself.
func (c *core) noteRead(addr, n uint32) bool {
	t := c.tile
	if addr < t.size {
		t.memory(addr + 1)
		c.wait.read(t, addr, n)
		line := addr >> lineShift
		for _, l := range c.watch[:c.watched] {
			if l == line {
				return true
			}
		}
		if c.watched == maxWatch {
			return false
		}
		c.watch[c.watched] = line
		c.watched++
		return true
	}
	if (addr-localBase)>>2 < uint32(len(c.local)) {
		return true // nothing else can change it
	}
	cl, ok := t.readClass(addr)
	c.classes |= cl
	return ok
}

// park stops a core until something that it read may have changed.
func (c *core) park(s coreState) {
	t := c.tile
	for _, l := range c.watch[:c.watched] {
		t.flags[l] |= flagWatch
	}
	t.classes |= c.classes
	c.state = s
	c.probeDelay, c.probeSkip = 0, 0
	t.chip.dequeue(c)
}

// wake makes a parked core runnable, so that it polls again.
func (c *core) wake() {
	c.state = runnable
	c.probeFirst = true
	c.slice = minSlice
	c.tile.chip.enqueue(c)
}

// changed wakes the cores of the tile that wait for a register of one of the classes cl.
func (t *tile) changed(cl class) {
	if t.classes&cl != 0 {
		t.wake(cl)
	}
}

func (t *tile) wake(cl class) {
	t.classes = 0
	for _, c := range t.cores {
		if c.state != parked && c.state != blocked {
			continue
		}
		if c.classes&cl != 0 {
			c.wake()
		} else {
			t.classes |= c.classes
		}
	}
}

// touched is called for a store to a flagged line of L1: it drops decoded instructions and wakes processors that wait.
func (t *tile) touched(line uint32) {
	f := t.flags[line]
	if f&flagCode != 0 {
		t.undecode(line)
	}
	keep := f & flagTrap
	for _, c := range t.cores {
		if f&flagCode != 0 {
			c.wait.overwritten(line)
		}
		if c.state != parked {
			continue
		}
		// A core may be waiting in a loop that has just been overwritten.
		if f&flagCode != 0 || c.watches(line) {
			c.wake()
		}
	}
	t.flags[line] = keep
}

func (c *core) watches(line uint32) bool {
	for _, l := range c.watch[:c.watched] {
		if l == line {
			return true
		}
	}
	return false
}

// undecode forgets the decoded instructions of a line.
func (t *tile) undecode(line uint32) {
	addr := line << lineShift
	if p := t.code[addr/pageBytes]; p != nil {
		i := addr % pageBytes / 4
		clear(p.ops[i : i+lineWords])
		p.forget(int(i / lineWords))
	}
}
