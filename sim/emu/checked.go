package emu

import (
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

func (c *core) advance(n int) stop {
	if c.checked {
		return c.runChecked(n)
	}
	return c.run(n)
}

// runChecked runs one instruction at a time, for options that check every access.
func (c *core) runChecked(n int) stop {
	used, base := 0, c.base
	st := stopSlice
	for used < n && st == stopSlice {
		c.base = base + used
		from := c.pc
		run := (*core).runOne
		if c.profile != nil {
			run = (*core).runProfiled
		}
		if c.debugging {
			st = c.runDebugged(run)
		} else {
			st = run(c)
		}
		used += c.used
		if st == stopSlice && used < n && c.wentBack(from) {
			st = stopWaits
		}
	}
	c.used, c.base = used, base
	return st
}

// wentBack reports whether the instruction at from, just executed, jumped back in a loop that may
// wait.
func (c *core) wentBack(from uint32) bool {
	base := from &^ (pageBytes - 1)
	if c.pc > from {
		return false
	}
	pg, i := c.codePage(from), int(from%pageBytes>>2)
	if pg == nil || !pg.decoded(i/lineWords) {
		return false
	}
	head, ok := pg.back(i)
	return ok && base+uint32(head)*4 == c.pc && c.tile.mayWait(pg, base, i)
}

func (c *core) runOne() stop {
	t := c.tile
	c.used = 0
	pg := c.codePage(c.pc)
	if pg == nil || !c.checkFetch() {
		return stopHalt
	}
	idx := int(c.pc % pageBytes >> 2)
	if pg.ops[idx].Code() == rv32.Undecoded {
		c.decodeAt(pg, c.pc&^(pageBytes-1), idx)
	}
	o := pg.ops[idx].Inst()
	addr, n := c.X[o.Rs1]+uint32(o.Imm), o.Code.Bytes()
	load, store := o.Code.IsLoad(), o.Code.IsStore()
	amo := o.Code.IsAMO()
	if amo {
		addr, n = c.X[o.Rs1], 4
	}
	inL1 := (load || store || amo) && addr < t.size && addr&(n-1) == 0
	if c.thread != nil && c.waits(o, addr, inL1) {
		return stopHalt
	}
	switch {
	case inL1:
		t.memory(addr + n)
		if !c.checkL1(addr, n, load || amo, store || amo, amo || store && c.changes(addr, n, c.X[o.Rs2])) {
			return stopHalt
		}
	case (load || store) && c.localKnown != nil && (addr-localBase)>>2 < uint32(len(c.local)) && addr&(n-1) == 0:
		if !c.checkLocal(addr, store) {
			return stopHalt
		}
	}
	if !c.check.Step(o, addr, n, inL1, c.X[o.Rs2]) {
		return stopHalt
	}
	if c.stack != nil {
		if to, no := c.stack.Step(c.pc, &c.X, uint32(4*len(c.local)), o, addr, n, store); no != "" {
			if !c.flag("stack", undefined, uint64(to), "%s", no) {
				return stopHalt
			}
		}
	}
	if c.predicts != predictsL1 {
		c.pollutes(o)
	}
	if c.cache == nil || c.cfg0&cfg0NoCache != 0 {
		return c.run(1)
	}
	switch {
	case inL1 && load:
		c.X[o.Rd] = extend(o.Code, c.cache.load(t.l1, addr, t.chip.cfg.Seed), addr)
		c.pc += 4
		c.budget = 1
		c.count(0)
		return stopSlice
	case inL1 && store:
		c.cache.store(addr, c.X[o.Rs2], addr&3*8, uint32(1<<(8*n)-1))
	case o.Code == rv32.FENCE, o.Code >= rv32.CSRRW && o.Code <= rv32.AMOMAXU:
		*c.cache = dataCache{}
	}
	return c.run(1)
}

// waits reports whether a Schedule holds the next instruction, and else tells the Schedule what
// that uses.
func (c *core) waits(o rv32.Inst, addr uint32, inL1 bool) bool {
	t, s, kind := c.tile, c.thread, schedules.Store
	uses, load, changes := inL1 || o.Code.IsLoad() || o.Code.IsStore(), o.Code.IsLoad(), c.changing(o)
	if load {
		kind = schedules.Load
	} else if o.Code == rv32.AMOADD && o.Rd == rv32.Sink {
		kind = schedules.Addition
	}
	switch {
	case inL1 || uses && addr >= streamBase && addr < streamEnd:
		if at, value, kind, ok := t.shared(addr, kind); ok && s.Access(at, kind, c.pc, value, &c.X) {
			t.chip.dequeue(c)
			c.state = held
			return true
		}
	case !uses || addr < niu0Base:
	case addr < streamBase:
		if load {
			s.Order(addr, false)
		}
	default:
		at := addr &^ 3
		if cl, ok := t.readClass(addr); cl == classMailbox {
			at, changes = mailboxBase, changes || !ok
		}
		s.Order(at, !load)
	}
	s.Executes(1<<o.Rs1|1<<o.Rs2, 1<<o.Rd, changes)
	return false
}

func (c *core) letGo() {
	if c.state == held {
		c.state = runnable
		c.tile.chip.enqueue(c)
	}
}

func (c *core) checkFetch() bool {
	t := c.tile
	if c.pc >= t.size {
		return c.checkIRAM()
	}
	o := origin{tile: t, core: c}
	if t.known != nil && !t.written(o, "riscv", c.pc, 4, "instruction fetch from") {
		return false
	}
	if c.icache != nil {
		if stale := c.icache.Fetch(t.writers, c.pc); stale != "" && !c.flag("stalecode", undefined, uint64(c.pc), "%s", stale) {
			return false
		}
	}
	return c.check.Fetch()
}

// changes reports whether a store of the low n bytes of v changes L1.
func (c *core) changes(addr, n, v uint32) bool {
	old := c.tile.l1[addr>>2] >> (addr & 3 * 8)
	return (old^v)<<(32-8*n) != 0
}

// checkL1 checks an access to L1; changed says whether a store changes it.
func (c *core) checkL1(addr, n uint32, load, store, changed bool) bool {
	t := c.tile
	o := origin{tile: t, core: c}
	if load && t.known != nil {
		_, unknown := t.unwritten(addr, int(n))
		if unknown && !c.Assumes(UnwrittenUnused) && !t.written(o, "riscv", addr, int(n), "load from") {
			return false
		}
	}
	if t.check != nil && !t.check.Access(o.checked(), addr, n, load, changed) {
		return false
	}
	if store && t.writers != nil {
		t.writers.Note(writerOf(o, false), addr, int(n))
	}
	return true
}

func (c *core) checkLocal(addr uint32, store bool) bool {
	w := (addr - localBase) >> 2
	if store {
		c.localKnown.set(w)
	} else if !c.localKnown.has(w) {
		c.localKnown.set(w)
		return c.flag("unwritten", unpredictable, uint64(addr), "load from local RAM that was never written")
	}
	return true
}

// runProfiled is runOne with counts of instructions by address.
func (c *core) runProfiled() stop {
	pc, changes := c.pc, true
	if pg := c.codePage(pc); pg != nil {
		c.profile.arrive(pc, &c.X)
		changes = c.changing(pg.ops[pc%pageBytes>>2].Inst())
	}
	st := c.runOne()
	if c.used > 0 {
		c.profile.executed(pc, changes)
	}
	return st
}

// changing reports whether the next instruction may change more than registers; storing the same
// value doesn't.
func (c *core) changing(o rv32.Inst) bool {
	if o.Code < rv32.SB || o.Code > rv32.SW {
		return o.Code >= rv32.CSRRW && o.Code <= rv32.AMOMAXU
	}
	if o.Code != rv32.SW {
		return true
	}
	addr, v := c.X[o.Rs1]+uint32(o.Imm), c.X[o.Rs2]
	if w := addr >> 2; w < uint32(len(c.tile.l1)) {
		return c.tile.l1[w] != v
	}
	if w := (addr - localBase) >> 2; w < uint32(len(c.local)) {
		return c.local[w] != v
	}
	return true
}

// runDebugged is runOne for a debugged processor. As on silicon, breakpoints, ebreak and watched
// stores pause after their instruction, watched loads before it.
func (c *core) runDebugged(run func(*core) stop) stop {
	d := c.debug
	c.used = 0
	pg := c.codePage(c.pc)
	if pg == nil {
		return stopHalt
	}
	idx := int(c.pc % pageBytes >> 2)
	if pg.ops[idx].Code() == rv32.Undecoded {
		c.decodeAt(pg, c.pc&^(pageBytes-1), idx)
	}
	o := pg.ops[idx].Inst()
	why := d.hits(watchBreak, watchBreak, c.pc)
	if addr := c.X[o.Rs1] + uint32(o.Imm); o.Code.IsLoad() && !d.loaded {
		if hit := d.hits(watchLoad, watchAccess, addr); hit != 0 {
			c.awaitResumption()
			c.pause(hitWatch | hit)
			d.loaded = true
			if c.thread == nil {
				return stopHalt
			}
			c.tile.chip.stand()
			return c.runDebugged(run)
		}
	} else if o.Code.IsStore() {
		if hit := d.hits(watchStore, watchAccess, addr); hit != 0 {
			why |= hitWatch | hit
		}
	}
	if why&0xFF00 != 0 && why&hitWatch == 0 {
		why |= hitBreak
	}
	if why != 0 || o.Code == rv32.EBREAK {
		c.awaitResumption()
	}
	st := run(c)
	if st == stopBlocked || st == stopAgain || c.state != runnable || *c.tile.fault() != nil {
		return st
	}
	d.loaded = false
	if o.Code == rv32.EBREAK {
		why |= hitEBREAK
	}
	if why == 0 && d.steps == 0 && !d.asked {
		return st
	}
	if d.steps > 0 {
		d.steps--
	}
	c.pause(why)
	if c.thread == nil {
		return stopHalt
	}
	if o.Code == rv32.EBREAK {
		c.used = 0 // the program has none
	}
	if c.tile.chip.stand(); *c.tile.fault() != nil {
		return stopHalt
	}
	return stopSlice
}
