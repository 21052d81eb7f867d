package emu

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

// arrive notes that the next instruction is about to be executed, and takes the round that ends
// here out of the counts if it changed nothing.
func (p *profile) arrive(at uint32, x *[256]uint32) {
	if p.total == 0 || at > p.last {
		return
	}
	now := jump{[32]uint32(x[:32]), p.total, p.changes}
	before, ok := p.jumps[at]
	p.jumps[at] = now
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
