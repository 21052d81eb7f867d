package emu

import (
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// maxReads is the most places in L1 that a loop may read for its wait to be known.
const maxReads = 8

// maxLocals is the most words of local RAM that a loop may read for a wait in it to be kept.
const maxLocals = 4

// wait is what a core's waiting loop depends on. While none of it changes the loop goes round as
// before, so that the core needn't be woken for it, for instance by a store next to a polled word.
type wait struct {
	known  bool
	lo, hi uint32 // the loop's lines of code
	n      int    // of reads
	reads  [maxReads]read
	// What it reads of local RAM, which only the core itself changes: for whether a wait is the one
	// that it was. If there is more, locals is maxLocals+1.
	locals int
	local  [maxLocals]localRead
}

// localRead is a word of local RAM, and its value.
type localRead struct{ word, value uint32 }

// read is a place in L1: part of a word, and its value.
type read struct{ word, mask, value uint32 }

// begin notes that the core begins to probe whether it waits; known says whether what it depends on
// can be known.
func (w *wait) begin(known bool) {
	w.known = known
	w.n, w.locals, w.lo, w.hi = 0, 0, ^uint32(0), 0
}

// at notes n instructions of the loop. Changes of instruction RAM aren't reported, so a loop there
// isn't known.
func (w *wait) at(pc uint32, n int) {
	w.lo, w.hi = min(w.lo, pc>>lineShift), max(w.hi, (pc+uint32(n-1)*4)>>lineShift)
	w.known = w.known && pc < localBase
}

// read notes a load of n bytes from L1.
func (w *wait) read(l1 []uint32, addr, n uint32) {
	mask := ^uint32(0) >> (32 - 8*n) << (addr & 3 * 8)
	r := read{addr >> 2, mask, l1[addr>>2] & mask}
	for _, o := range w.reads[:w.n] {
		if o == r {
			return
		}
	}
	if w.n == maxReads {
		w.known = false
		return
	}
	w.reads[w.n] = r
	w.n++
}

// readLocal notes a load from local RAM.
func (w *wait) readLocal(word, value uint32) {
	for _, o := range w.local[:min(w.locals, maxLocals)] {
		if o.word == word {
			return
		}
	}
	if w.locals < maxLocals {
		w.local[w.locals] = localRead{word, value}
	}
	w.locals = min(w.locals+1, maxLocals+1)
}

// end notes that the core waits, and whether it reads registers. Registers of the tile change in
// ways that aren't followed here.
func (w *wait) end(registers bool) {
	w.known = w.known && !registers
}

// overwritten notes a store to a line of code.
func (w *wait) overwritten(line uint32) {
	if w.lo <= line && line <= w.hi {
		w.known = false
	}
}

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

// holds reports whether registers and memory are as they were in the wait.
func (s *seenWait) holds(x *[256]uint32, local, l1 []uint32) bool {
	for i, r := range s.regs[:s.n] {
		if x[r] != s.values[i] {
			return false
		}
	}
	for _, r := range s.localRead[:s.local] {
		if local[r.word] != r.value {
			return false
		}
	}
	for _, r := range s.read[:s.reads] {
		if l1[r.word]&r.mask != r.value {
			return false
		}
	}
	return true
}
