package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

// fp32One is 1 as fp32, signBit the sign of an fp32.
const (
	fp32One = 0x3F800000
	signBit = 0x80000000
)

// arithmetic returns whose arithmetic the chip has.
func (e *Engine) arithmetic() arith.Arch {
	if e.wormhole {
		return arith.Wormhole
	}
	return arith.Blackhole
}

// signs accepts the mode of a multiplication or addition, which on Blackhole flips the signs of operands.
func (e *Engine) signs(mode, last uint32) bool {
	switch {
	case !e.wormhole:
		return e.accept(UnsupportedFunctionality, mode, upTo(last))
	case mode&3 != 0:
		return e.refuse(NonContractualBehavior, "mode %d has a reserved bit set", mode)
	}
	return e.zero("the mode", mode)
}

func (e *Engine) sfpmad(t *thread, a sfpmadArgs) bool {
	if !e.signs(a.mod, 3) || !e.destination(a.dst) {
		return false
	}
	e.multiplyAdd(a.dst, a.a, a.b, a.c, a.mod)
	return true
}

// multiplyAdd computes a times b plus c, with the signs of a and c flipped by bits 0 and 1 of the mode.
func (e *Engine) multiplyAdd(dst, a, b, c, mode uint32) {
	s := &e.sfpu
	e.fmaLanes(dst, &s.l[a], &s.l[b], &s.l[c], mode)
}

// fmaLanes computes x times y plus z, with the signs of x and z flipped by bits 0 and 1 of the mode.
func (e *Engine) fmaLanes(dst uint32, x, y, z *lreg, mode uint32) {
	s := &e.sfpu
	negateX, negateZ := mode&1 != 0, mode&2 != 0
	enabled := s.enabled()
	if enabled == allLanes {
		e.arithmetic().FMALanes(&s.l[dst], x, y, z, negateX, negateZ)
		return
	}
	var result lreg
	e.arithmetic().FMALanes(&result, x, y, z, negateX, negateZ)
	merge(&s.l[dst], &result, enabled)
}

func (e *Engine) sfpadd(t *thread, a sfpaddArgs) bool {
	if !e.signs(a.mod, 3) || !e.destination(a.dst) {
		return false
	}
	if a.a != lregOne && a.b != lregOne {
		return e.refuse(NonContractualBehavior, "neither LReg %d nor LReg %d is LReg %d, the constant 1", a.a, a.b, lregOne)
	}
	if a.a != lregOne {
		a.a, a.b = a.b, a.a
	}
	e.multiplyAdd(a.dst, a.a, a.b, a.c, a.mod)
	return true
}

func (e *Engine) sfpmul(t *thread, a sfpmulArgs) bool {
	if !e.signs(a.mod, 1) || !e.destination(a.dst) {
		return false
	}
	if a.c != lregZero {
		return e.refuse(NonContractualBehavior, "LReg %d is not LReg %d, the constant 0", a.c, lregZero)
	}
	e.multiplyAdd(a.dst, a.a, a.b, a.c, a.mod)
	return true
}

func (e *Engine) sfpmuli(t *thread, a sfpmuliArgs) bool {
	if !e.accept(UnimplementedFunctionality, a.mod, modes(0)) || !e.destination(a.dst) {
		return false
	}
	immediate := broadcast(a.imm << 16)
	e.fmaLanes(a.dst, &immediate, &e.sfpu.l[a.dst], &lreg{}, 0)
	return true
}

func (e *Engine) sfpaddi(t *thread, a sfpaddiArgs) bool {
	if !e.accept(UnimplementedFunctionality, a.mod, modes(0)) || !e.destination(a.dst) {
		return false
	}
	immediate, one := broadcast(a.imm<<16), broadcast(fp32One)
	e.fmaLanes(a.dst, &immediate, &one, &e.sfpu.l[a.dst], 0)
	return true
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
	e.fmaLanes(a.lreg, &slope, &magnitude, &offset, 0)
	for lane := range lanes(s.enabled()) {
		s.l[a.lreg][lane] = s.l[a.lreg][lane]&^signBit | signs[lane]&signBit
	}
	return true
}

