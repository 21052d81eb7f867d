// Package translate makes machine code of the host (amd64 and arm64; it runs on Linux) from decoded
// instructions of the emulated processors. It knows registers, memory, local RAM, and registers of
// the tile that are plain words; its caller executes all else. Code does, instruction for
// instruction, what package emu's interpreter does, and ends where that ends.
//
// The unit of translation is a range of instructions of a page. Its code can be entered at each of
// them. Jumps out of the range, and accesses to other registers, misaligned addresses or watched
// lines, leave it. Code lies in memory that is writable or executable, never both.
//
// What both hosts have in common is emitter's; x86 and arm make instructions.
package translate

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

// Exit says why code was left.
type Exit int32

const (
	// Jumped: out of the range, or with the budget used up.
	Jumped Exit = iota
	// Fell: the instruction after the range is next.
	Fell
	// Slow: the next instruction needs more than registers and plain memory.
	Slow
	// Waits: a jump back in a loop that may do nothing but wait.
	Waits
	// Back: a jump back to before the range, in a short loop that may wait. The exit also has the
	// index for Exit.Back.
	Back
)

// exitBits are those of an exit without Back's index.
const exitBits = 8

// Back returns the index of the instruction that jumped back, if the exit is Back.
func (e Exit) Back() (int, bool) { return int(e >> exitBits), e&(1<<exitBits-1) == Back }

// Code is the translation of a range of instructions.
type Code struct {
	// First and End are the range, as indexes in the page.
	First, End int
	// Ops are the instructions.
	Ops []rv32.Op
	// Waits are the indexes of jumps back, in loops that may wait, after which code is left.
	Waits []int

	start  uintptr
	bodies []int32 // offsets of instructions from start
}

// Target returns the index to which instruction i of the range jumps by its offset.
func (c *Code) Target(i int) int { return i + int(c.Ops[i-c.First].Inst().Imm) }

type program struct {
	base  uint32 // address of the page
	first int
	ops   []rv32.Op

	registers *Registers // that each machine has, or nil
	waits     []int      // jumps back after which code is left
}

func (p *program) end() int { return p.first + len(p.ops) }

func (p *program) has(i int) bool { return i >= p.first && i < p.end() }

// uses returns the n registers that the range names most often, most frequent first.
func (p *program) uses(n int) (regs []uint8) {
	var count [rv32.Sink + 1]int
	for _, o := range p.ops {
		i := o.Inst()
		r := reads(i.Code)
		if r >= 1 {
			count[i.Rs1]++
		}
		if r >= 2 {
			count[i.Rs2]++
		}
		if writes(i.Code) {
			count[i.Rd]++
		}
	}
	count[0], count[rv32.Sink] = 0, 0
	for len(regs) < n {
		best := 0
		for r, c := range count {
			if c > count[best] {
				best = r
			}
		}
		if best == 0 {
			break
		}
		regs = append(regs, uint8(best))
		count[best] = 0
	}
	return regs
}

func (p *program) written() (w [rv32.Sink + 1]bool) {
	for _, o := range p.ops {
		if i := o.Inst(); writes(i.Code) {
			w[i.Rd] = true
		}
	}
	return w
}

type kind uint8

const (
	leave kind = iota // to Slow
	nothing
	compute // from registers to a register
	jump
	branch
	load
	store
)

func kindOf(c rv32.Opcode) kind {
	switch {
	case c == rv32.Nop, c == rv32.FENCE:
		return nothing
	case c >= rv32.LI && c <= rv32.REMU, c >= rv32.MIN && c <= rv32.BREV8:
		return compute
	case c == rv32.JAL, c == rv32.JALR:
		return jump
	case c.IsBranch():
		return branch
	case c.IsLoad():
		return load
	case c.IsStore():
		return store
	}
	return leave
}

// reads is how many of Rs1 and Rs2 a translated operation reads.
func reads(c rv32.Opcode) int {
	switch kindOf(c) {
	case load:
		return 1
	case branch, store:
		return 2
	case jump:
		if c == rv32.JALR {
			return 1
		}
	case compute:
		switch {
		case c == rv32.LI:
			return 0
		case c >= rv32.ADDI && c <= rv32.SRAI, c == rv32.RORI, c >= rv32.CLZ:
			return 1
		}
		return 2
	}
	return 0
}

// writes reports whether a translated operation writes Rd.
func writes(c rv32.Opcode) bool {
	k := kindOf(c)
	return k == compute || k == jump || k == load
}

// localFirst reports whether an address is likelier in local RAM than in L1: by sp, gp or tp.
func localFirst(base uint8) bool { return base >= 2 && base <= 4 }
