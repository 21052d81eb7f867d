package translate

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
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

//go:embed testdata/arm.txt
var encodings string

// Instructions of arm64 are encoded as GNU as does it.
func TestArmEncodings(t *testing.T) {
	inst := func(code rv32.Opcode, rd, rs1, rs2 uint8, imm int32) func(*arm) {
		return func(e *arm) { e.compute(rv32.Inst{Code: code, Rd: rd, Rs1: rs1, Rs2: rs2, Imm: imm}) }
	}
	op := func(code uint32, d, n, m uint8) func(*arm) { return func(e *arm) { e.op(code, d, n, m) } }
	want := map[string]string{}
	for line := range strings.Lines(encodings) {
		text, words, _ := strings.Cut(strings.TrimSpace(line), " = ")
		want[text] = words
	}
	for _, c := range []struct {
		text string
		emit func(*arm)
	}{
		{"add w3, w17, w26", op(aADD, 3, 17, 26)},
		{"sub w11, w12, wzr", op(aSUB, 11, 12, zr)},
		{"cmp w26, w10", op(aSUBS, zr, 26, 10)},
		{"and w26, w25, w24", op(aAND, 26, 25, 24)},
		{"orr w1, w2, w3", op(aORR, 1, 2, 3)},
		{"mov w11, w26", func(e *arm) { e.move(11, 26) }},
		{"orn w1, w2, w3", op(aORN, 1, 2, 3)},
		{"eor w1, w2, w3", op(aEOR, 1, 2, 3)},
		{"eon w1, w2, w3", op(aEON, 1, 2, 3)},
		{"bic w1, w2, w3", op(aBIC, 1, 2, 3)},
		{"add x1, x1, x2", op(aADDX, 1, 1, 2)},
		{"ldr w26, [x4, #28]", func(e *arm) { e.fetch(26, 7) }},
		{"str w11, [x4, #124]", func(e *arm) { e.keep(11, 31) }},
		{"ldr w0, [x5, w26, uxtw]", op(aLDR, 0, 5, 26)},
		{"ldrb w11, [x5, w0, uxtw]", op(aLDRB, 11, 5, 0)},
		{"ldrsb w11, [x5, w0, uxtw]", op(aLDRSB, 11, 5, 0)},
		{"ldrh w11, [x6, w1, uxtw]", op(aLDRH, 11, 6, 1)},
		{"ldrsh w11, [x6, w1, uxtw]", op(aLDRSH, 11, 6, 1)},
		{"str wzr, [x6, w1, uxtw]", op(aSTR, zr, 6, 1)},
		{"strb w20, [x6, w1, uxtw]", op(aSTRB, 20, 6, 1)},
		{"strh w20, [x5, w11, uxtw]", op(aSTRH, 20, 5, 11)},
		{"ldrsw x1, [x2, w1, uxtw #2]", op(aLDRSWX, 1, 2, 1)},
		{"mov w11, #0", func(e *arm) { e.constant(11, 0) }},
		{"mov w11, #0xffff", func(e *arm) { e.constant(11, 0xFFFF) }},
		{"movz w11, #0x1234, lsl #16", func(e *arm) { e.constant(11, 0x12340000) }},
		{"mov w11, #-1", func(e *arm) { e.constant(11, ^uint32(0)) }},
		{"mov w11, #-2048", func(e *arm) { e.constant(11, ^uint32(2047)) }},
		{"movn w11, #0x1234, lsl #16", func(e *arm) { e.constant(11, ^uint32(0x12340000)) }},
		{"mov w11, #0x5678; movk w11, #0x1234, lsl #16", func(e *arm) { e.constant(11, 0x12345678) }},
		{"add w0, w11, #0", func(e *arm) { e.add(0, 11, 0) }},
		{"nothing", func(e *arm) { e.add(11, 11, 0) }},
		{"add w0, w11, #4095", func(e *arm) { e.add(0, 11, 4095) }},
		{"sub w0, w11, #4095", func(e *arm) { e.add(0, 11, -4095) }},
		{"add w0, w11, #1, lsl #12", func(e *arm) { e.add(0, 11, 4096) }},
		{"add w1, w11, #0x500, lsl #12", func(e *arm) { e.add(1, 11, -(LocalBase - 1<<32)) }},
		{"sub w0, w11, #0xfff, lsl #12; sub w0, w0, #0xfff", func(e *arm) { e.add(0, 11, 1-1<<24) }},
		{"movz w3, #0x100, lsl #16; add w0, w11, w3", func(e *arm) { e.add(0, 11, 1<<24) }},
		{"movz w3, #0x8000, lsl #16; add w0, w11, w3", func(e *arm) { e.add(0, 11, -1<<31) }},
		{"cmp w10, #1024", func(e *arm) { e.compare(10, 1024) }},
		{"cmp w11, #0", func(e *arm) { e.compare(11, 0) }},
		{"cmp w11, #-2048", func(e *arm) { e.compare(11, -2048) }},
		{"lsl w0, w11, #31", func(e *arm) { e.shift(aLSLV, 0, 11, 31) }},
		{"lsl w0, w11, #0", func(e *arm) { e.shift(aLSLV, 0, 11, 0) }},
		{"lsr w1, w26, #6", func(e *arm) { e.shift(aLSRV, 1, 26, 6) }},
		{"asr w1, w26, #31", func(e *arm) { e.shift(aASRV, 1, 26, 31) }},
		{"ror w1, w26, #7", func(e *arm) { e.shift(aRORV, 1, 26, 7) }},
		{"b .+4", func(e *arm) { l := e.label(); e.jump(l); e.place(l); e.resolve() }},
		{"b.gt .-4", func(e *arm) { l := e.here(); e.move(1, 2); e.jumpIf(aGT, l); e.resolve() }},
		{"cbnz w1, .-8", func(e *arm) { l := e.here(); e.move(1, 2); e.move(1, 2); e.to(0x35000001, l); e.resolve() }},
		{"adr x2, .+4", func(e *arm) { l := e.label(); e.to(0x10000002, l); e.place(l); e.resolve() }},
		{"bics wzr, w11, w3", op(aBICS, zr, 11, w3)},
		{"ldur w2, [x4, #-16]", func(e *arm) { e.field(w2, -16) }},
		{"tst w1, #0xfffffff0; b.ne .-4; lsr w2, w12, #2; and w2, w2, #3; lsr w1, w1, w2; tst w1, #1; b.ne .-24", func(e *arm) {
			e.slow[0] = e.here()
			e.watched(0, 12)
			e.resolve()
		}},
		{"ldur x2, [x4, #-32]", func(e *arm) { e.pointer(w2, -32) }},
		{"ldrh w1, [x2, w1, uxtw #1]", op(aLDRH|armScaled, w1, w2, w1)},
		{"str w11, [x2, w1, uxtw #2]", op(aSTR|armScaled, 11, w2, w1)},
		{"br x0", func(e *arm) { e.enter() }},
		{"ret", func(e *arm) { e.ret() }},
		{"mov w11, #-2048", inst(rv32.LI, 5, 0, 0, -2048)},
		{"add w12, w11, #1", inst(rv32.ADDI, 6, 5, 0, 1)},
		{"mov w12, w11", inst(rv32.ADDI, 6, 5, 0, 0)},
		{"mov w12, #-5", inst(rv32.ADDI, 6, 0, 0, -5)},
		{"ldr w0, [x4, #32]; sub w0, w0, #2048; str w0, [x4, #36]", inst(rv32.ADDI, 9, 8, 0, -2048)},
		{"cmp w26, #7; cset w11, lt", inst(rv32.SLTI, 5, 7, 0, 7)},
		{"cmn w26, #7; cset w11, lo", inst(rv32.SLTIU, 5, 7, 0, -7)},
		{"mov w0, #0; cmp w0, #1; cset w11, lo", inst(rv32.SLTIU, 5, 0, 0, 1)},
		{"cmp w12, w26; cset w11, lt", inst(rv32.SLT, 5, 6, 7, 0)},
		{"cmp wzr, w26; cset w11, lo", inst(rv32.SLTU, 5, 0, 7, 0)},
		{"and w11, w26, #0xff", inst(rv32.ANDI, 5, 7, 0, 255)},
		{"and w11, w26, #0xfffffffe", inst(rv32.ANDI, 5, 7, 0, -2)},
		{"orr w11, w26, #0xfffff800", inst(rv32.ORI, 5, 7, 0, -2048)},
		{"eor w11, wzr, #1", inst(rv32.XORI, 5, 0, 0, 1)},
		{"mov w1, #-1; eor w11, w26, w1", inst(rv32.XORI, 5, 7, 0, -1)},
		{"mov w1, #5; and w11, w26, w1", inst(rv32.ANDI, 5, 7, 0, 5)},
		{"lsl w11, w26, #3", inst(rv32.SLLI, 5, 7, 0, 3)},
		{"lsr w11, w26, #3", inst(rv32.SRLI, 5, 7, 0, 3)},
		{"asr w11, w26, #3", inst(rv32.SRAI, 5, 7, 0, 3)},
		{"ror w11, w26, #3", inst(rv32.RORI, 5, 7, 0, 3)},
		{"lsl w11, w26, w12", inst(rv32.SLL, 5, 7, 6, 0)},
		{"lsr w11, w26, w12", inst(rv32.SRL, 5, 7, 6, 0)},
		{"asr w11, w26, w12", inst(rv32.SRA, 5, 7, 6, 0)},
		{"ror w11, w26, w12", inst(rv32.ROR, 5, 7, 6, 0)},
		{"neg w1, w12; ror w11, w26, w1", inst(rv32.ROL, 5, 7, 6, 0)},
		{"mul w11, w26, w12", inst(rv32.MUL, 5, 7, 6, 0)},
		{"smull x0, w26, w12; lsr x11, x0, #32", inst(rv32.MULH, 5, 7, 6, 0)},
		{"umull x0, w26, w12; lsr x11, x0, #32", inst(rv32.MULHU, 5, 7, 6, 0)},
		{"sxtw x0, w26; mul x0, x0, x12; lsr x11, x0, #32", inst(rv32.MULHSU, 5, 7, 6, 0)},
		{"sdiv w2, w26, w12; cmp w12, wzr; csinv w11, w2, wzr, ne", inst(rv32.DIV, 5, 7, 6, 0)},
		{"udiv w2, w26, w12; cmp w12, wzr; csinv w11, w2, wzr, ne", inst(rv32.DIVU, 5, 7, 6, 0)},
		{"sdiv w2, w26, w12; msub w11, w2, w12, w26", inst(rv32.REM, 5, 7, 6, 0)},
		{"ldr w0, [x4, #32]; ldr w1, [x4, #36]; udiv w2, w0, w1; msub w0, w2, w1, w0; str w0, [x4, #40]", inst(rv32.REMU, 10, 8, 9, 0)},
		{"cmp w26, w12; csel w11, w26, w12, lt", inst(rv32.MIN, 5, 7, 6, 0)},
		{"cmp w26, w12; csel w11, w26, w12, lo", inst(rv32.MINU, 5, 7, 6, 0)},
		{"cmp w26, w12; csel w11, w26, w12, gt", inst(rv32.MAX, 5, 7, 6, 0)},
		{"cmp w26, w12; csel w11, w26, w12, hi", inst(rv32.MAXU, 5, 7, 6, 0)},
		{"add w11, w12, w26, lsl #1", inst(rv32.SH1ADD, 5, 7, 6, 0)},
		{"add w11, w12, w26, lsl #3", inst(rv32.SH3ADD, 5, 7, 6, 0)},
		{"and w0, w26, #0xffff; orr w11, w0, w12, lsl #16", inst(rv32.PACK, 5, 7, 6, 0)},
		{"eon w11, w26, w12", inst(rv32.XNOR, 5, 7, 6, 0)},
		{"clz w11, w26", inst(rv32.CLZ, 5, 7, 0, 0)},
		{"rbit w0, w26; clz w11, w0", inst(rv32.CTZ, 5, 7, 0, 0)},
		{"sxtb w11, w26", inst(rv32.SEXTB, 5, 7, 0, 0)},
		{"sxth w11, w26", inst(rv32.SEXTH, 5, 7, 0, 0)},
		{"rev w11, w26", inst(rv32.REV8, 5, 7, 0, 0)},
		{"rbit w0, w26; rev w11, w0", inst(rv32.BREV8, 5, 7, 0, 0)},
		{"fmov s0, w26; cnt v0.8b, v0.8b; addv b0, v0.8b; fmov w11, s0", inst(rv32.CPOP, 5, 7, 0, 0)},
		{"fmov s0, w26; cmtst v0.8b, v0.8b, v0.8b; fmov w11, s0", inst(rv32.ORCB, 5, 7, 0, 0)},
		{"ldr w0, [x4, #32]; fmov s0, w0; cmtst v0.8b, v0.8b, v0.8b; fmov w0, s0; str w0, [x4, #36]", inst(rv32.ORCB, 9, 8, 0, 0)},
	} {
		expect.Equal(t, strings.Trim(fmt.Sprintf("%08X", armWords(c.emit)), "[]"), want[c.text], "%s", c.text)
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
