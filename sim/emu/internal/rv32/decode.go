// Package rv32 decodes the processors' RISC-V instructions: RV32IM, and on Blackhole also Zba, Zbb,
// atomics and a CSR.
package rv32

import "github.com/reprise-tt/reprise/chip"

// Inst is one decoded instruction. A destination x0 is Sink instead.
type Inst struct {
	Code         Opcode
	Rd, Rs1, Rs2 uint8
	// Imm of branches and JAL counts instructions.
	Imm int32
}

// Op is an Inst in one word, which the interpreter loads at once: Code, Rd, Rs1, Rs2 in eight bits
// each from bit 0, Imm in the upper half.
type Op uint64

// Op packs an instruction.
func (i Inst) Op() Op {
	return Op(i.Code) | Op(i.Rd)<<8 | Op(i.Rs1)<<16 | Op(i.Rs2)<<24 | Op(uint32(i.Imm))<<32
}

// Code is the operation.
func (o Op) Code() Opcode { return Opcode(o) }

// Inst unpacks an instruction.
func (o Op) Inst() Inst {
	return Inst{Opcode(o), uint8(o >> 8), uint8(o >> 16), uint8(o >> 24), int32(o >> 32)}
}

// Sink is the register that takes what is written to x0.
const Sink = 32

// Opcode is an operation.
type Opcode uint8

// The operations. Undecoded is zero so that a fresh page is undecoded.
const (
	Undecoded Opcode = iota
	Nop
	LI // rd = imm: LUI and AUIPC
	ADDI
	SLTI
	SLTIU
	XORI
	ORI
	ANDI
	SLLI
	SRLI
	SRAI
	ADD
	SUB
	SLL
	SLT
	SLTU
	XOR
	SRL
	SRA
	OR
	AND
	MUL
	MULH
	MULHSU
	MULHU
	DIV
	DIVU
	REM
	REMU
	BEQ
	BNE
	BLT
	BGE
	BLTU
	BGEU
	JAL
	JALR
	LB
	LH
	LW
	LBU
	LHU
	SB
	SH
	SW
	FENCE
	CSRRW
	CSRRS
	CSRRC
	CSRRWI
	AMOADD
	AMOSWAP
	AMOXOR
	AMOOR
	AMOAND
	AMOMIN
	AMOMAX
	AMOMINU
	AMOMAXU
	MIN
	MINU
	MAX
	MAXU
	SH1ADD
	SH2ADD
	SH3ADD
	XNOR
	ORN
	ANDN
	ROL
	ROR
	RORI
	PACK
	CLZ
	CTZ
	CPOP
	SEXTB
	SEXTH
	ORCB
	REV8
	BREV8
	EBREAK  // ebreak and ecall
	Skewed  // a branch to a misaligned address
	Tensix  // .ttinsn
	Illegal // refused when executed
)

func (c Opcode) IsBranch() bool { return c >= BEQ && c <= BGEU }

func (c Opcode) IsLoad() bool { return c >= LB && c <= LHU }

func (c Opcode) IsStore() bool { return c >= SB && c <= SW }

func (c Opcode) IsAMO() bool { return c >= AMOADD && c <= AMOMAXU }

// Bytes is how many a load or store moves.
func (c Opcode) Bytes() uint32 {
	switch c {
	case LB, LBU, SB:
		return 1
	case LH, LHU, SH:
		return 2
	}
	return 4
}

// Decode decodes the instruction word w at address pc.
func Decode(arch chip.Arch, w, pc uint32) Inst {
	if w&3 != 3 {
		return Inst{Code: Tensix, Imm: int32(w)}
	}
	rd, rs1, rs2 := uint8(w>>7&31), uint8(w>>15&31), uint8(w>>20&31)
	if rd == 0 {
		rd = Sink
	}
	f3, f7 := w>>12&7, w>>25
	iimm := int32(w) >> 20
	switch w & 0x7F {
	case 0x37:
		return alu(Inst{Code: LI, Rd: rd, Imm: int32(w & 0xFFFFF000)})
	case 0x17:
		return alu(Inst{Code: LI, Rd: rd, Imm: int32(pc + w&0xFFFFF000)})
	case 0x6F:
		imm := int32(w)>>31<<20 | int32(w&0xFF000) | int32(w>>20&1)<<11 | int32(w>>21&0x3FF)<<1
		if imm&3 != 0 {
			return Inst{Code: Illegal}
		}
		return Inst{Code: JAL, Rd: rd, Imm: imm >> 2}
	case 0x67:
		// ttsim ignores funct3 of none but the defined encoding.
		if f3 != 0 {
			return Inst{Code: Illegal}
		}
		return Inst{Code: JALR, Rd: rd, Rs1: rs1, Imm: iimm}
	case 0x63:
		imm := int32(w)>>31<<12 | int32(w>>7&1)<<11 | int32(w>>25&0x3F)<<5 | int32(w>>8&15)<<1
		code := [8]Opcode{BEQ, BNE, Illegal, Illegal, BLT, BGE, BLTU, BGEU}[f3]
		if code == Illegal {
			return Inst{Code: Illegal}
		}
		if imm&3 != 0 { // refused only when it is taken
			return Inst{Code: Skewed, Rd: Sink, Rs1: rs1, Rs2: rs2, Imm: imm}
		}
		return Inst{Code: code, Rs1: rs1, Rs2: rs2, Imm: imm >> 2}
	case 0x03:
		code := [8]Opcode{LB, LH, LW, Illegal, LBU, LHU, Illegal, Illegal}[f3]
		return Inst{Code: code, Rd: rd, Rs1: rs1, Imm: iimm}
	case 0x23:
		code := [8]Opcode{SB, SH, SW, Illegal, Illegal, Illegal, Illegal, Illegal}[f3]
		return Inst{Code: code, Rs1: rs1, Rs2: rs2, Imm: int32(w&0xFE000000)>>20 | int32(w>>7&31)}
	case 0x13:
		return alu(decodeALUImm(arch, f3, Inst{Rd: rd, Rs1: rs1, Imm: iimm}))
	case 0x33:
		code := decodeALU(arch, f3, f7)
		if code == Illegal {
			return Inst{Code: Illegal}
		}
		return alu(Inst{Code: code, Rd: rd, Rs1: rs1, Rs2: rs2})
	}
	if w == 0x00100073 || w == 0x73 {
		return Inst{Code: EBREAK}
	}
	if arch == chip.Blackhole {
		return decodeBlackhole(w, f3, Inst{Rd: rd, Rs1: rs1, Rs2: rs2})
	}
	return Inst{Code: Illegal}
}

