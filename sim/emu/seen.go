package emu

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

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
