package emu

import "github.com/reprise-tt/reprise/chip"

// inst is one decoded instruction. Registers are indices into core.x; an instruction whose destination is x0 writes
// sinkReg instead, so that the interpreter never has to ask.
type inst struct {
	code         opcode
	rd, rs1, rs2 uint8
	imm          int32
}

// op is an inst in one word, which the interpreter loads at once: code, rd, rs1, rs2 in eight bits each from bit 0, the
// immediate in the upper half.
type op uint64

func (i inst) op() op {
	return op(i.code) | op(i.rd)<<8 | op(i.rs1)<<16 | op(i.rs2)<<24 | op(uint32(i.imm))<<32
}

func (o op) code() opcode { return opcode(o) }

func (o op) inst() inst {
	return inst{opcode(o), uint8(o >> 8), uint8(o >> 16), uint8(o >> 24), int32(o >> 32)}
}

// sinkReg is the register that takes what is written to x0.
const sinkReg = 32

type opcode uint8

// The operations of the interpreter. opUndecoded is zero so that a fresh page is undecoded.
const (
	opUndecoded opcode = iota
	opNop
	opLI // rd = imm: LUI and AUIPC, whose result is known when decoding
	opADDI
	opSLTI
	opSLTIU
	opXORI
	opORI
	opANDI
	opSLLI
	opSRLI
	opSRAI
	opADD
	opSUB
	opSLL
	opSLT
	opSLTU
	opXOR
	opSRL
	opSRA
	opOR
	opAND
	opMUL
	opMULH
	opMULHSU
	opMULHU
	opDIV
	opDIVU
	opREM
	opREMU
	opBEQ
	opBNE
	opBLT
	opBGE
	opBLTU
	opBGEU
	opJAL
	opJALR
	opLB
	opLH
	opLW
	opLBU
	opLHU
	opSB
	opSH
	opSW
	opFENCE
	opCSRRW
	opCSRRS
	opCSRRC
	opCSRRWI
	opAMOADD
	opAMOSWAP
	opAMOXOR
	opAMOOR
	opAMOAND
	opAMOMIN
	opAMOMAX
	opAMOMINU
	opAMOMAXU
	opMIN
	opMINU
	opMAX
	opMAXU
	opSH1ADD
	opSH2ADD
	opSH3ADD
	opXNOR
	opORN
	opANDN
	opROL
	opROR
	opRORI
	opPACK
	opCLZ
	opCTZ
	opCPOP
	opSEXTB
	opSEXTH
	opORCB
	opREV8
	opBREV8
	opEBREAK  // ebreak and ecall
	opSkewed  // a branch to an address that is not a multiple of 4
	opTensix  // .ttinsn: a Tensix instruction inside the instruction stream
	opIllegal // refused when it is executed, with a text from explain
)

// illegal describes an instruction that is refused. Decoding only notes the fact: an instruction that is never executed
// is never refused.
func illegal() inst { return inst{code: opIllegal} }

// decode decodes the instruction word w at address pc.
func decode(arch chip.Arch, w, pc uint32) inst {
	if w&3 != 3 {
		return inst{code: opTensix, imm: int32(w)}
	}
	rd, rs1, rs2 := uint8(w>>7&31), uint8(w>>15&31), uint8(w>>20&31)
	if rd == 0 {
		rd = sinkReg
	}
	f3, f7 := w>>12&7, w>>25
	iimm := int32(w) >> 20
	switch w & 0x7F {
	case 0x37:
		return alu(inst{code: opLI, rd: rd, imm: int32(w & 0xFFFFF000)})
	case 0x17:
		return alu(inst{code: opLI, rd: rd, imm: int32(pc + w&0xFFFFF000)})
	case 0x6F:
		imm := int32(w)>>31<<20 | int32(w&0xFF000) | int32(w>>20&1)<<11 | int32(w>>21&0x3FF)<<1
		if imm&3 != 0 {
			return illegal()
		}
		return inst{code: opJAL, rd: rd, imm: imm >> 2}
	case 0x67:
		// ttsim ignores funct3 of none but the defined encoding; others do not decode.
		if f3 != 0 {
			return illegal()
		}
		return inst{code: opJALR, rd: rd, rs1: rs1, imm: iimm}
	case 0x63:
		imm := int32(w)>>31<<12 | int32(w>>7&1)<<11 | int32(w>>25&0x3F)<<5 | int32(w>>8&15)<<1
		code := [8]opcode{opBEQ, opBNE, opIllegal, opIllegal, opBLT, opBGE, opBLTU, opBGEU}[f3]
		if code == opIllegal {
			return illegal()
		}
		if imm&3 != 0 { // refused only when it is taken
			return inst{code: opSkewed, rd: sinkReg, rs1: rs1, rs2: rs2, imm: imm}
		}
		return inst{code: code, rs1: rs1, rs2: rs2, imm: imm >> 2}
	case 0x03:
		code := [8]opcode{opLB, opLH, opLW, opIllegal, opLBU, opLHU, opIllegal, opIllegal}[f3]
		return inst{code: code, rd: rd, rs1: rs1, imm: iimm}
	case 0x23:
		code := [8]opcode{opSB, opSH, opSW, opIllegal, opIllegal, opIllegal, opIllegal, opIllegal}[f3]
		return inst{code: code, rs1: rs1, rs2: rs2, imm: int32(w&0xFE000000)>>20 | int32(w>>7&31)}
	case 0x13:
		return alu(decodeALUImm(arch, f3, inst{rd: rd, rs1: rs1, imm: iimm}))
	case 0x33:
		code := decodeALU(arch, f3, f7)
		if code == opIllegal {
			return illegal()
		}
		return alu(inst{code: code, rd: rd, rs1: rs1, rs2: rs2})
	}
	if w == 0x00100073 || w == 0x73 {
		return inst{code: opEBREAK}
	}
	if arch == chip.Blackhole {
		return decodeBlackhole(w, f3, inst{rd: rd, rs1: rs1, rs2: rs2})
	}
	return illegal()
}

