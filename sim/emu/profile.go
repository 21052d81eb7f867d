package emu

import (
	"maps"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// longestRound bounds the instructions of a round of a loop that is known to wait.
const longestRound = 256

// skipped is no address of an instruction.
const skipped = 1

// profile counts how often a processor executes each instruction, without the rounds of loops that
// only wait: those that come back to where they began with the same registers, and with the same
// memory.
type profile struct {
	counts  map[uint32]uint64
	recent  [longestRound]uint32 // the last instructions, by the number of each; skipped if it was part of such a round
	last    uint32               // the newest of them
	total   uint64               // instructions executed
	changes uint64               // stores that may have changed something
	jumps   map[uint32]jump      // back, the last to each address
}

// jump is the state when a jump back has been made.
type jump struct {
	regs           [32]uint32
	total, changes uint64
}

// Profile returns how often processor p of the tile at raw NoC 0 coordinate xy has executed the
// instruction at each address since the first call, from which on the processor is emulated slowly.
// Rounds of loops that wait are left out but for the first ones of each wait, so the numbers hardly
// depend on timing. It returns nil if there is no such processor.
func (c *Chip) Profile(xy chip.XY, p chip.Processor) map[uint32]uint64 {
	c.acquire()
	defer c.release()
	t := c.tileAt(xy)
	if t == nil {
		return nil
	}
	k := t.core(p)
	if k == nil {
		return nil
	}
	if k.profile == nil {
		k.profile = &profile{counts: map[uint32]uint64{}, jumps: map[uint32]jump{}}
		k.checked = true
	}
	return maps.Clone(k.profile.counts)
}

// runProfiled is runOne for a processor whose instructions are counted by address.
func (c *core) runProfiled() stop {
	pc, changes := c.pc, true
	if pg := c.codePage(pc); pg != nil {
		c.profile.arrive(c)
		changes = c.changing(pg.ops[pc%pageBytes>>2].Inst())
	}
	st := c.runOne()
	if c.used > 0 {
		c.profile.executed(pc, changes)
	}
	return st
}

// arrive notes that the next instruction is about to be executed, and takes the round that ends
// here out of the counts if it changed nothing.
func (p *profile) arrive(c *core) {
	if p.total == 0 || c.pc > p.last {
		return
	}
	now := jump{[32]uint32(c.X[:32]), p.total, p.changes}
	before, ok := p.jumps[c.pc]
	p.jumps[c.pc] = now
	if !ok || before.regs != now.regs || before.changes != now.changes || now.total-before.total > longestRound {
		return
	}
	for i := before.total; i < now.total; i++ {
		pc := &p.recent[i%longestRound]
		if *pc != skipped {
			p.counts[*pc]--
			*pc = skipped
		}
	}
}

// executed counts the instruction at pc. It changed something if changes is set.
func (p *profile) executed(pc uint32, changes bool) {
	p.counts[pc]++
	p.recent[p.total%longestRound], p.last = pc, pc
	p.total++
	if changes {
		p.changes++
	}
}

// changing reports whether the next instruction may change something besides registers. A store of
// what is already there doesn't.
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
