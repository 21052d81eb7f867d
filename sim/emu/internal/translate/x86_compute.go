package translate

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

// x86Binary are operations of one instruction.
var x86Binary = map[rv32.Opcode]struct {
	op       int
	commutes bool
}{
	rv32.ADD: {xADD, true}, rv32.SUB: {xSUB, false}, rv32.XOR: {xXOR, true}, rv32.OR: {xOR, true}, rv32.AND: {xAND, true},
	rv32.MUL: {xIMUL, true},
}

// x86Immediate are operations with a constant, as x86.immediate takes them.
var x86Immediate = map[rv32.Opcode]uint8{rv32.ADDI: 0, rv32.XORI: 6, rv32.ORI: 1, rv32.ANDI: 4}

// x86Shifts are shifts, as x86.shift takes them.
var x86Shifts = map[rv32.Opcode]uint8{
	rv32.SLLI: 4, rv32.SRLI: 5, rv32.SRAI: 7, rv32.RORI: 1,
	rv32.SLL: 4, rv32.SRL: 5, rv32.SRA: 7, rv32.ROL: 0, rv32.ROR: 1,
}

func (e *x86) compute(o rv32.Inst) {
	if b, ok := x86Binary[o.Code]; ok {
		e.binary(o, b.op, b.commutes)
		return
	}
	if n, ok := x86Immediate[o.Code]; ok {
		e.withConstant(o, n)
		return
	}
	if n, ok := x86Shifts[o.Code]; ok {
		e.shifted(o, n)
		return
	}
	d := uint8(rax)
	switch o.Code {
	case rv32.ORN, rv32.ANDN, rv32.PACK, rv32.CLZ, rv32.CTZ, rv32.SEXTH, rv32.LI:
	default:
		e.guest(xMOV, rax, o.Rs1)
	}
	switch o.Code {
	case rv32.LI:
		d = e.target(o.Rd)
		e.constant(d, uint32(o.Imm))
	case rv32.SLTI, rv32.SLTIU:
		e.immediate(7, rax, o.Imm)
		e.setIf(o.Code == rv32.SLTI)
	case rv32.SLT, rv32.SLTU:
		e.guest(xCMP, rax, o.Rs2)
		e.setIf(o.Code == rv32.SLT)
	case rv32.MULH, rv32.MULHU:
		e.guest(xMOV, rcx, o.Rs2)
		if o.Code == rv32.MULH {
			e.unary(5, rcx)
		} else {
			e.unary(4, rcx)
		}
		d = rdx
	case rv32.MULHSU:
		e.guest(xMOV, rcx, o.Rs2)
		e.byte(0x48, 0x63, 0xC0)       // movsxd rax, eax
		e.byte(0x48, 0x0F, 0xAF, 0xC1) // imul rax, rcx
		e.byte(0x48, 0xC1, 0xE8, 32)   // shr rax, 32
	case rv32.DIV, rv32.DIVU, rv32.REM, rv32.REMU:
		e.divide(o)
	case rv32.MIN, rv32.MINU, rv32.MAX, rv32.MAXU:
		e.guest(xMOV, rcx, o.Rs2)
		e.reg(xCMP, rax, rcx)
		// The other one, if it is smaller or greater.
		c := map[rv32.Opcode]uint8{rv32.MIN: xG, rv32.MINU: xA, rv32.MAX: xL, rv32.MAXU: xB}[o.Code]
		e.reg(0x0F40|int(c), rax, rcx) // cmov
	case rv32.SH1ADD, rv32.SH2ADD, rv32.SH3ADD:
		e.shift(4, rax, 1+int(o.Code-rv32.SH1ADD))
		e.guest(xADD, rax, o.Rs2)
	case rv32.XNOR:
		e.guest(xXOR, rax, o.Rs2)
		e.unary(2, rax)
	case rv32.ORN, rv32.ANDN:
		e.guest(xMOV, rax, o.Rs2)
		e.unary(2, rax)
		if o.Code == rv32.ORN {
			e.guest(xOR, rax, o.Rs1)
		} else {
			e.guest(xAND, rax, o.Rs1)
		}
	case rv32.PACK:
		e.guest(xMOV, rcx, o.Rs2)
		e.shift(4, rcx, 16)
		e.guest(xMOVZW, rax, o.Rs1)
		e.reg(xOR, rax, rcx)
	case rv32.CLZ: // 31 minus the highest bit; bsr leaves its result undefined without one
		e.guest(xMOV, rdx, o.Rs1)
		e.constant(rcx, 63)
		e.reg(xBSR, rax, rdx)
		e.reg(0x0F40|xE, rax, rcx)
		e.immediate(6, rax, 31)
	case rv32.CTZ:
		e.guest(xMOV, rdx, o.Rs1)
		e.constant(rcx, 32)
		e.reg(xBSF, rax, rdx)
		e.reg(0x0F40|xE, rax, rcx)
	case rv32.SEXTB:
		e.reg(xMOVSB, rax, rax)
	case rv32.SEXTH:
		e.guest(xMOVSW, rax, o.Rs1)
	case rv32.REV8:
		e.byte(0x0F, 0xC8) // bswap eax
	case rv32.ORCB, rv32.BREV8, rv32.CPOP:
		e.bytes(o.Code)
	}
	e.finish(o.Rd, d)
}

