package translate

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// armWords are the instructions that f emits; x5 is in w11, x6 in w12, x7 in w26, and no other
// has a home.
func armWords(f func(*arm)) string {
	e := newArm(&program{ops: make([]rv32.Op, 64)})
	e.home[5], e.home[6], e.home[7] = 11, 12, 26
	f(e)
	var w []uint32
	for b := e.b; len(b) > 0; b = b[4:] {
		w = append(w, binary.LittleEndian.Uint32(b))
	}
	return strings.Trim(fmt.Sprintf("%08X", w), "[]")
}

//go:embed testdata/arm.txt
var encodings string

// Instructions of arm64 are encoded as GNU as does it.
func TestArmEncodings(t *testing.T) {
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
		{"mov w11, #-2048", func(e *arm) { e.compute(rv32.Inst{Code: rv32.LI, Rd: 5, Imm: -2048}) }},
	} {
		expect.Equal(t, armWords(c.emit), want[c.text], "%s", c.text)
	}
}

//go:embed testdata/arm_compute.txt
var computing string

func TestArmComputes(t *testing.T) {
	for line := range strings.Lines(computing) {
		if c := strings.Split(strings.TrimSpace(line), " = "); len(c) == 3 {
			w := expect.Value(strconv.ParseUint(c[0][:8], 16, 32))(t)
			emit := func(e *arm) { e.compute(rv32.Decode(chip.Blackhole, uint32(w), 0)) }
			expect.Equal(t, armWords(emit), c[2], "%s: %s", c[0], c[1])
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
