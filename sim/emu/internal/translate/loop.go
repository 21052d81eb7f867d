package translate

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

// LongestWait is how many instructions a loop has at most that is taken to wait.
const LongestWait = 128

// MayWait reports whether a loop may do nothing but wait until something changes that it loads: its
// instructions are those from that to which its last one jumps back. On some way through it there
// is no store, no call and nothing else that isn't translated, and each round finds the registers
// as the one before did: what it reads of them it doesn't write, or it writes it before. That
// depends on the instructions for which reached is true: others are data that the loop jumps over.
func MayWait(loop []rv32.Op) (may bool, reached []bool) {
	if len(loop) == 0 || len(loop) > LongestWait {
		return false, nil
	}
	last := len(loop) - 1
	// ways returns where an instruction goes on in the loop: to the next one, and where it jumps
	// to. Either is last+1 if it isn't so.
	ways := func(k int) (next, to int) {
		o := loop[k].Inst()
		next, to = k+1, last+1
		switch kindOf(o.Code) {
		case leave, store:
			next = last + 1
		case jump, branch:
			if o.Imm > 0 && int(o.Imm) <= last-k {
				to = k + int(o.Imm)
			}
			if kindOf(o.Code) == jump {
				next = last + 1
			}
			if o.Code == rv32.JALR || o.Code == rv32.JAL && o.Rd != rv32.Sink {
				to = last + 1
			}
		}
		return next, to
	}
	var goesOn [LongestWait + 1]bool // it comes to the jump back
	var live [LongestWait + 1]uint64 // registers whose values an instruction and what follows read
	reached = make([]bool, len(loop)+1)
	reached[0] = true
	for k := range last {
		next, to := ways(k)
		reached[next], reached[to] = reached[next] || reached[k], reached[to] || reached[k]
	}
	written := uint64(0)
	for k := last; k >= 0; k-- {
		o := loop[k].Inst()
		switch next, to := ways(k); {
		case k == last:
			goesOn[k] = kindOf(o.Code) == branch || o.Code == rv32.JAL && o.Rd == rv32.Sink
		default:
			goesOn[k], live[k] = goesOn[next] || goesOn[to], live[next]|live[to]
		}
		if !reached[k] || !goesOn[k] {
			live[k] = 0
			continue
		}
		if writes(o.Code) {
			live[k] &^= 1 << o.Rd
			written |= 1 << o.Rd
		}
		n := reads(o.Code)
		if n >= 1 {
			live[k] |= 1 << o.Rs1
		}
		if n >= 2 {
			live[k] |= 1 << o.Rs2
		}
	}
	return goesOn[0] && live[0]&written&^(1<<rv32.Sink) == 0, reached[:len(loop)]
}
