package tensix

import (
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"
)

const (
	fp32One = 0x3F800000
	signBit = 0x80000000
)

// Blackhole's mode flips operands' signs.
func (e *Engine) signs(mode, last uint32) bool {
	if !e.wormhole {
		return e.accept(UnsupportedFunctionality, mode, upTo(last))
	}
	return e.withoutBits(mode, 3) && e.zero("the mode", mode)
}

func (e *Engine) sfpmad(t *thread, a sfpmadArgs) bool {
	return e.signs(a.mod, 3) && e.destination(a.dst) && e.multiplyAdd(a)
}

// Bits 0 and 1 of the mode flip the signs of a and c.
func (e *Engine) multiplyAdd(a sfpmadArgs) bool {
	return e.carryOut(plan{do: planMultiplyAdd, dst: uint8(a.dst), a: uint8(a.a), b: uint8(a.b), c: uint8(a.c),
		negateA: a.mod&1 != 0, negateC: a.mod&2 != 0})
}

func (e *Engine) fmaLanes(dst uint32, x, y, z *lreg) {
	s := &e.sfpu
	e.chip.FMALanes(&s.l[dst], x, y, z, false, false, s.enabled())
}

func (e *Engine) sfpadd(t *thread, a sfpmadArgs) bool {
	if !e.signs(a.mod, 3) || !e.destination(a.dst) {
		return false
	}
	if a.a != lregOne && a.b != lregOne {
		return e.nonContractual("neither LReg %d nor LReg %d is LReg %d, the constant 1", a.a, a.b, lregOne)
	}
	if a.a != lregOne {
		a.a, a.b = a.b, a.a
	}
	return e.multiplyAdd(a)
}

func (e *Engine) sfpmul(t *thread, a sfpmadArgs) bool {
	if !e.signs(a.mod, 1) || !e.destination(a.dst) {
		return false
	}
	if a.c != lregZero {
		return e.nonContractual("LReg %d is not LReg %d, the constant 0", a.c, lregZero)
	}
	return e.multiplyAdd(a)
}

func (e *Engine) sfpmuli(t *thread, a sfpmuliArgs) bool { return e.withImmediate(a, a.dst, lregZero) }

func (e *Engine) sfpaddi(t *thread, a sfpmuliArgs) bool { return e.withImmediate(a, lregOne, a.dst) }

// withImmediate multiplies x by the immediate and adds z.
func (e *Engine) withImmediate(a sfpmuliArgs, x, z uint32) bool {
	return e.accept(UnimplementedFunctionality, a.mod, modes(0)) && e.destination(a.dst) &&
		e.carryOut(plan{do: planMultiplyAdd, dst: uint8(a.dst), a: uint8(x), c: uint8(z), k: e.sfpu.constant(a.imm << 16)})
}

func (e *Engine) sfplut(t *thread, a sfplutArgs) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, modes(4)) || !e.destination(a.lreg) {
		return false
	}
	s := &e.sfpu
	var slope, magnitude, offset lreg
	signs := s.l[3]
	for lane, x := range signs {
		magnitude[lane] = x &^ signBit
		line := s.l[lutThird(magnitude[lane])][lane]
		slope[lane], offset[lane] = arith.LutCoefficient8(line>>8), arith.LutCoefficient8(line)
	}
	e.fmaLanes(a.lreg, &slope, &magnitude, &offset)
	for lane := range each(s.enabled()) {
		s.l[a.lreg][lane] = s.l[a.lreg][lane]&^signBit | signs[lane]&signBit
	}
	return true
}

func lutThird(magnitude uint32) int {
	switch {
	case magnitude < fp32One:
		return 0
	case magnitude < 0x40000000:
		return 1
	}
	return 2
}

func (e *Engine) sfplutfp32(t *thread, a sfppushcArgs) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, modes(2)) || !e.destination(a.dst) {
		return false
	}
	s := &e.sfpu
	var slope, magnitude, offset lreg
	for lane, x := range &s.l[3] {
		magnitude[lane] = x &^ signBit
		third, shift := lutSixth(magnitude[lane])
		slope[lane], offset[lane] = arith.LutCoefficient16(s.l[third][lane]>>shift), arith.LutCoefficient16(s.l[4+third][lane]>>shift)
	}
	e.fmaLanes(a.dst, &slope, &magnitude, &offset)
	return true
}

// The lines' ranges end at 0.5, 1, 1.5, 2 and 3.
func lutSixth(magnitude uint32) (third int, shift uint32) {
	third = lutThird(magnitude)
	middle := [3]uint32{0x3F000000, 0x3FC00000, 0x40400000}
	if magnitude >= middle[third] {
		return third, 16
	}
	return third, 0
}

func (e *Engine) sfparecip(t *thread, a sfpandArgs) bool {
	if !e.destination(a.dst) || !e.zero("the mode", a.mod) || !e.zero("the immediate", a.imm) {
		return false
	}
	e.unary(a.dst, a.c, arith.ApproximateReciprocal)
	return true
}

func (e *Engine) unary(dst, c uint32, f func(uint32) uint32) {
	s := &e.sfpu
	lc, ld := &s.l[c], &s.l[dst]
	enabled := s.enabled()
	if enabled == allLanes {
		for lane := range ld {
			ld[lane] = f(lc[lane])
		}
		return
	}
	for lane := range each(enabled) {
		ld[lane] = f(lc[lane])
	}
}

func (e *Engine) bits(dst, c, keep, own, flip uint32) bool {
	return e.carryOut(plan{do: planBits, dst: uint8(dst), c: uint8(c), x: keep, y: own, z: flip})
}

func (e *Engine) withoutBits(mode, reserved uint32) bool {
	return mode&reserved == 0 || e.nonContractual("mode %d has a reserved bit set", mode)
}

