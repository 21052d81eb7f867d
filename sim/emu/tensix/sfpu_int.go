package tensix

import (
	"math/bits"

	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"
)

func (e *Engine) sfpiadd(t *thread, a sfpdivp2Args) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, modes(0, 1, 2, 4, 5, 6, 8, 9, 10)) || !e.destination(a.dst) {
		return false
	}
	p := plan{do: planAdd, dst: uint8(a.dst), c: uint8(a.c), x: a.mod}
	if a.mod&1 != 0 {
		p.k = e.sfpu.constant(a.immediate())
	}
	return e.carryOut(p)
}

func (a *sfpdivp2Args) immediate() uint32 { return uint32(int32(a.imm<<20) >> 20) }

func (e *Engine) sfpshft(t *thread, a sfpdivp2Args) bool {
	set := modes(0, 1)
	if !e.wormhole {
		set = modes(0, 1, 2, 3, 5, 7)
	}
	if !e.accept(NonContractualBehavior, a.mod, set) || !e.destination(a.dst) {
		return false
	}
	p := plan{do: planShift, dst: uint8(a.dst), b: uint8(a.dst), c: uint8(a.c), x: a.mod & 2}
	if a.mod&4 != 0 {
		p.b = p.c
	}
	if a.mod&1 != 0 {
		p.k = e.sfpu.constant(a.immediate())
	} else if !e.zero("the immediate", a.imm) {
		return false
	}
	return e.carryOut(p)
}

func (e *Engine) sfpshft2(t *thread, a sfpdivp2Args) bool {
	if !e.accept(UndefinedBehavior, a.mod, upTo(6)) || !e.accept(UnsupportedFunctionality, a.mod, modes(3, 4, 5, 6)) {
		return false
	}
	if e.wormhole && a.mod == 4 {
		return e.unsupported("mode 4 (SUBVEC_SHFLSHR1) doesn't work on Wormhole")
	}
	if !e.destination(a.dst) {
		return false
	}
	p := plan{do: planShift, dst: uint8(a.dst), b: uint8(a.imm & 15), c: uint8(a.c)}
	switch {
	case a.mod == 6: // the immediate also names what is shifted, by its low bits (tt-isa-documentation SFPSHFT2.md)
		p.k = e.sfpu.constant(a.immediate())
	case a.mod != 5:
		return e.zero("the immediate", a.imm) && e.shiftLanes(a.dst, a.c, a.mod == 3)
	case a.imm >= 16:
		return e.unsupported("there is no LReg %d", a.imm)
	}
	return e.carryOut(p)
}

// shiftLanes moves each row up by one lane. The lowest gets the highest if rotate, else zero.
func (e *Engine) shiftLanes(dst, c uint32, rotate bool) bool {
	s := &e.sfpu
	from := s.l[c] // a copy: dst may be c
	for lane := range each(s.enabled()) {
		var v uint32
		switch {
		case lane%rowLanes != 0:
			v = from[lane-1]
		case rotate:
			v = from[lane+rowLanes-1]
		}
		s.l[dst][lane] = v
	}
	return true
}

// Blackhole's immediate may name a second register instead of the destination.
func (e *Engine) second(mode, dst, immediate uint32) (b uint32, ok bool) {
	if mode == 1 && !e.wormhole {
		return immediate, true
	}
	return dst, e.zero("the mode", mode) && e.zero("the immediate", immediate)
}

func (e *Engine) sfpand(t *thread, a sfpandArgs) bool {
	b, ok := e.second(a.mod, a.dst, a.imm)
	return ok && e.bitwise(a.dst, b, a.c, lanes.And)
}

func (e *Engine) sfpor(t *thread, a sfpandArgs) bool {
	b, ok := e.second(a.mod, a.dst, a.imm)
	return ok && e.bitwise(a.dst, b, a.c, lanes.Or)
}

func (e *Engine) sfpxor(t *thread, a sfpnotArgs) bool {
	return e.bitwise(a.dst, a.dst, a.c, lanes.Xor)
}

func (e *Engine) sfpnot(t *thread, a sfpnotArgs) bool {
	if !e.destination(a.dst) {
		return false
	}
	return e.bits(a.dst, a.c, allBits, 0, allBits)
}

func (e *Engine) bitwise(dst, b, c uint32, f func(d, b, c *lreg, enabled uint32)) bool {
	if !e.destination(dst) {
		return false
	}
	s := &e.sfpu
	f(&s.l[dst], &s.l[b], &s.l[c], s.enabled())
	return true
}

func (e *Engine) sfplz(t *thread, a sfpexexpArgs) bool {
	if !e.withoutBits(a.mod, 1) || !e.accept(UnimplementedFunctionality, a.mod, upTo(4)) || !e.destination(a.dst) {
		return false
	}
	mask := ^uint32(0)
	if a.mod&4 != 0 {
		mask = ^uint32(signBit)
	}
	s := &e.sfpu
	lc, ld := &s.l[a.c], &s.l[a.dst]
	enabled := s.enabled()
	var nonzero uint32
	for lane := range each(enabled) {
		v := lc[lane] & mask
		ld[lane] = uint32(bits.LeadingZeros32(v))
		if v != 0 {
			nonzero |= 1 << lane
		}
	}
	if a.mod&2 != 0 {
		s.cc.set(enabled, nonzero)
	}
	return true
}

func (e *Engine) sfpmul24(t *thread, a sfpmadArgs) bool {
	if !e.withoutBits(a.mod, 2) || !e.accept(UnsupportedFunctionality, a.mod, upTo(1)) || !e.destination(a.dst) {
		return false
	}
	if a.c != lregZero {
		return e.nonContractual("LReg %d is not LReg %d, the constant 0", a.c, lregZero)
	}
	const mask = 1<<23 - 1
	s := &e.sfpu
	la, lb, ld := &s.l[a.a], &s.l[a.b], &s.l[a.dst]
	for lane := range each(s.enabled()) {
		product := uint64(la[lane]&mask) * uint64(lb[lane]&mask)
		if a.mod == 1 { // the upper half
			product >>= 23
		}
		ld[lane] = uint32(product) & mask
	}
	return true
}
