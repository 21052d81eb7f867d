package emu

import (
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Bounds for a wait to be known: places in L1; for it to be kept: words of local RAM.
const maxReads = 8

const maxLocals = 4

// wait is what a waiting loop depends on. While none of it changes, the core needn't be woken, for
// instance by a store next to a polled word.
type wait struct {
	known  bool
	lo, hi uint32 // the loop's lines of code
	n      int    // of reads
	reads  [maxReads]read
	// What it reads of local RAM; locals is maxLocals+1 for more than fit.
	locals int
	local  [maxLocals]localRead
}

type localRead struct{ word, value uint32 }

type read struct{ word, mask, value uint32 }

// begin begins a probe; known says whether the wait's sources can be known.
func (w *wait) begin(known bool) {
	w.known = known
	w.n, w.locals, w.lo, w.hi = 0, 0, ^uint32(0), 0
}

// at notes n instructions of the loop. It can't be known in instruction RAM, whose changes aren't
// reported.
func (w *wait) at(pc uint32, n int) {
	w.lo, w.hi = min(w.lo, pc>>lineShift), max(w.hi, (pc+uint32(n-1)*4)>>lineShift)
	w.known = w.known && pc < localBase
}

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

// end notes that the core waits. Changes of registers aren't followed here.
func (w *wait) end(registers bool) {
	w.known = w.known && !registers
}

func (w *wait) overwritten(line uint32) {
	if w.lo <= line && line <= w.hi {
		w.known = false
	}
}

// A core mostly waits where it waited before. That is recognised without executing the loop: by the
// values of all registers that it names, and of all that it reads.

const (
	maxSeen      = 8 // waits of a core that are kept, a power of two
	maxSeenRegs  = 8 // registers that a kept loop may name
	maxSeenReads = 4 // places in L1 that it may read
)

type seenWaits struct {
	pcs  [maxSeen]uint32 // of the instructions at which they began
	next uint8           // the place of the next one
	all  [maxSeen]seenWait
}

// seenWait is a kept wait. Most fit into two cache lines.
type seenWait struct {
	known           bool
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
