package translate

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// armWords returns the instructions that f emits; x5 is in w11, x6 in w12, x7 in w26, and no other
// has a home.
func armWords(f func(*arm)) (w []uint32) {
	e := newArm(&program{ops: make([]rv32.Op, 64)})
	e.home[5], e.home[6], e.home[7] = 11, 12, 26
	f(e)
	for b := e.b; len(b) > 0; b = b[4:] {
		w = append(w, binary.LittleEndian.Uint32(b))
	}
	return w
}

// Instructions of arm64 are encoded as GNU as does it.
func TestArmEncodings(t *testing.T) {
	inst := func(code rv32.Opcode, rd, rs1, rs2 uint8, imm int32) func(*arm) {
		return func(e *arm) { e.compute(rv32.Inst{Code: code, Rd: rd, Rs1: rs1, Rs2: rs2, Imm: imm}) }
	}
	for _, c := range []struct {
		text string
		emit func(*arm)
		want []uint32
	}{
		{"add w3, w17, w26", func(e *arm) { e.op(aADD, 3, 17, 26) }, []uint32{0x0B1A0223}},
		{"sub w11, w12, wzr", func(e *arm) { e.op(aSUB, 11, 12, zr) }, []uint32{0x4B1F018B}},
		{"cmp w26, w10", func(e *arm) { e.op(aSUBS, zr, 26, 10) }, []uint32{0x6B0A035F}},
		{"and w26, w25, w24", func(e *arm) { e.op(aAND, 26, 25, 24) }, []uint32{0x0A18033A}},
		{"orr w1, w2, w3", func(e *arm) { e.op(aORR, 1, 2, 3) }, []uint32{0x2A030041}},
		{"mov w11, w26", func(e *arm) { e.move(11, 26) }, []uint32{0x2A1A03EB}},
		{"orn w1, w2, w3", func(e *arm) { e.op(aORN, 1, 2, 3) }, []uint32{0x2A230041}},
		{"eor w1, w2, w3", func(e *arm) { e.op(aEOR, 1, 2, 3) }, []uint32{0x4A030041}},
		{"eon w1, w2, w3", func(e *arm) { e.op(aEON, 1, 2, 3) }, []uint32{0x4A230041}},
		{"bic w1, w2, w3", func(e *arm) { e.op(aBIC, 1, 2, 3) }, []uint32{0x0A230041}},
		{"add x1, x1, x2", func(e *arm) { e.op(aADDX, 1, 1, 2) }, []uint32{0x8B020021}},
		{"ldr w26, [x4, #28]", func(e *arm) { e.fetch(26, 7) }, []uint32{0xB9401C9A}},
		{"str w11, [x4, #124]", func(e *arm) { e.keep(11, 31) }, []uint32{0xB9007C8B}},
		{"ldr w0, [x5, w26, uxtw]", func(e *arm) { e.op(aLDR, 0, 5, 26) }, []uint32{0xB87A48A0}},
		{"ldrb w11, [x5, w0, uxtw]", func(e *arm) { e.op(aLDRB, 11, 5, 0) }, []uint32{0x386048AB}},
		{"ldrsb w11, [x5, w0, uxtw]", func(e *arm) { e.op(aLDRSB, 11, 5, 0) }, []uint32{0x38E048AB}},
		{"ldrh w11, [x6, w1, uxtw]", func(e *arm) { e.op(aLDRH, 11, 6, 1) }, []uint32{0x786148CB}},
		{"ldrsh w11, [x6, w1, uxtw]", func(e *arm) { e.op(aLDRSH, 11, 6, 1) }, []uint32{0x78E148CB}},
		{"str wzr, [x6, w1, uxtw]", func(e *arm) { e.op(aSTR, zr, 6, 1) }, []uint32{0xB82148DF}},
		{"strb w20, [x6, w1, uxtw]", func(e *arm) { e.op(aSTRB, 20, 6, 1) }, []uint32{0x382148D4}},
		{"strh w20, [x5, w11, uxtw]", func(e *arm) { e.op(aSTRH, 20, 5, 11) }, []uint32{0x782B48B4}},
		{"ldrsw x1, [x2, w1, uxtw #2]", func(e *arm) { e.op(aLDRSWX, 1, 2, 1) }, []uint32{0xB8A15841}},
		{"mov w11, #0", func(e *arm) { e.constant(11, 0) }, []uint32{0x5280000B}},
		{"mov w11, #0xffff", func(e *arm) { e.constant(11, 0xFFFF) }, []uint32{0x529FFFEB}},
		{"movz w11, #0x1234, lsl #16", func(e *arm) { e.constant(11, 0x12340000) }, []uint32{0x52A2468B}},
		{"mov w11, #-1", func(e *arm) { e.constant(11, ^uint32(0)) }, []uint32{0x1280000B}},
		{"mov w11, #-2048", func(e *arm) { e.constant(11, ^uint32(2047)) }, []uint32{0x1280FFEB}},
		{"movn w11, #0x1234, lsl #16", func(e *arm) { e.constant(11, ^uint32(0x12340000)) }, []uint32{0x12A2468B}},
		{"mov w11, #0x5678; movk w11, #0x1234, lsl #16", func(e *arm) { e.constant(11, 0x12345678) }, []uint32{0x528ACF0B, 0x72A2468B}},
		{"add w0, w11, #0", func(e *arm) { e.add(0, 11, 0) }, []uint32{0x11000160}},
		{"nothing", func(e *arm) { e.add(11, 11, 0) }, nil},
		{"add w0, w11, #4095", func(e *arm) { e.add(0, 11, 4095) }, []uint32{0x113FFD60}},
		{"sub w0, w11, #4095", func(e *arm) { e.add(0, 11, -4095) }, []uint32{0x513FFD60}},
		{"add w0, w11, #1, lsl #12", func(e *arm) { e.add(0, 11, 4096) }, []uint32{0x11400560}},
		{"add w1, w11, #0x500, lsl #12", func(e *arm) { e.add(1, 11, -(LocalBase - 1<<32)) }, []uint32{0x11540161}},
		{"sub w0, w11, #0xfff, lsl #12; sub w0, w0, #0xfff", func(e *arm) { e.add(0, 11, 1-1<<24) }, []uint32{0x517FFD60, 0x513FFC00}},
		{"movz w3, #0x100, lsl #16; add w0, w11, w3", func(e *arm) { e.add(0, 11, 1<<24) }, []uint32{0x52A02003, 0x0B030160}},
		{"movz w3, #0x8000, lsl #16; add w0, w11, w3", func(e *arm) { e.add(0, 11, -1<<31) }, []uint32{0x52B00003, 0x0B030160}},
		{"cmp w10, #1024", func(e *arm) { e.compare(10, 1024) }, []uint32{0x7110015F}},
		{"cmp w11, #0", func(e *arm) { e.compare(11, 0) }, []uint32{0x7100017F}},
		{"cmp w11, #-2048", func(e *arm) { e.compare(11, -2048) }, []uint32{0x3120017F}},
		{"lsl w0, w11, #31", func(e *arm) { e.shift(aLSLV, 0, 11, 31) }, []uint32{0x53010160}},
		{"lsl w0, w11, #0", func(e *arm) { e.shift(aLSLV, 0, 11, 0) }, []uint32{0x53007D60}},
		{"lsr w1, w26, #6", func(e *arm) { e.shift(aLSRV, 1, 26, 6) }, []uint32{0x53067F41}},
		{"asr w1, w26, #31", func(e *arm) { e.shift(aASRV, 1, 26, 31) }, []uint32{0x131F7F41}},
		{"ror w1, w26, #7", func(e *arm) { e.shift(aRORV, 1, 26, 7) }, []uint32{0x139A1F41}},
		{"b .+4", func(e *arm) { l := e.label(); e.jump(l); e.place(l); e.resolve() }, []uint32{0x14000001}},
		{"b.gt .-4", func(e *arm) { l := e.here(); e.move(1, 2); e.jumpIf(aGT, l); e.resolve() }, []uint32{0x2A0203E1, 0x54FFFFEC}},
		{"cbnz w1, .-8", func(e *arm) { l := e.here(); e.move(1, 2); e.move(1, 2); e.to(0x35000001, l); e.resolve() }, []uint32{0x2A0203E1, 0x2A0203E1, 0x35FFFFC1}},
		{"adr x2, .+4", func(e *arm) { l := e.label(); e.to(0x10000002, l); e.place(l); e.resolve() }, []uint32{0x10000022}},
		{"bics wzr, w11, w3", func(e *arm) { e.op(aBICS, zr, 11, w3) }, []uint32{0x6A23017F}},
		{"ldur w2, [x4, #-16]", func(e *arm) { e.field(w2, -16) }, []uint32{0xB85F0082}},
		{"tst w1, #0xfffffff0; b.ne .-4; lsr w2, w12, #2; and w2, w2, #3; lsr w1, w1, w2; tst w1, #1; b.ne .-24", func(e *arm) {
			e.slow[0] = e.here()
			e.watched(0, 12)
			e.resolve()
		}, []uint32{0x721C6C3F, 0x54FFFFE1, 0x53027D82, 0x12000442, 0x1AC22421, 0x7200003F, 0x54FFFF41}},
		{"ldur x2, [x4, #-32]", func(e *arm) { e.pointer(w2, -32) }, []uint32{0xF85E0082}},
		{"ldrh w1, [x2, w1, uxtw #1]", func(e *arm) { e.op(aLDRH|armScaled, w1, w2, w1) }, []uint32{0x78615841}},
		{"str w11, [x2, w1, uxtw #2]", func(e *arm) { e.op(aSTR|armScaled, 11, w2, w1) }, []uint32{0xB821584B}},
		{"br x0", func(e *arm) { e.enter() }, []uint32{0xD61F0000}},
		{"ret", func(e *arm) { e.ret() }, []uint32{0xD65F03C0}},
		{"mov w11, #-2048", inst(rv32.LI, 5, 0, 0, -2048), []uint32{0x1280FFEB}},
		{"add w12, w11, #1", inst(rv32.ADDI, 6, 5, 0, 1), []uint32{0x1100056C}},
		{"mov w12, w11", inst(rv32.ADDI, 6, 5, 0, 0), []uint32{0x2A0B03EC}},
		{"mov w12, #-5", inst(rv32.ADDI, 6, 0, 0, -5), []uint32{0x1280008C}},
		{"ldr w0, [x4, #32]; sub w0, w0, #2048; str w0, [x4, #36]", inst(rv32.ADDI, 9, 8, 0, -2048), []uint32{0xB9402080, 0x51200000, 0xB9002480}},
		{"cmp w26, #7; cset w11, lt", inst(rv32.SLTI, 5, 7, 0, 7), []uint32{0x71001F5F, 0x1A9FA7EB}},
		{"cmn w26, #7; cset w11, lo", inst(rv32.SLTIU, 5, 7, 0, -7), []uint32{0x31001F5F, 0x1A9F27EB}},
		{"mov w0, #0; cmp w0, #1; cset w11, lo", inst(rv32.SLTIU, 5, 0, 0, 1), []uint32{0x52800000, 0x7100041F, 0x1A9F27EB}},
		{"cmp w12, w26; cset w11, lt", inst(rv32.SLT, 5, 6, 7, 0), []uint32{0x6B1A019F, 0x1A9FA7EB}},
		{"cmp wzr, w26; cset w11, lo", inst(rv32.SLTU, 5, 0, 7, 0), []uint32{0x6B1A03FF, 0x1A9F27EB}},
		{"and w11, w26, #0xff", inst(rv32.ANDI, 5, 7, 0, 255), []uint32{0x12001F4B}},
		{"and w11, w26, #0xfffffffe", inst(rv32.ANDI, 5, 7, 0, -2), []uint32{0x121F7B4B}},
		{"orr w11, w26, #0xfffff800", inst(rv32.ORI, 5, 7, 0, -2048), []uint32{0x3215534B}},
		{"eor w11, wzr, #1", inst(rv32.XORI, 5, 0, 0, 1), []uint32{0x520003EB}},
		{"mov w1, #-1; eor w11, w26, w1", inst(rv32.XORI, 5, 7, 0, -1), []uint32{0x12800001, 0x4A01034B}},
		{"mov w1, #5; and w11, w26, w1", inst(rv32.ANDI, 5, 7, 0, 5), []uint32{0x528000A1, 0x0A01034B}},
		{"lsl w11, w26, #3", inst(rv32.SLLI, 5, 7, 0, 3), []uint32{0x531D734B}},
		{"lsr w11, w26, #3", inst(rv32.SRLI, 5, 7, 0, 3), []uint32{0x53037F4B}},
		{"asr w11, w26, #3", inst(rv32.SRAI, 5, 7, 0, 3), []uint32{0x13037F4B}},
		{"ror w11, w26, #3", inst(rv32.RORI, 5, 7, 0, 3), []uint32{0x139A0F4B}},
		{"lsl w11, w26, w12", inst(rv32.SLL, 5, 7, 6, 0), []uint32{0x1ACC234B}},
		{"lsr w11, w26, w12", inst(rv32.SRL, 5, 7, 6, 0), []uint32{0x1ACC274B}},
		{"asr w11, w26, w12", inst(rv32.SRA, 5, 7, 6, 0), []uint32{0x1ACC2B4B}},
		{"ror w11, w26, w12", inst(rv32.ROR, 5, 7, 6, 0), []uint32{0x1ACC2F4B}},
		{"neg w1, w12; ror w11, w26, w1", inst(rv32.ROL, 5, 7, 6, 0), []uint32{0x4B0C03E1, 0x1AC12F4B}},
		{"mul w11, w26, w12", inst(rv32.MUL, 5, 7, 6, 0), []uint32{0x1B0C7F4B}},
		{"smull x0, w26, w12; lsr x11, x0, #32", inst(rv32.MULH, 5, 7, 6, 0), []uint32{0x9B2C7F40, 0xD360FC0B}},
		{"umull x0, w26, w12; lsr x11, x0, #32", inst(rv32.MULHU, 5, 7, 6, 0), []uint32{0x9BAC7F40, 0xD360FC0B}},
		{"sxtw x0, w26; mul x0, x0, x12; lsr x11, x0, #32", inst(rv32.MULHSU, 5, 7, 6, 0), []uint32{0x93407F40, 0x9B0C7C00, 0xD360FC0B}},
		{"sdiv w2, w26, w12; cmp w12, wzr; csinv w11, w2, wzr, ne", inst(rv32.DIV, 5, 7, 6, 0), []uint32{0x1ACC0F42, 0x6B1F019F, 0x5A9F104B}},
		{"udiv w2, w26, w12; cmp w12, wzr; csinv w11, w2, wzr, ne", inst(rv32.DIVU, 5, 7, 6, 0), []uint32{0x1ACC0B42, 0x6B1F019F, 0x5A9F104B}},
		{"sdiv w2, w26, w12; msub w11, w2, w12, w26", inst(rv32.REM, 5, 7, 6, 0), []uint32{0x1ACC0F42, 0x1B0CE84B}},
		{"ldr w0, [x4, #32]; ldr w1, [x4, #36]; udiv w2, w0, w1; msub w0, w2, w1, w0; str w0, [x4, #40]", inst(rv32.REMU, 10, 8, 9, 0), []uint32{0xB9402080, 0xB9402481, 0x1AC10802, 0x1B018040, 0xB9002880}},
		{"cmp w26, w12; csel w11, w26, w12, lt", inst(rv32.MIN, 5, 7, 6, 0), []uint32{0x6B0C035F, 0x1A8CB34B}},
		{"cmp w26, w12; csel w11, w26, w12, lo", inst(rv32.MINU, 5, 7, 6, 0), []uint32{0x6B0C035F, 0x1A8C334B}},
		{"cmp w26, w12; csel w11, w26, w12, gt", inst(rv32.MAX, 5, 7, 6, 0), []uint32{0x6B0C035F, 0x1A8CC34B}},
		{"cmp w26, w12; csel w11, w26, w12, hi", inst(rv32.MAXU, 5, 7, 6, 0), []uint32{0x6B0C035F, 0x1A8C834B}},
		{"add w11, w12, w26, lsl #1", inst(rv32.SH1ADD, 5, 7, 6, 0), []uint32{0x0B1A058B}},
		{"add w11, w12, w26, lsl #3", inst(rv32.SH3ADD, 5, 7, 6, 0), []uint32{0x0B1A0D8B}},
		{"and w0, w26, #0xffff; orr w11, w0, w12, lsl #16", inst(rv32.PACK, 5, 7, 6, 0), []uint32{0x12003F40, 0x2A0C400B}},
		{"eon w11, w26, w12", inst(rv32.XNOR, 5, 7, 6, 0), []uint32{0x4A2C034B}},
		{"clz w11, w26", inst(rv32.CLZ, 5, 7, 0, 0), []uint32{0x5AC0134B}},
		{"rbit w0, w26; clz w11, w0", inst(rv32.CTZ, 5, 7, 0, 0), []uint32{0x5AC00340, 0x5AC0100B}},
		{"sxtb w11, w26", inst(rv32.SEXTB, 5, 7, 0, 0), []uint32{0x13001F4B}},
		{"sxth w11, w26", inst(rv32.SEXTH, 5, 7, 0, 0), []uint32{0x13003F4B}},
		{"rev w11, w26", inst(rv32.REV8, 5, 7, 0, 0), []uint32{0x5AC00B4B}},
		{"rbit w0, w26; rev w11, w0", inst(rv32.BREV8, 5, 7, 0, 0), []uint32{0x5AC00340, 0x5AC0080B}},
		{"fmov s0, w26; cnt v0.8b, v0.8b; addv b0, v0.8b; fmov w11, s0", inst(rv32.CPOP, 5, 7, 0, 0), []uint32{0x1E270340, 0x0E205800, 0x0E31B800, 0x1E26000B}},
		{"fmov s0, w26; cmtst v0.8b, v0.8b, v0.8b; fmov w11, s0", inst(rv32.ORCB, 5, 7, 0, 0), []uint32{0x1E270340, 0x0E208C00, 0x1E26000B}},
		{"ldr w0, [x4, #32]; fmov s0, w0; cmtst v0.8b, v0.8b, v0.8b; fmov w0, s0; str w0, [x4, #36]", inst(rv32.ORCB, 9, 8, 0, 0), []uint32{0xB9402080, 0x1E270000, 0x0E208C00, 0x1E260000, 0xB9002480}},
	} {
		if diff := cmp.Diff(c.want, armWords(c.emit)); diff != "" {
			t.Errorf("%s: want (-), got (+): %s", c.text, diff)
		}
	}
}

// Every constant that has its ones together, in turn, has its place in an instruction, and no other
// does.
func TestArmMask(t *testing.T) {
	for n := 1; n < 32; n++ {
		for turn := range 32 {
			v := bits.RotateLeft32(1<<n-1, -turn)
			if m, ok := armMask(v); !ok || m != uint32(turn)<<16|uint32(n-1)<<10 {
				t.Errorf("%#x is %d ones turned by %d: %#x, %v", v, n, turn, m, ok)
			}
		}
	}
	for _, v := range []uint32{0, ^uint32(0), 5, 0xA0000000, 0x80000005, 0x7FFFFFFD, 0xFFFF7FFE} {
		if m, ok := armMask(v); ok {
			t.Errorf("%#x is no mask: %#x", v, m)
		}
	}
}

func (b *buffer) here() int {
	l := b.label()
	b.place(l)
	return l
}
