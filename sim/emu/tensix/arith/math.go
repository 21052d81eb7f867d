package arith

import "math/bits"

// Math describes one pass of the matrix unit.
type Math struct {
	Arch Arch
	A, B Format // formats of SrcA and SrcB; A decides whether exponents have 5 or 8 bits
	Wide bool   // Dst of 32 bits
	Int8 bool   // 8-bit integers, accumulated in Dst as integers of 32 bits; A and B are INT8
	// Phase is the fidelity phase, 0 to 3. Bit 0 selects the lower mantissa bits of SrcA, bit 1
	// those of SrcB.
	Phase uint8
	// KeepDenormalsB makes elementwise instructions take a datum of SrcB with exponent 0 for a
	// number.
	KeepDenormalsB bool
}

func (m Math) half() bool { return m.A.half() && !m.Int8 }

func (m Math) wide() bool { return m.Wide || m.Int8 }

// productBias removes one bias from the sum of two exponents, moves 5-bit exponents to the bias of
// a wide Dst, and scales down a phase's lower mantissa bits.
func (m Math) productBias() int32 {
	var bias int32
	switch {
	case !m.half():
		bias = -127
	case m.wide():
		bias = 127 - 30
	default:
		bias = -15
	}
	if m.Phase&1 != 0 {
		bias -= 5
	}
	if m.Phase&2 != 0 {
		bias -= 7
	}
	return bias
}

// term is an addend of Dst; its mantissa has 23 fractional bits.
type term struct {
	negative uint32 // 1 if so
	exponent int32
	mantissa uint32
}

// Ties round away from zero, or towards zero if the term is negative.
func (t term) alignTo(exponent int32) uint32 {
	diff := uint32(exponent - t.exponent)
	switch {
	case diff == 0:
		return t.mantissa
	case diff < 31:
		return (t.mantissa + 1<<(diff-1) - t.negative) >> diff
	}
	return 0
}

func (m Math) accumulate(s0, s1 term, dst uint32) uint32 {
	d := term{negative: 0, exponent: int32(dst >> 23 & 0xFF)}
	if d.exponent != 0 {
		d.mantissa = dst&0x7FFFFF | 0x800000
	}
	exponent := max(s0.exponent, s1.exponent, d.exponent)
	if exponent <= 0 {
		return 0
	}
	m0, m1, md := s0.alignTo(exponent), s1.alignTo(exponent), d.alignTo(exponent)
	if !m.wide() { // ten fractional bits are left
		m0 = (m0 + 1<<12 - s0.negative) &^ 0x1FFF
		m1 = (m1 + 1<<12 - s1.negative) &^ 0x1FFF
		md = (md + 1<<12) &^ 0x1FFF
	}
	sum := signed(md, dst>>31) + signed(m0, s0.negative) + signed(m1, s1.negative)
	if sum == 0 {
		return 0
	}
	sign := uint32(sum) >> 31
	if sum < 0 {
		sum = -sum
	}
	return m.normalise(sign, exponent, uint32(sum))
}

func signed(x, negative uint32) int32 { return (int32(x) ^ -int32(negative)) + int32(negative) }

func (m Math) normalise(sign uint32, exponent int32, sum uint32) uint32 {
	shift := bits.LeadingZeros32(sum) - 8 // to the left, for 23 fractional bits
	if m.Arch == Wormhole && sign == 1 && sum == 1 {
		shift = -4 // Wormhole counts the sign bits of minus one, which are all there are, and wraps
	}
	exponent -= int32(shift)
	var drop int // mantissa bits that a narrow Dst doesn't have
	switch {
	case m.wide():
	case m.half():
		drop = 13
	default:
		drop = 16
	}
	if shift -= drop; shift < 0 {
		sum = (sum + 1<<(-shift-1)) >> -shift
	} else {
		sum <<= shift
	}
	sum <<= drop
	if sum&0x1000000 != 0 {
		exponent++
	}
	mantissa := sum & 0x7FFFFF
	switch {
	case exponent <= 0:
		return 0
	case m.half() && !m.wide():
		if exponent >= 32 { // there is no infinity: saturate
			return sign<<31 | 31<<23 | 0x3FF<<13
		}
	case exponent >= 255:
		return sign<<31 | 255<<23
	}
	return sign<<31 | uint32(exponent)<<23 | mantissa
}
