package emu

import (
	"math/bits"
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// probeMax bounds the instructions of one iteration of a waiting loop.
const probeMax = 400

// probe executes instructions until it knows whether the core waits: it comes back to where it
// started with the same registers, having changed nothing and read only memory and registers that
// change by others. It then fills in what the core waits for. A store of what is already there
// counts as a read.
func (c *core) probe() (waiting bool, st stop) {
	start, regs := c.pc, [32]uint32(c.X[:32])
	c.watched, c.classes, c.polls = 0, 0, 0
	c.wait.begin(c.thread == nil && c.profile == nil && !c.debugging && !c.tile.chip.cfg.alwaysLooks)
	c.again = 0
	var cache dataCache
	if c.cache != nil {
		cache = *c.cache
	}
	s := &c.tile.chip.sched
	used, visits, base, named := 0, 0, c.base, uint64(0)
	defer func() { c.used, c.base = used, base }()
	// due reports whether a request takes its next step before what the core does now.
	due := func() bool { return len(s.events) > 0 && s.events[0].at <= s.clock+uint64(base+used) }
	for used < probeMax {
		pg := c.codePage(c.pc)
		if pg == nil {
			return false, stopHalt
		}
		idx := int(c.pc % pageBytes >> 2)
		if pg.code[idx/lineWords] == nil && pg.ops[idx].Code() == rv32.Undecoded {
			c.decodeAt(pg, c.pc&^(pageBytes-1), idx)
		}
		ops := pg.ops[idx:]
		if code := pg.code[idx/lineWords]; code != nil {
			ops = code.Ops[idx-code.First:] // shared by all tiles, so cache-hot
		}
		n := 1
		pure := c.pure(ops[0])
		if !pure && due() {
			return false, stopSlice
		}
		if pure && !c.checked {
			n = straight(ops, int(start-c.pc)>>2)
		}
		c.wait.at(c.pc, n)
		c.base = base + used
		if c.tile.starts != nil {
			c.left = c.budget
			c.tile.starts.at(c.proc, c.pc)
		}
		st := c.step(ops[:n])
		used += c.used
		if st != stopSlice || !pure {
			return false, st
		}
		for _, o := range ops[:c.used] {
			named |= names(o)
		}
		if s.chip.cfg.Schedule != nil && due() {
			return false, stopSlice // a Schedule would try the poll before and after the step
		}
		if c.pc != start {
			continue
		}
		if [32]uint32(c.X[:32]) == regs && (c.cache == nil || *c.cache == cache) {
			c.wait.end(c.classes != 0)
			c.keep(named)
			return true, stopSlice
		}
		if c.cache != nil { // the first iteration fills it
			cache = *c.cache
		}
		if visits++; visits == 3 {
			break
		}
	}
	// It computes: don't probe again soon.
	c.probeDelay = min(2*c.probeDelay+1, 15)
	c.probeSkip = c.probeDelay
	return false, stopSlice
}

func (c *core) worthProbing() bool {
	if c.probeSkip == 0 {
		return true
	}
	c.probeSkip--
	return false
}

// straight returns how many instructions use only registers, apart from the first one, up to and
// including the first jump, and at most before if that is positive.
func straight(ops []rv32.Op, before int) int {
	if before > 0 {
		ops = ops[:min(len(ops), before)]
	}
	for i, o := range ops {
		switch o := o.Code(); {
		case o >= rv32.BEQ && o <= rv32.JALR:
			return i + 1
		case i > 0 && (o == rv32.Undecoded || o > rv32.JALR && o < rv32.MIN || o > rv32.BREV8):
			return i
		}
	}
	return len(ops)
}

// step executes the decoded instructions at pc, or the first of them.
func (c *core) step(ops []rv32.Op) stop {
	if !c.checked {
		next, _, why := exec(c, ops, &allMarks, c.pc, 0, len(ops))
		if c.budget = len(ops); why == translate.Slow {
			c.budget = next
		}
		if c.budget > 0 {
			c.pc += uint32(next) << 2
			c.count(0)
			return stopSlice
		}
	}
	return c.advance(1)
}

// pure reports whether executing o now changes only registers, and notes what it reads.
func (c *core) pure(op rv32.Op) bool {
	if code := op.Code(); code < rv32.LB {
		return true
	}
	switch o := op.Inst(); {
	case o.Code.IsLoad():
		return c.noteRead(c.X[o.Rs1]+uint32(o.Imm), o.Code.Bytes())
	case o.Code.IsStore():
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
			v = word.Insert(w, v, addr&3*8, 0xFF)
		case rv32.SH:
			v = word.Insert(w, v, addr&2*8, 0xFFFF)
		}
		c.wait.known = false // it wakes others that wait
		return v == w && c.noteRead(addr, 4)
	case o.Code == rv32.EBREAK && c.debugging && c.thread != nil: // a debugger's breakpoint
	case o.Code >= rv32.CSRRW && o.Code <= rv32.AMOMAXU, o.Code == rv32.Tensix, o.Code == rv32.EBREAK, o.Code == rv32.Illegal:
		return false
	}
	return true
}

// noteRead adds the source of a load to what the core would wait for, false if the load has an
// effect or the value changes by itself.
func (c *core) noteRead(addr, n uint32) bool {
	t := c.tile
	if addr < t.size {
		t.memory(addr + 1)
		c.wait.read(t.l1, addr, n)
		return c.watches(addr >> lineShift)
	}
	if w := (addr - localBase) >> 2; w < uint32(len(c.local)) {
		c.wait.readLocal(w, c.local[w])
		return true // only the core changes it
	}
	cl, ok := t.readClass(addr)
	c.classes |= cl
	if ok && c.polls < len(c.polled) && !slices.Contains(c.polled[:c.polls], addr) {
		c.polled[c.polls] = addr
		c.polls++
	}
	return ok
}

// watches adds a line of L1 to what the core would wait for, false if there are too many.
func (c *core) watches(line uint32) bool {
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

// keep keeps the core's wait, in a loop that names some registers, for waitsAgain.
func (c *core) keep(named uint64) {
	w := &c.wait
	if !w.known || c.cache != nil || w.n > maxSeenReads || w.locals > maxLocals || bits.OnesCount64(named) > maxSeenRegs {
		return
	}
	if c.seen == nil {
		c.seen = new(seenWaits)
	}
	i := c.seen.next % maxSeen
	c.seen.next++
	c.seen.pcs[i] = c.pc
	c.again, c.noted = i+1, 0
	s := &c.seen.all[i]
	*s = seenWait{known: true, reads: uint8(w.n), local: uint8(w.locals), lo: w.lo, hi: w.hi, localRead: w.local}
	copy(s.read[:], w.reads[:])
	for ; named != 0; named &= named - 1 {
		r := uint8(bits.TrailingZeros64(named))
		s.regs[s.n], s.values[s.n] = r, c.X[r]
		s.n++
	}
}

// waitsAgain reports whether the core is in a kept wait, and fills in what it waits for.
func (c *core) waitsAgain() bool {
	if c.seen == nil || c.debugging || len(c.tile.chip.events) > 0 { // events are between instructions
		return false
	}
	for i, pc := range c.seen.pcs {
		if pc != c.pc {
			continue
		}
		if s := &c.seen.all[i]; s.known && s.holds(&c.X, c.local, c.tile.l1) {
			w := &c.wait
			w.known, w.lo, w.hi = true, s.lo, s.hi
			w.n = copy(w.reads[:], s.read[:s.reads])
			c.classes, c.watched, c.polls = 0, 0, 0
			c.again = uint8(i) + 1
			return true
		}
	}
	return false
}
