package emu

import (
	"math/bits"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Most of the time a core waits where it waited before. Whether it does so again is seen without executing the loop: with the same values
// in all registers that the loop names, and in all that it reads, its next round is what it was then.

const (
	maxSeen     = 8 // waits of a core that are kept, a power of two
	maxSeenRegs = 8 // registers that a loop may name for that
)

// seenWaits are the last waits of a core.
type seenWaits struct {
	pcs  [maxSeen]uint32 // of the instructions at which they began
	next uint8           // the place of the next one
	all  [maxSeen]seenWait
}

// seenWait is a wait in which a core was.
type seenWait struct {
	wait   wait // if it isn't known, none
	n      int  // of registers
	regs   [maxSeenRegs]uint8
	values [maxSeenRegs]uint32
}

// names returns the registers that an instruction names, as bits.
func names(o rv32.Op) uint64 {
	i := o.Inst()
	return (1<<i.Rd | 1<<i.Rs1 | 1<<i.Rs2) &^ (1<<rv32.Sink | 1)
}

// keep keeps the wait that the core is in, in a loop that names some registers.
func (c *core) keep(named uint64) {
	if !c.wait.known || c.wait.locals > maxLocals || bits.OnesCount64(named) > maxSeenRegs {
		return
	}
	if c.seen == nil {
		c.seen = new(seenWaits)
	}
	i := c.seen.next % maxSeen
	c.seen.next++
	c.seen.pcs[i] = c.pc
	s := &c.seen.all[i]
	*s = seenWait{wait: c.wait}
	for ; named != 0; named &= named - 1 {
		r := uint8(bits.TrailingZeros64(named))
		s.regs[s.n], s.values[s.n] = r, c.X[r]
		s.n++
	}
}

// waitsAgain reports whether the core is in a wait in which it was before, and fills in what it waits for.
func (c *core) waitsAgain() bool {
	if c.seen == nil || len(c.tile.chip.events) > 0 { // which are between instructions
		return false
	}
	for i, pc := range c.seen.pcs {
		if pc != c.pc {
			continue
		}
		if s := &c.seen.all[i]; s.wait.known && s.holds(c) {
			c.wait, c.classes, c.watched = s.wait, 0, 0
			for _, r := range s.wait.reads[:s.wait.n] {
				c.watches(r.word >> (lineShift - 2))
			}
			return true
		}
	}
	return false
}

// overwroteSeen notes a store to a line of code.
func (c *core) overwroteSeen(line uint32) {
	if c.seen != nil {
		for i := range c.seen.all {
			c.seen.all[i].wait.overwritten(line)
		}
	}
}

// holds reports whether registers and memory are as they were in the wait.
func (s *seenWait) holds(c *core) bool {
	for i, r := range s.regs[:s.n] {
		if c.X[r] != s.values[i] {
			return false
		}
	}
	for _, r := range s.wait.local[:s.wait.locals] {
		if c.local[r.word] != r.value {
			return false
		}
	}
	for _, r := range s.wait.reads[:s.wait.n] {
		if c.tile.l1[r.word]&r.mask != r.value {
			return false
		}
	}
	return true
}
