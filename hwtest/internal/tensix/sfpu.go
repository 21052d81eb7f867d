package tensix

import (
	"math/bits"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// laneCase is a few vector instructions on LReg 0 to 3, and their result.
type laneCase struct {
	name      string
	blackhole bool
	config    map[isa.Config]uint32
	first     []isa.Instruction
	each      []isa.Instruction
	want      func(e *engines, g *group)

	seed  uint32
	begin func() func(*engines, *group)
}

type regs [4]uint32

func on(name string, each []isa.Instruction, want func(x *regs)) laneCase {
	return laneCase{name: name, each: each, want: one(want)}
}

func onModel(name string, each []isa.Instruction, want func(e *engines, x *regs)) laneCase {
	return laneCase{name: name, each: each, want: lane(want)}
}

// selects is a case of lanes whose LReg 2 becomes one.
func selects(name string, in isa.Instruction, holds func(x *regs) bool) laneCase {
	return on(name, sfpu(in, isa.SFPMOV{Dst: 2, C: lregOne}, allLanes), func(x *regs) {
		if holds(x) {
			x[2] = fp32One
		}
	})
}

func sfpu(list ...isa.Instruction) []isa.Instruction { return list }

func lane(f func(e *engines, x *regs)) func(*engines, *group) {
	return func(e *engines, g *group) {
		for i := range 32 {
			x := regs{g[0][i], g[1][i], g[2][i], g[3][i]}
			f(e, &x)
			for r, v := range x {
				g[r][i] = v
			}
		}
	}
}

func one(f func(x *regs)) func(*engines, *group) {
	return lane(func(_ *engines, x *regs) { f(x) })
}

const (
	signBit = 0x80000000
	fp32One = 0x3F800000
)

var allLanes = isa.SFPENCC{Mod: 10, Imm: 3}

func stored(mod, reg uint32) isa.Instruction {
	return isa.SFPSTORE{Dst: scratchRow, Mod: mod, Lreg: reg}
}

func loaded(mod, reg uint32) isa.Instruction {
	return isa.SFPLOAD{Dst: scratchRow, Mod: mod, Lreg: reg}
}

func constant(r, v uint32) []isa.Instruction {
	return sfpu(isa.SFPLOADI{Lreg: r, Mod: 10, Imm: v & 0xFFFF}, isa.SFPLOADI{Lreg: r, Mod: 8, Imm: v >> 16})
}

func laneCases() rig.Table {
	var cs rig.Table
	for _, c := range slices.Concat(moveLanes(), integerLanes(), floatLanes(), bitLanes(), conditionLanes(), acrossLanes(),
		blackholeLanes()) {
		cs.Add(c.name, "vector instructions leave the specified bits in the enabled lanes", func(t *rig.T) {
			e := newEngines(t, c.name)
			if c.blackhole && e.arch != chip.Blackhole {
				t.Skip("only Blackhole has this")
			}
			e.eachGroup(anyBits(e.rnd), &c)
		})
	}
	return cs
}

func moveLanes() []laneCase {
	return []laneCase{
		{name: "SFPLOAD and SFPSTORE move 32 bits as they are", want: one(func(*regs) {})},
		on("SFPLOADI makes bf16 and fp16 to fp32",
			sfpu(isa.SFPLOADI{Lreg: 0, Mod: 0, Imm: 0xC049}, isa.SFPLOADI{Lreg: 1, Mod: 1, Imm: 0xBC01}),
			func(x *regs) { x[0], x[1] = 0xC0490000, 0xBF802000 }),
		on("SFPLOADI makes 16 bits to unsigned and signed integers",
			sfpu(isa.SFPLOADI{Lreg: 0, Mod: 2, Imm: 0x8001}, isa.SFPLOADI{Lreg: 1, Mod: 4, Imm: 0x8001}),
			func(x *regs) { x[0], x[1] = 0x8001, 0xFFFF8001 }),
		on("SFPLOADI changes one half of a register",
			sfpu(isa.SFPLOADI{Lreg: 0, Mod: 8, Imm: 0x1234}, isa.SFPLOADI{Lreg: 1, Mod: 10, Imm: 0x5678}),
			func(x *regs) { x[0], x[1] = x[0]&0xFFFF|0x12340000, x[1]&^0xFFFF|0x5678 }),
		on("SFPMOV copies, and copies with the sign flipped",
			sfpu(isa.SFPMOV{Dst: 1, C: 0}, isa.SFPMOV{Dst: 3, C: 2, Mod: 1}), func(x *regs) { x[1], x[3] = x[0], x[2]^signBit }),
		{
			name: "SFPMOV reads the registers of constants",
			each: sfpu(isa.SFPMOV{Dst: 0, C: lregPoint837}, isa.SFPMOV{Dst: 1, C: lregZero}, isa.SFPMOV{Dst: 2, C: lregOne},
				isa.SFPMOV{Dst: 3, C: lregLane}),
			want: func(_ *engines, g *group) {
				for i := range 32 {
					g[0][i], g[1][i], g[2][i], g[3][i] = 0x3F56594B, 0, fp32One, uint32(2*i)
				}
			},
		},
		{
			name: "SFPCONFIG sets a register of constants, and back to its default",
			first: slices.Concat(constant(0, 0x12345678), sfpu(isa.SFPCONFIG{Dst: 12}), constant(0, 0xCAFEF00D), sfpu(isa.SFPCONFIG{Dst: 11}),
				sfpu(isa.SFPMOV{Dst: 4, C: 11}), sfpu(isa.SFPCONFIG{Dst: 11, Mod: 1})),
			each: sfpu(isa.SFPMOV{Dst: 0, C: 12}, isa.SFPMOV{Dst: 1, C: 4}, isa.SFPMOV{Dst: 2, C: lregMinusOne}),
			want: one(func(x *regs) { x[0], x[1], x[2] = 0x12345678, 0xCAFEF00D, 0xBF800000 }),
		},
		on("SFPSTORE and SFPLOAD of fp32 make zero of denormals", sfpu(stored(sfpuFP32, 0), loaded(sfpuFP32, 1),
			stored(sfpuConfigured, 2), loaded(sfpuConfigured, 3)), func(x *regs) { x[1], x[3] = arith.FlushDenormal(x[0]), arith.FlushDenormal(x[2]) }),
		on("SFPSTORE and SFPLOAD of bf16 cut the mantissa",
			sfpu(stored(sfpuBF16, 0), loaded(sfpuBF16, 1)), func(x *regs) { x[1] = arith.FlushDenormal(x[0]) & 0xFFFF0000 }),
		{
			name:   "SFPSTORE and SFPLOAD of fp16, by the format of SrcB",
			config: map[isa.Config]uint32{isa.Fp32SFPU: 0, isa.SrcBFormat: uint32(arith.FP16)},
			each:   sfpu(stored(sfpuConfigured, 0), loaded(sfpuConfigured, 1)),
			want:   one(func(x *regs) { x[1] = arith.WidenFP16(arith.CutFP16(x[0])) }),
		},
		on("SFPSTORE and SFPLOAD of one half of a register", sfpu(stored(sfpuLow16, 0), loaded(sfpuHigh16, 1),
			loaded(sfpuLow16, 2), stored(sfpuHigh16, 0),
			loaded(sfpuUint16, 3)), func(x *regs) {
			x[1], x[2], x[3] = x[0]<<16|x[1]&0xFFFF, x[2]&^0xFFFF|x[0]&0xFFFF, x[0]>>16
		}),
		on("SFPSTORE of 32 bits as the register holds them, and with the halves swapped", sfpu(stored(sfpuRaw32, 0), loaded(sfpuBits, 1),
			stored(sfpuSwapped, 2), loaded(sfpuBits, 3)), func(x *regs) {
			x[1], x[3] = arith.DecodeDst32(x[0]), arith.DecodeDst32(bits.RotateLeft32(x[2], 16))
		}),
		onModel("SFPLOAD of sign and magnitude gives two's complement on Wormhole, and SFPSTORE takes it",
			sfpu(stored(sfpuBits, 0), loaded(sfpuSignMag, 1),
				stored(sfpuSignMag, 2), loaded(sfpuBits, 3)), func(e *engines, x *regs) {
				x[1], x[3] = x[0], x[2]
				if e.blackhole() {
					return
				}
				if x[0]&signBit != 0 {
					x[1] = -(x[0] &^ signBit)
				}
				if x[2]&signBit != 0 {
					x[3] = signBit | -x[2]
				}
			}),
		on("SFPSTORE and SFPLOAD leave lanes alone that don't execute", sfpu(stored(sfpuBits, 2), isa.SFPSETCC{C: 0},
			stored(sfpuBits, 3),
			loaded(sfpuBits, 1), allLanes, loaded(sfpuBits, 2)), func(x *regs) {
			if int32(x[0]) < 0 {
				x[1], x[2] = x[3], x[3]
			}
		}),
	}
}

func integerLanes() []laneCase {
	saturated := func(name string, mod, largest uint32, signed bool) laneCase {
		return on(name, sfpu(isa.SFPSTOCHRND{Mod: mod, Dst: 1, C: 0}),
			func(x *regs) { x[1] = arith.RoundInteger(x[0], largest, signed) })
	}
	return []laneCase{
		on("SFPIADD adds registers", sfpu(isa.SFPIADD{Dst: 1, C: 0, Mod: 4}), func(x *regs) { x[1] += x[0] }),
		on("SFPIADD subtracts the destination", sfpu(isa.SFPIADD{Dst: 1, C: 0, Mod: 6}), func(x *regs) { x[1] = x[0] - x[1] }),
		on("SFPIADD adds an immediate of 12 bits with its sign",
			sfpu(isa.SFPIADD{Dst: 1, C: 0, Mod: 5, Imm: 0xF85}, isa.SFPIADD{Dst: 2, C: 0, Mod: 5, Imm: 0x7FF}),
			func(x *regs) { x[1], x[2] = x[0]-123, x[0]+0x7FF }),
		selects("SFPIADD selects the lanes whose result is negative", isa.SFPIADD{Dst: 1, C: 0},
			func(x *regs) bool { x[1] += x[0]; return x[1]&signBit != 0 }),
		selects("SFPIADD selects the lanes whose result is not negative", isa.SFPIADD{Dst: 1, C: 0, Mod: 10},
			func(x *regs) bool { x[1] = x[0] - x[1]; return x[1]&signBit == 0 }),
		on("SFPABS of integers in two's complement", sfpu(isa.SFPABS{Dst: 1, C: 0}), func(x *regs) {
			if x[1] = x[0]; x[0]&signBit != 0 {
				x[1] = -x[0]
			}
		}),
		on("SFPCAST of integers of sign and magnitude to fp32",
			sfpu(isa.SFPCAST{Dst: 1, C: 0}), func(x *regs) { x[1] = arith.IntegerToFP32(x[0]) }),
		saturated("SFPSTOCHRND to unsigned integers of 8 bits", 2, 255, false),
		saturated("SFPSTOCHRND to signed integers of 8 bits", 3, 127, true),
		saturated("SFPSTOCHRND to unsigned integers of 16 bits", 6, 65535, false),
		saturated("SFPSTOCHRND to signed integers of 16 bits", 7, 32767, true),
		on("SFPLZ counts leading zeros", sfpu(isa.SFPLZ{Dst: 1, C: 0}, isa.SFPLZ{Dst: 3, C: 2, Mod: 4}), func(x *regs) {
			x[1], x[3] = uint32(bits.LeadingZeros32(x[0])), uint32(bits.LeadingZeros32(x[2]&^signBit))
		}),
		selects("SFPLZ selects the lanes that are not zero", isa.SFPLZ{Dst: 1, C: 0, Mod: 2},
			func(x *regs) bool { x[1] = uint32(bits.LeadingZeros32(x[0])); return x[0] != 0 }),
	}
}

// third tells which third of a table has a number without sign: those below 1, 2, or more.
func third(m uint32) int {
	switch {
	case m >= 0x40000000:
		return 2
	case m >= fp32One:
		return 1
	}
	return 0
}

func floatLanes() []laneCase {
	return []laneCase{
		onModel("SFPMAD multiplies and adds",
			sfpu(isa.SFPMAD{Dst: 3, A: 0, B: 1, C: 2}), func(e *engines, x *regs) { x[3] = e.model.FMA(x[0], x[1], x[2]) }),
		onModel("SFPMAD whose destination is an operand",
			sfpu(isa.SFPMAD{Dst: 0, A: 0, B: 0, C: 0}, isa.SFPMAD{Dst: 1, A: 0, B: 1, C: lregMinusOne}), func(e *engines, x *regs) {
				x[0] = e.model.FMA(x[0], x[0], x[0])
				x[1] = e.model.FMA(x[0], x[1], 0xBF800000)
			}),
		onModel("SFPADD adds",
			sfpu(isa.SFPADD{Dst: 3, A: lregOne, B: 0, C: 1}), func(e *engines, x *regs) { x[3] = e.model.FMA(fp32One, x[0], x[1]) }),
		onModel("SFPMUL multiplies",
			sfpu(isa.SFPMUL{Dst: 3, A: 0, B: 1, C: lregZero}), func(e *engines, x *regs) { x[3] = e.model.FMA(x[0], x[1], 0) }),
		onModel("SFPMULI and SFPADDI take a bf16",
			sfpu(isa.SFPMULI{Dst: 0, Imm: 0x4049}, isa.SFPADDI{Dst: 1, Imm: 0xC0A0}), func(e *engines, x *regs) {
				x[0], x[1] = e.model.FMA(0x40490000, x[0], 0), e.model.FMA(0xC0A00000, fp32One, x[1])
			}),
		on("SFPABS of fp32", sfpu(isa.SFPABS{Dst: 1, C: 0, Mod: 1}), func(x *regs) {
			if x[1] = x[0]; x[0] <= 0xFF800000 {
				x[1] &^= signBit
			}
		}),
		on("SFPSETSGN sets a sign, from the destination or an immediate",
			sfpu(isa.SFPSETSGN{Dst: 1, C: 0}, isa.SFPSETSGN{Dst: 2, C: 3, Mod: 1, Imm: 1}),
			func(x *regs) { x[1], x[2] = x[0]&^signBit|x[1]&signBit, x[3]|signBit }),
		on("SFPSETEXP sets an exponent from the low bits, an immediate, or the exponent of the destination",
			sfpu(isa.SFPSETEXP{Dst: 1, C: 0}, isa.SFPSETEXP{Dst: 2, C: 0, Mod: 1, Imm: 130}, isa.SFPSETEXP{Dst: 3, C: 0, Mod: 2}),
			func(x *regs) {
				rest := x[0] & 0x807FFFFF
				x[1], x[2], x[3] = rest|x[1]&0xFF<<23, rest|130<<23, rest|x[3]&0x7F800000
			}),
		on("SFPSETMAN sets a mantissa from the destination, or to zero",
			sfpu(isa.SFPSETMAN{Dst: 1, C: 0}, isa.SFPSETMAN{Dst: 2, C: 0, Mod: 1}),
			func(x *regs) { x[1], x[2] = x[0]&0xFF800000|x[1]&0x7FFFFF, x[0]&0xFF800000 }),
		on("SFPEXEXP takes the exponent, with the bias and without",
			sfpu(isa.SFPEXEXP{Dst: 1, C: 0}, isa.SFPEXEXP{Dst: 2, C: 0, Mod: 1}),
			func(x *regs) { e := x[0] >> 23 & 0xFF; x[1], x[2] = e-127, e }),
		selects("SFPEXEXP selects the lanes with a negative exponent", isa.SFPEXEXP{Dst: 1, C: 0, Mod: 2},
			func(x *regs) bool { x[1] = x[0]>>23&0xFF - 127; return x[1]&signBit != 0 }),
		on("SFPEXMAN takes the mantissa, with the hidden one and without",
			sfpu(isa.SFPEXMAN{Dst: 1, C: 0}, isa.SFPEXMAN{Dst: 2, C: 0, Mod: 1}),
			func(x *regs) { x[1], x[2] = x[0]&0x7FFFFF|0x800000, x[0]&0x7FFFFF }),
		on("SFPDIVP2 sets an exponent, or adds to it",
			sfpu(isa.SFPDIVP2{Dst: 1, C: 0, Imm: 100}, isa.SFPDIVP2{Dst: 2, C: 0, Mod: 1, Imm: 0xFFD}), func(x *regs) {
				x[1] = x[0]&0x807FFFFF | 100<<23
				e := x[0] >> 23 & 0xFF
				if e != 255 {
					e = (e - 3) & 0xFF
				}
				x[2] = x[0]&0x807FFFFF | e<<23
			}),
		on("SFPSTOCHRND rounds to bf16, ties away from zero",
			sfpu(isa.SFPSTOCHRND{Mod: 1, Dst: 1, C: 0}), func(x *regs) { x[1] = arith.RoundBF16(x[0]) }),
		{
			name: "SFPLUT evaluates three lines of 8-bit coefficients",
			each: slices.Concat(sfpu(isa.SFPMOV{Dst: 3, C: 0}), constant(0, 0x1234), constant(1, 0x2AB1), constant(2, 0x9CFF),
				sfpu(isa.SFPLUT{Lreg: 4, Mod: 4}, isa.SFPMOV{Dst: 0, C: 4})),
			want: lane(func(e *engines, x *regs) {
				v := x[0]
				lines := [3]uint32{0x1234, 0x2AB1, 0x9CFF}
				line := lines[third(v&^signBit)]
				y := e.model.FMA(arith.LutCoefficient8(line>>8), v&^signBit, arith.LutCoefficient8(line))
				*x = regs{y&^signBit | v&signBit, lines[1], lines[2], v}
			}),
		},
		{
			name: "SFPLUTFP32 evaluates six lines of 16-bit coefficients",
			each: slices.Concat(sfpu(isa.SFPMOV{Dst: 3, C: 0}), constant(0, 0x3C00B555), constant(1, 0x38012345), constant(2, 0x7C003111),
				constant(4, 0x34564000), constant(5, 0xB8004321), constant(6, 0x00013FFF),
				sfpu(isa.SFPLUTFP32{Dst: 7, Mod: 2}, isa.SFPMOV{Dst: 0, C: 7})),
			want: lane(func(e *engines, x *regs) {
				v := x[0]
				slopes, offsets := [3]uint32{0x3C00B555, 0x38012345, 0x7C003111}, [3]uint32{0x34564000, 0xB8004321, 0x00013FFF}
				m := v &^ signBit
				i, shift := third(m), 0
				if m >= [3]uint32{0x3F000000, 0x3FC00000, 0x40400000}[i] { // 0.5, 1.5, 3
					shift = 16
				}
				y := e.model.FMA(arith.LutCoefficient16(slopes[i]>>shift), m, arith.LutCoefficient16(offsets[i]>>shift))
				*x = regs{y, slopes[1], slopes[2], v}
			}),
		},
	}
}

func shifted(v, by uint32) uint32 {
	if int32(by) >= 0 {
		return v << (by & 31)
	}
	return v >> (-by & 31)
}

func bitLanes() []laneCase {
	return []laneCase{
		on("SFPSHFT shifts by a register, left or right", sfpu(isa.SFPSHFT{Dst: 1, C: 0}), func(x *regs) { x[1] = shifted(x[1], x[0]) }),
		on("SFPSHFT shifts by an immediate",
			sfpu(isa.SFPSHFT{Dst: 1, Mod: 1, Imm: 5}, isa.SFPSHFT{Dst: 2, Mod: 1, Imm: 0xFF9}),
			func(x *regs) { x[1], x[2] = x[1]<<5, x[2]>>7 }),
		on("SFPSHFT2 shifts one register by another into a third",
			sfpu(isa.SFPSHFT2{Dst: 2, C: 1, Mod: 5, Imm: 0}), func(x *regs) { x[2] = shifted(x[0], x[1]) }),
		on("SFPAND, SFPOR, SFPXOR and SFPNOT combine bits",
			sfpu(isa.SFPMOV{Dst: 4, C: 0}, isa.SFPAND{Dst: 0, C: 1}, isa.SFPOR{Dst: 1, C: 4}, isa.SFPXOR{Dst: 2, C: 4},
				isa.SFPNOT{Dst: 3, C: 4}), func(x *regs) { a := x[0]; *x = regs{a & x[1], x[1] | a, x[2] ^ a, ^a} }),
	}
}

func conditionLanes() []laneCase {
	mark := isa.SFPMOV{Dst: 1, C: lregOne}
	tested := func(name string, mod uint32, holds func(int32) bool) laneCase {
		return selects(name, isa.SFPSETCC{C: 0, Mod: mod}, func(x *regs) bool { return holds(int32(x[0])) })
	}
	return []laneCase{
		tested("SFPSETCC selects negative lanes", 0, func(v int32) bool { return v < 0 }),
		tested("SFPSETCC selects lanes that are not zero", 2, func(v int32) bool { return v != 0 }),
		tested("SFPSETCC selects lanes that are not negative", 4, func(v int32) bool { return v >= 0 }),
		tested("SFPSETCC selects lanes that are zero", 6, func(v int32) bool { return v == 0 }),
		on("conditions in sequence select the lanes where both hold",
			sfpu(isa.SFPSETCC{C: 0}, isa.SFPSETCC{C: 2, Mod: 4}, mark, allLanes), func(x *regs) {
				if int32(x[0]) < 0 && int32(x[2]) >= 0 {
					x[1] = fp32One
				}
			}),
		on("SFPCOMPC turns to the other lanes",
			sfpu(isa.SFPSETCC{C: 0}, mark, isa.SFPCOMPC{}, isa.SFPMOV{Dst: 1, C: lregZero}, allLanes), func(x *regs) {
				if x[1] = 0; int32(x[0]) < 0 {
					x[1] = fp32One
				}
			}),
		on("SFPPUSHC and SFPPOPC nest conditions", sfpu(isa.SFPPUSHC{}, isa.SFPSETCC{C: 0},
			isa.SFPPUSHC{}, isa.SFPSETCC{C: 2}, mark, isa.SFPCOMPC{}, isa.SFPMOV{Dst: 1, C: lregZero}, isa.SFPPOPC{},
			isa.SFPMOV{Dst: 3, C: lregOne}, isa.SFPPOPC{}, isa.SFPMOV{Dst: 2, C: lregOne}), func(x *regs) {
			if int32(x[0]) < 0 {
				if x[1] = 0; int32(x[2]) < 0 {
					x[1] = fp32One
				}
				x[3] = fp32One
			}
			x[2] = fp32One
		}),
		on("a stack of eight conditions", slices.Concat(slices.Repeat(sfpu(isa.SFPPUSHC{}), 8), sfpu(isa.SFPSETCC{C: 0}, mark),
			slices.Repeat(sfpu(isa.SFPPOPC{}), 8), sfpu(isa.SFPMOV{Dst: 2, C: lregZero})), func(x *regs) {
			if x[2] = 0; int32(x[0]) < 0 {
				x[1] = fp32One
			}
		}),
		on("SFPENCC without conditions executes in all lanes",
			sfpu(isa.SFPSETCC{C: 0}, isa.SFPENCC{Mod: 10, Imm: 2}, mark, allLanes), func(x *regs) { x[1] = fp32One }),
		on("instructions leave lanes alone that don't execute",
			sfpu(isa.SFPMOV{Dst: 3, C: 0}, isa.SFPSETCC{C: 0}, isa.SFPLOADI{Lreg: 2, Mod: 2, Imm: 7},
				isa.SFPMAD{Dst: 1, A: lregOne, B: lregOne, C: lregOne}, allLanes), func(x *regs) {
				if x[3] = x[0]; int32(x[0]) < 0 {
					x[2], x[1] = 7, 0x40000000
				}
			}),
	}
}

func acrossLanes() []laneCase {
	ordered := func(a, b uint32) (least, most uint32) {
		if arith.TotalOrder(b) < arith.TotalOrder(a) {
			return b, a
		}
		return a, b
	}
	swap := func(name string, mod uint32, least func(lane int) bool) laneCase {
		return laneCase{
			name: name,
			each: sfpu(isa.SFPSWAP{Dst: 0, C: 1, Mod: mod}),
			want: func(_ *engines, g *group) {
				for i := range 32 {
					g[0][i], g[1][i] = ordered(g[0][i], g[1][i])
					if !least(i) {
						g[0][i], g[1][i] = g[1][i], g[0][i]
					}
				}
			},
		}
	}
	rotate := func(v *lanes) (r lanes) {
		for i := range r {
			r[i] = v[i&^7|(i+7)&7]
		}
		return r
	}
	return []laneCase{
		randomLanes(),
		on("SFPSWAP swaps registers", sfpu(isa.SFPSWAP{Dst: 0, C: 1}), func(x *regs) { x[0], x[1] = x[1], x[0] }),
		swap("SFPSWAP leaves the smaller number in its destination", 1, func(int) bool { return true }),
		swap("SFPSWAP leaves the larger number in its destination", 9, func(int) bool { return false }),
		swap("SFPSWAP orders the first half of the lanes up and the second down", 2, func(i int) bool { return i < 16 }),
		swap("SFPSWAP orders every second row of lanes up", 3, func(i int) bool { return i/8%2 == 0 }),
		on("SFPSWAP doesn't change a register of constants",
			sfpu(isa.SFPSWAP{Dst: 0, C: lregOne, Mod: 1}, isa.SFPMOV{Dst: 1, C: lregOne}),
			func(x *regs) { x[0], _ = ordered(x[0], fp32One); x[1] = fp32One }),
		{
			name:  "SFPSWAP moves an index with each number",
			first: slices.Concat(constant(0, 4), sfpu(isa.SFPCONFIG{Dst: 15})),
			each: sfpu(isa.SFPLOADI{Lreg: 4, Mod: 2, Imm: 111}, isa.SFPLOADI{Lreg: 5, Mod: 2, Imm: 222}, isa.SFPSWAP{Dst: 0, C: 1, Mod: 1},
				stored(sfpuBits, 4), loaded(sfpuBits, 2)),
			want: one(func(x *regs) {
				if x[2] = 111; arith.TotalOrder(x[1]) < arith.TotalOrder(x[0]) {
					x[0], x[1], x[2] = x[1], x[0], 222
				}
			}),
		},
		{
			name: "SFPTRANSP transposes registers and rows of lanes",
			each: sfpu(isa.SFPTRANSP{}),
			want: func(_ *engines, g *group) {
				old := *g
				for i := range 32 {
					for r := range 4 {
						g[r][i] = old[i/8][8*r+i%8]
					}
				}
			},
		},
		{
			name: "SFPSHFT2 rotates rows of lanes",
			each: sfpu(isa.SFPSHFT2{Dst: 1, C: 0, Mod: 3}),
			want: func(_ *engines, g *group) { g[1] = rotate(&g[0]) },
		},
	}
}

func randomLanes() laneCase {
	const seed = 0xC0FFEE11
	next := func(v uint32) uint32 { return ^uint32(bits.OnesCount32(v&0x80200003))<<31 | v>>1 }
	pause := slices.Repeat(sfpu(isa.SFPNOP{}), 600)
	read := isa.SFPMOV{C: lregZero, Mod: 8}
	again := read
	again.Dst = 1
	return laneCase{
		name:  "SFPMOV reads random numbers that follow from the seed",
		seed:  seed,
		first: pause,
		each:  sfpu(read, again),
		begin: func() func(*engines, *group) {
			var r lanes
			v := uint32(seed)
			for range r {
				v = next(v)
			}
			for i := len(r) - 1; i >= 0; i-- {
				v = next(next(v))
				r[i] = v
			}
			return func(_ *engines, g *group) {
				for reg := range 2 {
					for i := range r {
						g[reg][i] = r[i]
						r[i] = next(r[i])
					}
				}
			}
		},
	}
}

func blackholeLanes() []laneCase {
	compare := func(name string, in isa.Instruction, holds func(d, c int32) bool) laneCase {
		return on(name, sfpu(in), func(x *regs) {
			d := x[1]
			if x[1] = 0; holds(arith.TotalOrder(d), arith.TotalOrder(x[0])) {
				x[1] = 0xFFFFFFFF
			}
		})
	}
	const mask23 = 1<<23 - 1
	cs := []laneCase{
		compare("SFPLE sets all bits where it holds", isa.SFPLE{Dst: 1, C: 0, Mod: 8}, func(d, c int32) bool { return d <= c }),
		compare("SFPGT sets all bits where it holds", isa.SFPGT{Dst: 1, C: 0, Mod: 8}, func(d, c int32) bool { return d > c }),
		selects("SFPGT selects lanes", isa.SFPGT{Dst: 1, C: 0, Mod: 1},
			func(x *regs) bool { return arith.TotalOrder(x[1]) > arith.TotalOrder(x[0]) }),
		on("SFPMUL24 multiplies 23 bits, for the low or the high half",
			sfpu(isa.SFPMUL24{Dst: 2, A: 0, B: 1, C: lregZero}, isa.SFPMUL24{Dst: 3, A: 0, B: 1, C: lregZero, Mod: 1}), func(x *regs) {
				x[2], x[3] = x[0]*x[1]&mask23, uint32(uint64(x[0]&mask23)*uint64(x[1]&mask23)>>23)
			}),
		on("SFPARECIP approximates a reciprocal",
			sfpu(isa.SFPARECIP{Dst: 1, C: 0}), func(x *regs) { x[1] = arith.ApproximateReciprocal(x[0]) }),
		onModel("SFPMAD flips signs of operands",
			sfpu(isa.SFPMAD{Dst: 3, A: 0, B: 1, C: 2, Mod: 3}),
			func(e *engines, x *regs) { x[3] = e.model.FMA(x[0]^signBit, x[1], x[2]^signBit) }),
		on("SFPSHFT shifts with the sign, and another register than the destination",
			sfpu(isa.SFPSHFT{Dst: 1, Mod: 3, Imm: 0xFFB}, isa.SFPSHFT{Dst: 2, C: 0, Mod: 5, Imm: 3},
				isa.SFPSHFT{Dst: 3, C: 0, Mod: 7, Imm: 0xFFE}), func(x *regs) { x[1], x[2], x[3] = uint32(int32(x[1])>>5), x[0]<<3, uint32(int32(x[0])>>2) }),
		on("SFPAND and SFPOR of two registers into a third",
			sfpu(isa.SFPAND{Dst: 2, C: 0, Mod: 1, Imm: 1}, isa.SFPOR{Dst: 3, C: 0, Mod: 1, Imm: 1}),
			func(x *regs) { x[2], x[3] = x[0]&x[1], x[0]|x[1] }),
		on("SFPCAST turns sign and magnitude to two's complement", sfpu(isa.SFPCAST{Dst: 1, C: 0, Mod: 3}), func(x *regs) {
			if x[1] = x[0]; x[0]&signBit != 0 {
				x[1] = signBit | -x[0]
			}
		}),
		{
			name: "SFPSHFT2 shifts rows of lanes and puts zeros in",
			each: sfpu(isa.SFPSHFT2{Dst: 1, C: 0, Mod: 4}),
			want: func(_ *engines, g *group) {
				for i := range 32 {
					if g[1][i] = 0; i%8 != 0 {
						g[1][i] = g[0][i-1]
					}
				}
			},
		},
	}
	for i := range cs {
		cs[i].blackhole = true
	}
	return cs
}