// lutThird returns which third of a table of lines a magnitude falls in: below 1, below 2, or above.
func lutThird(magnitude uint32) int {
	switch {
	case magnitude < fp32One:
		return 0
	case magnitude < 0x40000000:
		return 1
	}
	return 2
}

func (e *Engine) sfplutfp32(t *thread, a sfplutfp32Args) bool {
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
	e.fmaLanes(a.dst, &slope, &magnitude, &offset, 0)
	return true
}

// lutSixth returns which sixth of a table of lines a magnitude falls in, of ranges that end at 0.5, 1, 1.5, 2 and 3: the
// register, and how far up in it the coefficient stands.
func lutSixth(magnitude uint32) (third int, shift uint32) {
	third = lutThird(magnitude)
	middle := [3]uint32{0x3F000000, 0x3FC00000, 0x40400000}
	if magnitude >= middle[third] {
		return third, 16
	}
	return third, 0
}

func (e *Engine) sfparecip(t *thread, a sfparecipArgs) bool {
	if !e.destination(a.dst) || !e.zero("the mode", a.mod) || !e.zero("the immediate", a.imm) {
		return false
	}
	e.unary(a.dst, a.c, arith.ApproximateReciprocal)
	return true
}

// unary computes a register from another.
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
	for lane := range lanes(enabled) {
		ld[lane] = f(lc[lane])
	}
}

// reserved refuses modes with bits that mean nothing.
func (e *Engine) reserved(mode uint32, set modeSet) bool {
	if set>>mode&1 == 0 {
		return e.refuse(NonContractualBehavior, "mode %d has a reserved bit set", mode)
	}
	return true
}

func (e *Engine) sfpdivp2(t *thread, a sfpdivp2Args) bool {
	if !e.reserved(a.mod, upTo(1)) || !e.destination(a.dst) {
		return false
	}
	if a.imm > 0x7F && a.imm < 0xF80 {
		return e.refuse(NonContractualBehavior, "an exponent of %#x, which 8 bits don't hold", a.imm)
	}
	s := &e.sfpu
	lc, ld := &s.l[a.c], &s.l[a.dst]
	for lane := range lanes(s.enabled()) {
		v := lc[lane]
		exponent := a.imm & 0xFF
		if old := v >> 23 & 0xFF; a.mod == 1 && old == 0xFF {
			exponent = old
		} else if a.mod == 1 {
			exponent = (old + a.imm) & 0xFF
		}
		ld[lane] = v&0x807FFFFF | exponent<<23
	}
	return true
}

func (e *Engine) sfpexexp(t *thread, a sfpexexpArgs) bool {
	if a.mod&4 != 0 {
		return e.refuse(NonContractualBehavior, "mode %d has a reserved bit set", a.mod)
	}
	if !e.accept(UnimplementedFunctionality, a.mod, modes(0, 1, 2, 10)) || !e.destination(a.dst) {
		return false
	}
	bias := uint32(127)
	if a.mod&1 != 0 {
		bias = 0
	}
	s := &e.sfpu
	lc, ld := &s.l[a.c], &s.l[a.dst]
	enabled := s.enabled()
	var negative uint32
	for lane := range lanes(enabled) {
		v := lc[lane]>>23&0xFF - bias
		ld[lane] = v
		negative |= v >> 31 << lane
	}
	switch a.mod {
	case 2:
		s.cc.set(enabled, negative)
	case 10:
		s.cc.set(enabled, ^negative)
	}
	return true
}

func (e *Engine) sfpexman(t *thread, a sfpexmanArgs) bool {
	if !e.reserved(a.mod, upTo(1)) || !e.destination(a.dst) {
		return false
	}
	hidden := uint32(0x800000)
	if a.mod == 1 {
		hidden = 0
	}
	e.unary(a.dst, a.c, func(v uint32) uint32 { return v&0x7FFFFF | hidden })
	return true
}

