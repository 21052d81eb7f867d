package check

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Stack follows the stack of one processor in its local RAM. The chip doesn't know where data end,
// but what a program stores below the stack pointer is data (RISC-V calling convention).
//
// A kernel, the outermost call through a pointer, loses its data when it returns, because the next
// kernel's may end lower.
type Stack struct {
	data   uint32 // end of base firmware's data
	kernel uint32 // end of the kernel's data
	link   uint32 // where the kernel returns to, or 0
	sp     uint32 // at its call
}

const (
	regRA = 1
	regSP = 2
)

// Step checks the instruction at pc before it is executed: it returns where the stack pointer must
// not go, and why, or "". store says that the instruction stores n bytes at addr.
func (s *Stack) Step(pc uint32, x *[256]uint32, localBytes uint32, o rv32.Inst, addr, n uint32, store bool) (to uint32, refused string) {
	sp := x[regSP]
	if s.link != 0 && pc == s.link && sp == s.sp {
		s.link, s.kernel = 0, 0
	}
	if sp-localBase > localBytes {
		return 0, "" // no stack, or none in local RAM
	}
	switch {
	case store:
		if end := addr + n; addr >= localBase && end <= sp {
			if s.link != 0 {
				s.kernel = max(s.kernel, end)
			} else {
				s.data = max(s.data, end)
			}
		}
		return 0, ""
	case o.Code == rv32.JALR && o.Rd == regRA && o.Rs1 != regRA: // with rs1 == ra it is a far call of a known function
		if s.link == 0 {
			s.link, s.sp, s.kernel = pc+4, sp, 0
		}
		return 0, ""
	case o.Rd != regSP:
		return 0, ""
	}
	to = sp
	switch o.Code {
	case rv32.ADDI:
		to = x[o.Rs1] + uint32(o.Imm)
	case rv32.ADD:
		to = x[o.Rs1] + x[o.Rs2]
	case rv32.SUB:
		to = x[o.Rs1] - x[o.Rs2]
	}
	limit := max(s.data, s.kernel, localBase)
	if to >= limit || to >= sp || sp < limit {
		return 0, ""
	}
	return to, fmt.Sprintf("stack overflow: the stack pointer goes down from %#x to %#x, and data end at %#x", sp, to, limit)
}