// alu turns an instruction without an effect into Nop, which still waits for its operands.
func alu(o Inst) Inst {
	if o.Rd == Sink && o.Code != Illegal {
		return Inst{Code: Nop, Rs1: o.Rs1, Rs2: o.Rs2}
	}
	return o
}

func decodeALUImm(arch chip.Arch, f3 uint32, o Inst) Inst {
	imm := uint32(o.Imm) & 0xFFF
	o.Code = [8]Opcode{ADDI, SLLI, SLTI, SLTIU, XORI, SRLI, ORI, ANDI}[f3]
	switch {
	case f3&3 != 1, imm < 32:
	case f3 == 5 && imm&^31 == 0x400:
		o.Code, o.Imm = SRAI, o.Imm&31
	case arch != chip.Blackhole:
		o.Code = Illegal
	case f3 == 5 && imm&^31 == 0x600:
		o.Code, o.Imm = RORI, o.Imm&31
	default:
		code, ok := blackholeImm[imm<<3|f3]
		if o.Code = code; !ok {
			o.Code = Illegal
		}
	}
	return o
}

// blackholeImm is by immediate and funct3.
var blackholeImm = map[uint32]Opcode{0x600<<3 | 1: CLZ, 0x601<<3 | 1: CTZ, 0x602<<3 | 1: CPOP, 0x604<<3 | 1: SEXTB, 0x605<<3 | 1: SEXTH,
	0x287<<3 | 5: ORCB, 0x698<<3 | 5: REV8, 0x687<<3 | 5: BREV8}

// decodeALU returns the operation of a register-register instruction, or Illegal. Blackhole adds
// Zba, Zbb and pack (tt-isa-documentation BlackholeA0/TensixTile/BabyRISCV/README.md, ttsim
// src/riscv_impl.h).
func decodeALU(arch chip.Arch, f3, f7 uint32) Opcode {
	switch f7 {
	case 0:
		return [8]Opcode{ADD, SLL, SLT, SLTU, XOR, SRL, OR, AND}[f3]
	case 1:
		return [8]Opcode{MUL, MULH, MULHSU, MULHU, DIV, DIVU, REM, REMU}[f3]
	case 32:
		switch f3 {
		case 0:
			return SUB
		case 5:
			return SRA
		}
	}
	if arch != chip.Blackhole {
		return Illegal
	}
	code, ok := blackholeALU[f7<<3|f3]
	if !ok {
		return Illegal
	}
	return code
}

// blackholeALU is by funct7 and funct3.
var blackholeALU = map[uint32]Opcode{5<<3 | 4: MIN, 5<<3 | 5: MINU, 5<<3 | 6: MAX, 5<<3 | 7: MAXU, 16<<3 | 2: SH1ADD, 16<<3 | 4: SH2ADD,
	16<<3 | 6: SH3ADD, 32<<3 | 4: XNOR, 32<<3 | 6: ORN, 32<<3 | 7: ANDN, 48<<3 | 1: ROL, 48<<3 | 5: ROR, 4<<3 | 4: PACK}

// decodeBlackhole decodes fence, atomic memory operations and CSR instructions, as far as ttsim
// accepts them (src/riscv_impl.h).
func decodeBlackhole(w, f3 uint32, o Inst) Inst {
	switch w & 0x7F {
	case 0x0F:
		if f3 != 0 || w&0x000F8F80 != 0 {
			return Inst{Code: Illegal}
		}
		switch w >> 20 {
		case 0x023, 0x031, 0x033, 0x0FF:
			return Inst{Code: FENCE}
		}
		return Inst{Code: Illegal}
	case 0x2F:
		if f3 != 2 {
			return Inst{Code: Illegal}
		}
		o.Code = [32]Opcode{AMOADD, AMOSWAP, 4: AMOXOR, 8: AMOOR, 12: AMOAND, 16: AMOMIN, 20: AMOMAX, 24: AMOMINU, 28: AMOMAXU}[w>>27]
		if o.Code == Undecoded {
			o.Code = Illegal
		}
		return o
	case 0x73:
		// Encodings that ttsim calls untested (a destination with csrrw, csrrc, csrrwi; any csrrsi,
		// csrrci) stay illegal.
		switch {
		case w>>20 != Cfg0:
		case f3 == 1 && o.Rd == Sink:
			o.Code = CSRRW
			return o
		case f3 == 2:
			o.Code = CSRRS
			return o
		case f3 == 3 && o.Rd == Sink && o.Rs1 != 0:
			o.Code = CSRRC
			return o
		case f3 == 5 && o.Rd == Sink:
			o.Code, o.Imm = CSRRWI, int32(o.Rs1)
			return o
		}
	}
	return Inst{Code: Illegal}
}

// Cfg0 is the only CSR that ttsim accepts.
const Cfg0 = 0x7C0
