package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// csrCfg0Bits are the bits of CSR cfg0 that may be set.
const csrCfg0Bits = 0x0104000A

// explain returns the category and text with which an instruction is refused.
func explain(arch chip.Arch, w uint32) (Category, string) {
	f3, csr := w>>12&7, w>>20
	wh := arch == chip.Wormhole
	switch w & 0x7F {
	case 0x0F:
		switch {
		case f3 == 1:
			return UnsupportedFunctionality, "fence.i does not flush the instruction cache and should not be used"
		case f3 == 0 && wh:
			return UnsupportedFunctionality, "fence does not order memory accesses on Wormhole and should not be used"
		case f3 == 0:
			return UnsupportedFunctionality, "fence with an ordering that has not been validated: want 0x23, 0x31, 0x33 or 0xFF in bits 31:20"
		}
	case 0x2F:
		switch {
		case wh:
			return UndefinedBehavior, "Wormhole has no atomic memory operations"
		case w>>27 == 2 || w>>27 == 3:
			return UndefinedBehavior, "lr.w and sc.w do not exist: only the single-instruction atomics do"
		}
	case 0x73:
		switch {
		case f3 == 0 && w == 0x73:
			return ConfigurationError, "ecall: there is no semihosting"
		case f3 == 0:
			return UnsupportedFunctionality, "ebreak or another system instruction: no debugger has put the processor into slow execution mode, so nothing would resume it"
		case wh:
			return UndefinedBehavior, "Wormhole has no CSRs"
		case csr != rv32.Cfg0:
			return UnsupportedFunctionality, "a CSR other than cfg0 (0x7C0)"
		default:
			return UntestedFunctionality, "a form of CSR access that has not been validated"
		}
	case 0x07, 0x27, 0x43, 0x47, 0x4B, 0x4F, 0x53, 0x57:
		if wh {
			return UndefinedBehavior, "Wormhole has no floating-point or vector instructions"
		}
		return UnimplementedFunctionality, "floating-point and vector instructions are not emulated"
	case 0x13, 0x33:
		return UndefinedBehavior, "an ALU operation that the processor does not have"
	case 0x6F:
		return UndefinedBehavior, "a jump to an address that is not a multiple of 4"
	}
	return UndefinedBehavior, "not an instruction"
}