func (e *x86) binary(o rv32.Inst, op int, commutes bool) {
	d, b := e.target(o.Rd), o.Rs2
	switch {
	case d == e.home[o.Rs1]:
	case d == e.home[o.Rs2] && commutes:
		b = o.Rs1
	case d == e.home[o.Rs2]:
		d = rax
		e.guest(xMOV, d, o.Rs1)
	default:
		e.guest(xMOV, d, o.Rs1)
	}
	e.guest(op, d, b)
	e.finish(o.Rd, d)
}

func (e *x86) withConstant(o rv32.Inst, n uint8) {
	d, a := e.target(o.Rd), e.home[o.Rs1]
	switch {
	case n == 0 && a != none && a != d:
		e.mem(xLEA, d, a, o.Imm)
	case n == 0 && o.Rs1 == 0:
		e.constant(d, uint32(o.Imm))
	default:
		if a != d {
			e.guest(xMOV, d, o.Rs1)
		}
		if n != 0 || o.Imm != 0 {
			e.immediate(n, d, o.Imm)
		}
	}
	e.finish(o.Rd, d)
}

func (e *x86) shifted(o rv32.Inst, n uint8) {
	d, by := e.target(o.Rd), int(o.Imm&31)
	if reads(o.Code) == 2 {
		by = -1
		e.guest(xMOV, rcx, o.Rs2)
	}
	if d != e.home[o.Rs1] {
		e.guest(xMOV, d, o.Rs1)
	}
	e.shift(n, d, by)
	e.finish(o.Rd, d)
}

// setIf makes 1 if the comparison found less, otherwise 0, in rax.
func (e *x86) setIf(signed bool) {
	c := byte(xB)
	if signed {
		c = xL
	}
	e.byte(0x0F, 0x90|c, 0xC0) // setcc al
	e.reg(xMOVZB, rax, rax)
}

// divide follows the RISC-V manual for division by zero and overflow.
func (e *x86) divide(o rv32.Inst) {
	signed, quotient := o.Code == rv32.DIV || o.Code == rv32.REM, o.Code == rv32.DIV || o.Code == rv32.DIVU
	zero, minusOne, done := e.label(), e.label(), e.label()
	e.guest(xMOV, rcx, o.Rs2)
	e.reg(xTEST, rcx, rcx)
	e.jumpIf(xE, zero)
	if signed {
		e.immediate(7, rcx, -1)
		e.jumpIf(xE, minusOne)
		e.byte(0x99) // cdq
		e.unary(7, rcx)
	} else {
		e.reg(xXOR, rdx, rdx)
		e.unary(6, rcx)
	}
	if !quotient {
		e.reg(xMOV, rax, rdx)
	}
	e.cold = append(e.cold, func() {
		if signed { // the smallest number by -1 would fault
			e.place(minusOne)
			if quotient {
				e.unary(3, rax)
			} else {
				e.constant(rax, 0)
			}
			e.jump(done)
		}
		e.place(zero)
		if quotient {
			e.constant(rax, ^uint32(0))
		}
		e.jump(done)
	})
	e.place(done)
}

// bytes emits an operation on the bits of each byte of rax. Not all amd64 have popcnt.
func (e *x86) bytes(c rv32.Opcode) {
	shifted := func(n int) {
		e.reg(xMOV, rcx, rax)
		e.shift(5, rcx, n)
	}
	and := func(reg uint8, mask uint32) { e.immediate(4, reg, int32(mask)) }
	switch c {
	case rv32.ORCB: // or of all bits in the lowest one, then repeated
		for n := 1; n <= 4; n *= 2 {
			shifted(n)
			e.reg(xOR, rax, rcx)
		}
		and(rax, 0x01010101)
		e.times(rax, 0xFF)
	case rv32.BREV8: // neighbours, pairs and halves change places
		for k, mask := range [...]uint32{0x55555555, 0x33333333, 0x0F0F0F0F} {
			n := 1 << k
			shifted(n)
			and(rcx, mask)
			and(rax, mask)
			e.shift(4, rax, n)
			e.reg(xOR, rax, rcx)
		}
	case rv32.CPOP: // sums of two, four and eight bits, and of the bytes
		shifted(1)
		and(rcx, 0x55555555)
		e.reg(xSUB, rax, rcx)
		shifted(2)
		and(rcx, 0x33333333)
		and(rax, 0x33333333)
		e.reg(xADD, rax, rcx)
		shifted(4)
		e.reg(xADD, rax, rcx)
		and(rax, 0x0F0F0F0F)
		e.times(rax, 0x01010101)
		e.shift(5, rax, 24)
	}
}

func (e *x86) times(reg uint8, by uint32) {
	e.rex(reg, 0, reg)
	e.byte(0x69, 0xC0|reg&7<<3|reg&7)
	e.word(by)
}
