package arith

import "math/bits"

// Operations of the vector unit in one lane, beside FMA. Numbers are fp32 unless said otherwise.

// FlushDenormal returns zero of the same sign for an fp32 with exponent 0, as SFPSTORE does.
func FlushDenormal(v uint32) uint32 {
	if v&0x7F800000 == 0 {
		return v & 0x80000000
	}
	return v
}

// CutFP16 truncates an fp32 to fp16, as SFPSTORE does. Overflow saturates; results below the normal
// numbers are zero.
func CutFP16(v uint32) uint16 {
	sign := uint16(v>>16) & 0x8000
	switch exponent := int32(v>>23&0xFF) - 112; {
	case exponent <= 0:
		return sign
	case exponent > 31:
		return sign | 0x7FFF
	default:
		return sign | uint16(exponent)<<10 | uint16(v>>13)&0x3FF
	}
}

// WidenFP16 widens an fp16, as SFPLOAD does. An exponent of zero stays zero, so the mantissa
// becomes that of a denormal.
func WidenFP16(v uint16) uint32 { return halfToFP32(uint32(v)) }

// TotalOrder returns an integer that orders sign-and-magnitude numbers as SFPSWAP, SFPLE, SFPGT and
// GMPOOL do: minus zero below zero, NaNs outermost.
func TotalOrder(v uint32) int32 { return int32(v ^ uint32(int32(v)>>31)>>1) }

// RoundInteger rounds to an integer of sign and magnitude, ties away from zero, as deterministic
// SFPSTOCHRND does. The magnitude saturates at largest. The sign is dropped unless signed.
func RoundInteger(v, largest uint32, signed bool) uint32 {
	var sign uint32
	if signed {
		sign = v & 0x80000000
	}
	exponent := int32(v>>23&0xFF) - 127
	switch {
	case exponent < -1:
		return 0
	case exponent >= 16:
		return sign | largest
	}
	m := uint64(v&0x7FFFFF|0x800000) << (exponent + 1) // 24 fractional bits
	magnitude := min(uint32((m+1<<23)>>24), largest)
	if magnitude == 0 {
		return 0
	}
	return sign | magnitude
}

// IntegerToFP32 returns an integer of sign and magnitude as fp32, rounded to the nearest even, as
// SFPCAST does.
func IntegerToFP32(v uint32) uint32 {
	sign, m := v&0x80000000, v&0x7FFFFFFF
	if m == 0 {
		return sign
	}
	zeros := uint32(bits.LeadingZeros32(m))
	m <<= zeros
	f := (157-zeros)<<23 + m>>8 // the leading one raises the exponent
	if m&0x80 != 0 && m&0x17F != 0 {
		f++
	}
	return sign | f
}

// LutCoefficient8 widens a coefficient of SFPLUT in the lower 8 bits: sign, 3 bits of negated
// exponent, 4 bits of mantissa. All ones mean zero.
func LutCoefficient8(x uint32) uint32 {
	x &= 0xFF
	if x == 0xFF {
		return 0
	}
	return x>>7<<31 | (127-x>>4&7)<<23 | x&0xF<<19
}

// LutCoefficient16 widens a coefficient of SFPLUTFP32 in the lower 16 bits: an fp16 whose largest
// exponent means zero.
func LutCoefficient16(x uint32) uint32 {
	exponent := x >> 10 & 0x1F
	if exponent == 31 {
		exponent = 0
	} else {
		exponent += 112
	}
	return x&0x8000<<16 | exponent<<23 | x&0x3FF<<13
}
