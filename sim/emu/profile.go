package emu

const longestRound = 256

// no instruction's address
const skipped = 1

// profile counts executed instructions, without rounds of loops that only wait: those that end with
// the registers and memory with which they began.
type profile struct {
	counts  map[uint32]uint64
	recent  [longestRound]uint32 // the last instructions, by number; skipped in a waiting round
	last    uint32               // the newest of them
	total   uint64               // instructions executed
	waited  uint64               // those of them in waiting rounds
	changes uint64               // stores that may have changed something
	jumps   map[uint32]jump      // the last jump back to each address
}

type jump struct {
	regs           [32]uint32
	total, changes uint64
}

// arrive takes the round that ends at an instruction out of the counts if it changed nothing.
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
			p.waited++
		}
	}
}

func (p *profile) executed(pc uint32, changes bool) {
	p.counts[pc]++
	p.recent[p.total%longestRound], p.last = pc, pc
	p.total++
	if changes {
		p.changes++
	}
}