// alu turns an instruction without an effect into opNop, which still waits for its operands.
func alu(o inst) inst {
	if o.rd == sinkReg && o.code != opIllegal {
		return inst{code: opNop, rs1: o.rs1, rs2: o.rs2}
	}
	return o
}

func decodeALUImm(arch chip.Arch, f3 uint32, o inst) inst {
	bh := arch == chip.Blackhole
	imm := uint32(o.imm) & 0xFFF
	switch f3 {
	case 0:
		o.code = opADDI
	case 2:
		o.code = opSLTI
	case 3:
		o.code = opSLTIU
	case 4:
		o.code = opXORI
	case 6:
		o.code = opORI
	case 7:
		o.code = opANDI
	case 1:
		switch {
		case imm < 32:
			o.code = opSLLI
		case bh && imm == 0x600:
			o.code = opCLZ
		case bh && imm == 0x601:
			o.code = opCTZ
		case bh && imm == 0x602:
			o.code = opCPOP
		case bh && imm == 0x604:
			o.code = opSEXTB
		case bh && imm == 0x605:
			o.code = opSEXTH
		default:
			o.code = opIllegal
		}
	case 5:
		switch {
		case imm < 32:
			o.code = opSRLI
		case imm >= 0x400 && imm < 0x420:
			o.code, o.imm = opSRAI, o.imm&31
		case bh && imm == 0x287:
			o.code = opORCB
		case bh && imm >= 0x600 && imm < 0x620:
			o.code, o.imm = opRORI, o.imm&31
		case bh && imm == 0x698:
			o.code = opREV8
		case bh && imm == 0x687:
			o.code = opBREV8
		default:
			o.code = opIllegal
		}
	}
	return o
}

// decodeALU returns the operation of a register-register instruction, opIllegal if the architecture has none.
// Blackhole adds Zba, Zbb and pack (tt-isa-documentation BlackholeA0/TensixTile/BabyRISCV/README.md, ttsim
// src/riscv_impl.h).
func decodeALU(arch chip.Arch, f3, f7 uint32) opcode {
	switch f7 {
	case 0:
		return [8]opcode{opADD, opSLL, opSLT, opSLTU, opXOR, opSRL, opOR, opAND}[f3]
	case 1:
		return [8]opcode{opMUL, opMULH, opMULHSU, opMULHU, opDIV, opDIVU, opREM, opREMU}[f3]
	case 32:
		switch f3 {
		case 0:
			return opSUB
		case 5:
			return opSRA
		}
	}
	if arch != chip.Blackhole {
		return opIllegal
	}
	switch f7<<3 | f3 {
	case 5<<3 | 4:
		return opMIN
	case 5<<3 | 5:
		return opMINU
	case 5<<3 | 6:
		return opMAX
	case 5<<3 | 7:
		return opMAXU
	case 16<<3 | 2:
		return opSH1ADD
	case 16<<3 | 4:
		return opSH2ADD
	case 16<<3 | 6:
		return opSH3ADD
	case 32<<3 | 4:
		return opXNOR
	case 32<<3 | 6:
		return opORN
	case 32<<3 | 7:
		return opANDN
	case 48<<3 | 1:
		return opROL
	case 48<<3 | 5:
		return opROR
	case 4<<3 | 4:
		return opPACK
	}
	return opIllegal
}

// decodeBlackhole decodes what only Blackhole has: fence, atomic memory operations and CSR instructions, as far as
// ttsim accepts them (src/riscv_impl.h).
func decodeBlackhole(w, f3 uint32, o inst) inst {
	switch w & 0x7F {
	case 0x0F:
		if f3 != 0 || w&0x000F8F80 != 0 {
			return illegal()
		}
		switch w >> 20 {
		case 0x023, 0x031, 0x033, 0x0FF:
			return inst{code: opFENCE}
		}
		return illegal()
	case 0x2F:
		if f3 != 2 {
			return illegal()
		}
		switch w >> 27 {
		case 0x00:
			o.code = opAMOADD
		case 0x01:
			o.code = opAMOSWAP
		case 0x04:
			o.code = opAMOXOR
		case 0x08:
			o.code = opAMOOR
		case 0x0C:
			o.code = opAMOAND
		case 0x10:
			o.code = opAMOMIN
		case 0x14:
			o.code = opAMOMAX
		case 0x18:
			o.code = opAMOMINU
		case 0x1C:
			o.code = opAMOMAXU
		default:
			return illegal()
		}
		return o
	case 0x73:
		// Encodings that ttsim calls untested (a destination with csrrw, csrrc, csrrwi; any csrrsi, csrrci) stay illegal.
		switch {
		case w>>20 != csrCfg0:
		case f3 == 1 && o.rd == sinkReg:
			o.code = opCSRRW
			return o
		case f3 == 2:
			o.code = opCSRRS
			return o
		case f3 == 3 && o.rd == sinkReg && o.rs1 != 0:
			o.code = opCSRRC
			return o
		case f3 == 5 && o.rd == sinkReg:
			o.code, o.imm = opCSRRWI, int32(o.rs1)
			return o
		}
	}
	return illegal()
}

// csrCfg0 is the only CSR that ttsim accepts; csrCfg0Bits are the bits of it that may be set.
const (
	csrCfg0     = 0x7C0
	csrCfg0Bits = 0x0104000A
)

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
		case csr != csrCfg0:
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
