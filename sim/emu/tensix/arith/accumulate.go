package arith

import "math"

// AccumulateFP32 adds an fp32 to one in L1, as a packer does. Denormals become zero, every NaN
// 0x7FC00000.
func AccumulateFP32(l1, v uint32) uint32 {
	sum := math.Float32bits(math.Float32frombits(FlushDenormal(l1)) + math.Float32frombits(FlushDenormal(v)))
	if sum&0x7FFFFFFF > 0x7F800000 {
		return 0x7FC00000
	}
	return FlushDenormal(sum)
}

// AccumulateBF16 adds a bf16 to one in L1, as a packer does. Denormals become zero. A NaN counts as
// a huge number, in L1 as the largest float64.
func AccumulateBF16(l1, v uint16) uint16 {
	if l1^v == 0x8000 && l1&0x7FFF == 0x7F80 {
		return 0x7FC0
	}
	x, y := wideBF16(l1), wideBF16(v)
	if l1&0x7FFF > 0x7F80 {
		x = math.Copysign(math.MaxFloat64, x)
	}
	sum := math.Float64bits(x + y)
	sign, exponent, mantissa := uint16(sum>>48)&0x8000, int(sum>>52&0x7FF)-1023+127, sum&(1<<52-1)
	switch {
	case exponent <= 0:
		return sign
	case exponent >= 255:
		return sign | 0x7F80
	}
	const drop = 52 - 7
	return sign | uint16(uint64(exponent)<<7+(mantissa+1<<(drop-1)-1+mantissa>>drop&1)>>drop)
}

// wideBF16 takes the largest exponent, of NaNs too, for an ordinary one.
func wideBF16(x uint16) float64 {
	sign := uint64(x&0x8000) << 48
	switch {
	case x&0x7F80 == 0:
		return math.Float64frombits(sign)
	case x&0x7FFF == 0x7F80:
		return math.Float64frombits(sign | 0x7FF<<52)
	}
	return math.Float64frombits(sign | (uint64(x>>7&0xFF)-127+1023)<<52 | uint64(x&0x7F)<<(52-7))
}

// AccumulateFP16 adds an fp16 to one in L1, as a packer does. The format has no infinities:
// overflow saturates, as do differences too small for a normal number.
func AccumulateFP16(l1, v uint16) uint16 {
	sum := math.Float32bits(math.Float32frombits(wideFP16(l1)) + math.Float32frombits(wideFP16(v)))
	sign := uint16(sum>>16) & 0x8000
	if sum&0x7FFFFFFF == 0 {
		if l1>>10&0x1F >= 30 { // the chip overflows although nothing is left
			return sign | 0x7FFF
		}
		return sign
	}
	exponent, mantissa := int32(sum>>23&0xFF)-112, sum&0x7FFFFF
	switch {
	case exponent < 0:
		return sign | 0x7FFF
	case exponent == 0:
		return sign
	}
	const drop = 23 - 10
	packed := uint32(exponent)<<10 + (mantissa+1<<(drop-1)-1+mantissa>>drop&1)>>drop
	return sign | uint16(min(packed, 0x7FFF))
}

func wideFP16(x uint16) uint32 {
	sign := uint32(x&0x8000) << 16
	if x&0x7C00 == 0 {
		return sign
	}
	return sign | (uint32(x&0x7FFF)+112<<10)<<13
}
