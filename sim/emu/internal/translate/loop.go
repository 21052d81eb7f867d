package translate

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

// LongestWait is the most instructions of a loop that is taken to wait.
const LongestWait = 128

// MayWait reports whether a loop, up to its jump back, may do nothing but wait for a change of what
// it loads: on some way through it there is no store, call or untranslated instruction, and
// registers that it reads keep their values. It depends on the instructions for which reached is
// true.
func MayWait(loop []rv32.Op) (may bool, reached []bool) {
	if len(loop) == 0 || len(loop) > LongestWait {
		return false, nil
	}
	last := len(loop) - 1
	// ways returns where an instruction goes on in the loop: to the next one, and by a jump; last+1
	// for nowhere.
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
	var live [LongestWait + 1]uint64 // registers read from here on
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
