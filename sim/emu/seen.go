package emu

import (
	"math/bits"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Most of the time a core waits where it waited before. Whether it does so again is seen without
// executing the loop: with the same values in all registers that the loop names, and in all that it
// reads, its next round is what it was then.

const (
	maxSeen      = 8 // waits of a core that are kept, a power of two
	maxSeenRegs  = 8 // registers that a loop may name for that
	maxSeenReads = 4 // places in L1 that it may read
)

// seenWaits are the last waits of a core.
type seenWaits struct {
	pcs  [maxSeen]uint32 // of the instructions at which they began
	next uint8           // the place of the next one
	all  [maxSeen]seenWait
}

// seenWait is a wait in which a core was. What is compared first is first, and most waits fit into
// two lines of the host's caches.
type seenWait struct {
	known           bool // else none
	n, reads, local uint8
	lo, hi          uint32 // the loop's lines of code
	regs            [maxSeenRegs]uint8
	values          [maxSeenRegs]uint32
	read            [maxSeenReads]read
	localRead       [maxLocals]localRead
}

// names returns the registers that an instruction names, as bits.
func names(o rv32.Op) uint64 {
	i := o.Inst()
	return (1<<i.Rd | 1<<i.Rs1 | 1<<i.Rs2) &^ (1<<rv32.Sink | 1)
}

// keep keeps the wait that the core is in, in a loop that names some registers.
func (c *core) keep(named uint64) {
	w := &c.wait
	if !w.known || w.n > maxSeenReads || w.locals > maxLocals || bits.OnesCount64(named) > maxSeenRegs {
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

// waitsAgain reports whether the core is in a wait in which it was before, and fills in what it
// waits for.
func (c *core) waitsAgain() bool {
	if c.seen == nil || len(c.tile.chip.events) > 0 { // which are between instructions
		return false
	}
	for i, pc := range c.seen.pcs {
		if pc != c.pc {
			continue
		}
		if s := &c.seen.all[i]; s.known && s.holds(c) {
			w := &c.wait
			w.known, w.lo, w.hi = true, s.lo, s.hi
			w.n = copy(w.reads[:], s.read[:s.reads])
			c.classes, c.watched = 0, 0
			c.again = uint8(i) + 1
			return true
		}
	}
	return false
}

// overwroteSeen notes a store to a line of code.
func (c *core) overwroteSeen(line uint32) {
	if c.seen != nil {
		for i := range c.seen.all {
			if s := &c.seen.all[i]; s.lo <= line && line <= s.hi {
				s.known = false
			}
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
	for _, r := range s.localRead[:s.local] {
		if c.local[r.word] != r.value {
			return false
		}
	}
	for _, r := range s.read[:s.reads] {
		if c.tile.l1[r.word]&r.mask != r.value {
			return false
		}
	}
	return true
}