// combine replaces bits of a register's value from c by those of the register's own value.
func (e *Engine) combine(dst, c uint32, f func(c, d uint32) uint32) {
	s := &e.sfpu
	lc, ld := &s.l[c], &s.l[dst]
	enabled := s.enabled()
	if enabled == allLanes {
		for lane := range ld {
			ld[lane] = f(lc[lane], ld[lane])
		}
		return
	}
	for lane := range lanes(enabled) {
		ld[lane] = f(lc[lane], ld[lane])
	}
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
		e.combine(a.dst, a.c, func(c, d uint32) uint32 { return c&rest | d&0xFF<<23 })
	case 1:
		e.unary(a.dst, a.c, func(c uint32) uint32 { return c&rest | a.imm<<23 })
	case 2:
		e.combine(a.dst, a.c, func(c, d uint32) uint32 { return c&rest | d&^rest })
	}
	return true
}

func (e *Engine) sfpsetman(t *thread, a sfpsetmanArgs) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, upTo(1)) || !e.destination(a.dst) || !e.zero("the immediate", a.imm) {
		return false
	}
	const rest = 0xFF800000
	if a.mod == 1 { // the immediate, which is 0
		e.unary(a.dst, a.c, func(c uint32) uint32 { return c & rest })
	} else {
		e.combine(a.dst, a.c, func(c, d uint32) uint32 { return c&rest | d&^rest })
	}
	return true
}

func (e *Engine) sfpsetsgn(t *thread, a sfpsetsgnArgs) bool {
	if !e.reserved(a.mod, upTo(1)) || !e.destination(a.dst) {
		return false
	}
	if a.mod == 1 {
		e.unary(a.dst, a.c, func(c uint32) uint32 { return c&^signBit | a.imm<<31 })
		return true
	}
	if !e.zero("the immediate", a.imm) {
		return false
	}
	e.combine(a.dst, a.c, func(c, d uint32) uint32 { return c&^signBit | d&signBit })
	return true
}

func (e *Engine) sfpabs(t *thread, a sfpabsArgs) bool {
	if !e.reserved(a.mod, upTo(1)) || !e.destination(a.dst) {
		return false
	}
	if a.mod == 0 {
		e.unary(a.dst, a.c, func(v uint32) uint32 {
			if v&signBit != 0 {
				return -v
			}
			return v
		})
		return true
	}
	e.unary(a.dst, a.c, func(v uint32) uint32 {
		if v > 0xFF800000 { // a negative NaN stays as it is
			return v
		}
		return v &^ signBit
	})
	return true
}

func (e *Engine) sfpstochrnd(t *thread, a sfpstochrndArgs) bool {
	if !e.accept(UndefinedBehavior, a.mod, upTo(7)|modes(12, 13)) ||
		!e.accept(UnimplementedFunctionality, a.mod, modes(1, 2, 3, 6, 7)) || !e.destination(a.dst) ||
		!e.zero("the immediate", a.imm) || !e.zero("the rounding mode", a.round) {
		return false
	}
	s := &e.sfpu
	for lane := range lanes(s.enabled()) {
		s.random[lane] = nextRandom(s.random[lane]) // also where nothing is random
	}
	largest := [8]uint32{2: 255, 3: 127, 6: 65535, 7: 32767}[a.mod]
	if a.mod == 1 {
		e.unary(a.dst, a.c, arith.RoundBF16)
	} else {
		e.unary(a.dst, a.c, func(v uint32) uint32 { return arith.RoundInteger(v, largest, a.mod&1 != 0) })
	}
	return true
}

func (e *Engine) sfpcast(t *thread, a sfpcastArgs) bool {
	switch {
	case e.wormhole && a.mod > 1, a.mod > 3:
		return e.refuse(NonContractualBehavior, "mode %d", a.mod)
	case a.mod == 1:
		return e.refuse(UnsupportedFunctionality, "stochastic rounding is not emulated")
	case a.mod == 2:
		return e.refuse(UnsupportedFunctionality, "mode 2: use SFPABS")
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

// negateMagnitude turns an integer of sign and magnitude to two's complement and back, with the sign bit kept.
func negateMagnitude(v uint32) uint32 {
	if v&signBit == 0 {
		return v
	}
	return signBit | -v
}