func (e *Engine) sfpdivp2(t *thread, a sfpdivp2Args) bool {
	if !e.withoutBits(a.mod, ^uint32(1)) || !e.destination(a.dst) {
		return false
	}
	if a.imm > 0x7F && a.imm < 0xF80 {
		return e.nonContractual("an exponent of %#x, which 8 bits don't hold", a.imm)
	}
	if a.mod == 0 {
		return e.bits(a.dst, a.c, 0x807FFFFF, 0, a.imm&0xFF<<23)
	}
	s := &e.sfpu
	lc, ld := &s.l[a.c], &s.l[a.dst]
	for lane := range each(s.enabled()) {
		v := lc[lane]
		exponent := v >> 23 & 0xFF
		if exponent != 0xFF {
			exponent = (exponent + a.imm) & 0xFF
		}
		ld[lane] = v&0x807FFFFF | exponent<<23
	}
	return true
}

func (e *Engine) sfpexexp(t *thread, a sfpexexpArgs) bool {
	return e.withoutBits(a.mod, 4) && e.accept(UnimplementedFunctionality, a.mod, modes(0, 1, 2, 10)) && e.destination(a.dst) &&
		e.carryOut(plan{do: planExponents, dst: uint8(a.dst), c: uint8(a.c), x: a.mod})
}

func (e *Engine) sfpexman(t *thread, a sfpexexpArgs) bool {
	if !e.withoutBits(a.mod, ^uint32(1)) || !e.destination(a.dst) {
		return false
	}
	hidden := uint32(0x800000)
	if a.mod == 1 {
		hidden = 0
	}
	return e.bits(a.dst, a.c, 0x7FFFFF, 0, hidden)
}

func (e *Engine) sfpsetexp(t *thread, a sfpsetexpArgs) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, upTo(2)) || !e.destination(a.dst) {
		return false
	}
	if a.mod != 1 && !e.zero("the immediate", a.imm) {
		return false
	}
	const rest = 0x807FFFFF
	switch a.mod {
	case 0:
		s := &e.sfpu
		lc, ld := &s.l[a.c], &s.l[a.dst]
		for lane := range each(s.enabled()) {
			ld[lane] = lc[lane]&rest | ld[lane]&0xFF<<23
		}
	case 1:
		return e.bits(a.dst, a.c, rest, 0, a.imm<<23)
	case 2:
		return e.bits(a.dst, a.c, rest, ^uint32(rest), 0)
	}
	return true
}

func (e *Engine) sfpsetman(t *thread, a sfpdivp2Args) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, upTo(1)) || !e.destination(a.dst) || !e.zero("the immediate", a.imm) {
		return false
	}
	const rest = 0xFF800000
	own := ^uint32(rest)
	if a.mod == 1 { // the immediate, which is 0
		own = 0
	}
	return e.bits(a.dst, a.c, rest, own, 0)
}

func (e *Engine) sfpsetsgn(t *thread, a sfpsetccArgs) bool {
	if !e.withoutBits(a.mod, ^uint32(1)) || !e.destination(a.dst) {
		return false
	}
	if a.mod == 1 {
		return e.bits(a.dst, a.c, ^uint32(signBit), 0, a.imm<<31)
	}
	if !e.zero("the immediate", a.imm) {
		return false
	}
	return e.bits(a.dst, a.c, ^uint32(signBit), signBit, 0)
}

func (e *Engine) sfpabs(t *thread, a sfpexexpArgs) bool {
	if !e.withoutBits(a.mod, ^uint32(1)) || !e.destination(a.dst) {
		return false
	}
	s := &e.sfpu
	lc, ld := &s.l[a.c], &s.l[a.dst]
	for lane := range each(s.enabled()) {
		v := lc[lane]
		switch {
		case v&signBit == 0:
		case a.mod == 0: // an integer
			v = -v
		case v <= 0xFF800000: // a negative NaN stays as it is
			v &^= signBit
		}
		ld[lane] = v
	}
	return true
}

func (e *Engine) sfpstochrnd(t *thread, a sfpstochrndArgs) bool {
	if !e.accept(UndefinedBehavior, a.mod, upTo(7)|modes(12, 13)) ||
		!e.accept(UnimplementedFunctionality, a.mod, modes(1, 2, 3, 6, 7)) || !e.destination(a.dst) ||
		!e.zero("the immediate", a.imm) || !e.zero("the rounding mode", a.round) {
		return false
	}
	if a.mod == 1 {
		return e.carryOut(plan{do: planRound, dst: uint8(a.dst), c: uint8(a.c)})
	}
	lanes.Random(&e.sfpu.random, e.sfpu.enabled()) // though nothing is random
	largest := [8]uint32{2: 255, 3: 127, 6: 65535, 7: 32767}[a.mod]
	e.unary(a.dst, a.c, func(v uint32) uint32 { return arith.RoundInteger(v, largest, a.mod&1 != 0) })
	return true
}

func (e *Engine) sfpcast(t *thread, a sfpexexpArgs) bool {
	switch {
	case e.wormhole && a.mod > 1, a.mod > 3:
		return e.nonContractual("mode %d", a.mod)
	case a.mod == 1:
		return e.unsupported("stochastic rounding is not emulated")
	case a.mod == 2:
		return e.unsupported("mode 2: use SFPABS")
	}
	if !e.destination(a.dst) {
		return false
	}
	if a.mod == 3 {
		e.unary(a.dst, a.c, negateMagnitude)
	} else {
		e.unary(a.dst, a.c, arith.IntegerToFP32)
	}
	return true
}

// negateMagnitude converts sign and magnitude to two's complement and back, keeping the sign bit.
func negateMagnitude(v uint32) uint32 {
	if v&signBit == 0 {
		return v
	}
	return signBit | -v
}
