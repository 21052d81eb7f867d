package translate

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

// armBinary are operations of one instruction.
var armBinary = map[rv32.Opcode]uint32{
	rv32.ADD: aADD, rv32.SUB: aSUB, rv32.XOR: aEOR, rv32.OR: aORR, rv32.AND: aAND, rv32.XNOR: aEON, rv32.ORN: aORN, rv32.ANDN: aBIC,
	rv32.MUL: aMUL, rv32.SLL: aLSLV, rv32.SRL: aLSRV, rv32.SRA: aASRV, rv32.ROR: aRORV,
}

// armShifts are shifts by a constant, as arm.shift takes them.
var armShifts = map[rv32.Opcode]uint32{rv32.SLLI: aLSLV, rv32.SRLI: aLSRV, rv32.SRAI: aASRV, rv32.RORI: aRORV}

// armBits are operations on bits with a constant, and on registers.
var armBits = map[rv32.Opcode]struct{ immediate, register uint32 }{
	rv32.ANDI: {aANDI, aAND}, rv32.ORI: {aORRI, aORR}, rv32.XORI: {aEORI, aEOR},
}

func (e *arm) compute(o rv32.Inst) {
	d := e.target(o.Rd)
	var a, b uint8
	if reads(o.Code) >= 1 && o.Code != rv32.ADDI {
		a = e.read(o.Rs1, w0)
	}
	if reads(o.Code) == 2 {
		b = e.read(o.Rs2, w1)
	}
	switch o.Code {
	case rv32.LI:
		e.constant(d, uint32(o.Imm))
	case rv32.ADDI:
		if h := e.home[o.Rs1]; o.Imm == 0 && h != none {
			d = h
		} else {
			e.sum(d, o)
		}
	case rv32.SLTI, rv32.SLTIU:
		if a == zr {
			a = w0
			e.constant(a, 0)
		}
		e.compare(a, o.Imm)
		e.setIf(d, o.Code == rv32.SLTI)
	case rv32.SLT, rv32.SLTU:
		e.op(aSUBS, zr, a, b)
		e.setIf(d, o.Code == rv32.SLT)
	case rv32.ANDI, rv32.ORI, rv32.XORI:
		e.withBits(d, a, o)
	case rv32.SLLI, rv32.SRLI, rv32.SRAI, rv32.RORI:
		e.shift(armShifts[o.Code], d, a, int(o.Imm&31))
	case rv32.ROL:
		e.op(aSUB, w1, zr, b)
		e.op(aRORV, d, a, w1)
	case rv32.MULH, rv32.MULHU:
		op := uint32(aSMULL)
		if o.Code == rv32.MULHU {
			op = aUMULL
		}
		e.op(op, w0, a, b)
		e.unary(aHIGHX, d, w0)
	case rv32.MULHSU:
		e.unary(aSXTWX, w0, a)
		e.op(aMULX, w0, w0, b)
		e.unary(aHIGHX, d, w0)
	case rv32.DIV, rv32.DIVU, rv32.REM, rv32.REMU:
		e.divide(d, a, b, o.Code)
	case rv32.MIN, rv32.MINU, rv32.MAX, rv32.MAXU:
		e.op(aSUBS, zr, a, b)
		c := map[rv32.Opcode]uint32{rv32.MIN: aLT, rv32.MINU: aLO, rv32.MAX: aGT, rv32.MAXU: aHI}[o.Code]
		e.op(aCSEL|armIf(c), d, a, b)
	case rv32.SH1ADD, rv32.SH2ADD, rv32.SH3ADD:
		e.op(aADD|armLSL(1+int(o.Code-rv32.SH1ADD)), d, b, a)
	case rv32.PACK:
		low, _ := armMask(0xFFFF)
		e.unary(aANDI|low, w0, a)
		e.op(aORR|armLSL(16), d, w0, b)
	case rv32.CLZ:
		e.unary(aCLZ, d, a)
	case rv32.CTZ:
		e.unary(aRBIT, w0, a)
		e.unary(aCLZ, d, w0)
	case rv32.SEXTB:
		e.extend(d, a, 8)
	case rv32.SEXTH:
		e.extend(d, a, 16)
	case rv32.REV8:
		e.unary(aREV, d, a)
	case rv32.BREV8:
		e.unary(aRBIT, w0, a)
		e.unary(aREV, d, w0)
	case rv32.CPOP: // on a vector register, whose other bytes are zero
		e.unary(aFMOVTO, v0, a)
		e.unary(aCNT, v0, v0)
		e.unary(aADDV, v0, v0)
		e.unary(aFMOV, d, v0)
	case rv32.ORCB: // bytes that have bits in common with themselves
		e.unary(aFMOVTO, v0, a)
		e.op(aCMTST, v0, v0, v0)
		e.unary(aFMOV, d, v0)
	default:
		e.op(armBinary[o.Code], d, a, b)
	}
	e.finish(o.Rd, d)
}

func (e *arm) withBits(d, a uint8, o rv32.Inst) {
	op := armBits[o.Code]
	if mask, ok := armMask(uint32(o.Imm)); ok {
		e.unary(op.immediate|mask, d, a)
		return
	}
	e.constant(w1, uint32(o.Imm))
	e.op(op.register, d, a, w1)
}

// setIf makes 1 if the comparison found less, otherwise 0.
func (e *arm) setIf(d uint8, signed bool) {
	c := uint32(aHS)
	if signed {
		c = aGE
	}
	e.op(aCSINC|armIf(c), d, zr, zr) // one more if it isn't so
}

// divide follows the RISC-V manual for division by zero, of which arm64 makes 0; overflow is the
// same.
func (e *arm) divide(d, a, b uint8, c rv32.Opcode) {
	op := uint32(aUDIV)
	if c == rv32.DIV || c == rv32.REM {
		op = aSDIV
	}
	e.op(op, w2, a, b)
	if c == rv32.REM || c == rv32.REMU { // a - 0*b if b is zero
		e.op(aMSUB|armA(a), d, w2, b)
		return
	}
	e.op(aSUBS, zr, b, zr)
	e.op(aCSINV|armIf(aNE), d, w2, zr)
}
