package arith

import (
	"encoding/binary"
	"math/bits"
)

// Unpack describes how an unpacker brings a datum from L1 to a register.
type Unpack struct {
	Arch     Arch
	In, Out  Format // Out differs from In only for FP32, which may become FP16, TF32 or BF16
	Exp4     bool   // LF8 has 4 exponent bits and 3 mantissa bits instead of 5 and 2
	Unsigned bool   // INT8 has no sign

	// Forced gives all blocks the exponent SharedExponent instead of those in L1.
	Forced         bool
	SharedExponent uint8
}

// Elements converts len(dst) consecutive data of L1 to data of SrcA or SrcB. The first is data[0],
// for formats of 4 or 2 bits from bit shift on. Without Forced, the exponent of dst[i] is
// exponents[(first+i)/16]. Unknown formats give zeros.
func (u *Unpack) Elements(dst []uint32, data []byte, shift int, exponents []byte, first int) {
	switch u.In {
	case FP32:
		u.fp32(dst, data)
	case FP16:
		for i := range dst {
			dst[i] = WidenHalf(binary.LittleEndian.Uint16(data[2*i:]))
		}
	case BF16:
		data = data[:2*len(dst)]
		done := 0
		if blocks := len(dst) / 8; blocks > 0 && haveAVX2() {
			widenBF16AVX2(&dst[0], &data[0], blocks)
			done = 8 * blocks
		}
		for i := done; i < len(dst); i++ {
			dst[i] = uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16
		}
	case INT16:
		for i := range dst {
			dst[i] = uint32(DecodeDstBF16(binary.LittleEndian.Uint16(data[2*i:]))) << 16
		}
	case BFP8, BFP4, BFP2:
		u.blocks(dst, data, shift, exponents, first)
	case LF8:
		for i := range dst {
			dst[i] = WidenHalf(u.lf8(data[i]))
		}
	case INT8:
		for i := range dst {
			dst[i] = WidenHalf(u.int8(data[i]))
		}
	default:
		clear(dst)
	}
}

// DstElements converts len(dst) 32-bit data of L1 to data of a wide Dst.
func (u *Unpack) DstElements(dst []uint32, data []byte) {
	for i := range dst {
		dst[i] = EncodeDst32(binary.LittleEndian.Uint32(data[4*i:]))
	}
}

// fp32 truncates single precision: no conversion of an unpacker rounds.
func (u *Unpack) fp32(dst []uint32, data []byte) {
	for i := range dst {
		v := binary.LittleEndian.Uint32(data[4*i:])
		switch u.Out {
		case FP16:
			v = fp32ToHalf(v)
		case TF32:
			v &= 0xFFFFE000
		case BF16:
			v = FlushDenormal(v) & 0xFFFF0000
		default:
			v = 0
		}
		dst[i] = v
	}
}

// fp32ToHalf truncates to 5 exponent and 10 mantissa bits in the layout of a Src datum. Overflow
// saturates. An exponent that becomes zero keeps its mantissa.
func fp32ToHalf(v uint32) uint32 {
	sign, exponent := v&0x80000000, int32(v>>23&0xFF)-112
	switch {
	case exponent < 0:
		return sign
	case exponent > 31:
		return sign | 31<<23 | 0x7FE000
	}
	return sign | uint32(exponent)<<23 | v&0x7FE000
}

// The largest magnitudes become fp16's largest.
func (u *Unpack) lf8(x byte) uint16 {
	if u.Exp4 {
		sign, exponent, mantissa := uint16(x&0x80)<<8, uint16(x>>3&0xF), uint16(x&7)<<7
		if x&0x7F == 0x7F {
			mantissa |= 0x7F
		}
		if exponent != 0 {
			exponent += 8
		}
		return sign | exponent<<10 | mantissa
	}
	if u.Arch == Blackhole && x&0x7F == 0x7F {
		return uint16(x)<<8 | 0xFF
	}
	return uint16(x) << 8
}

// int8 gives a nonzero integer an exponent, so that the matrix unit doesn't treat it as zero.
func (u *Unpack) int8(x byte) uint16 {
	var sign uint16
	if !u.Unsigned {
		sign = uint16(x & 0x80)
	}
	v := uint16(x) - sign
	if v != 0 {
		v |= 16 << 10
	}
	return v | sign<<8
}

func (u *Unpack) blocks(dst []uint32, data []byte, shift int, exponents []byte, first int) {
	width := u.In.Bits()
	mask := byte(1<<width - 1)
	exponent := u.SharedExponent
	for i := range dst {
		if !u.Forced && (i == 0 || (first+i)%16 == 0) {
			exponent = exponents[(first+i)/16]
		}
		bit := shift + i*width
		dst[i] = uint32(blockDatum(data[bit/8]>>(bit%8)&mask<<(8-width), exponent)) << 16
	}
}

// blockDatum returns the bf16 of a 7-bit magnitude, whose uppermost bit counts 1, times two to the
// exponent. As on the chip, the exponent wraps below zero, and minus zero stands for minus
// infinity.
func blockDatum(x, exponent uint8) uint16 {
	sign, magnitude := uint16(x&0x80)<<8, x<<1
	if magnitude == 0 {
		if sign != 0 {
			return 0xFF80
		}
		return 0
	}
	up := bits.LeadingZeros8(magnitude)
	return sign | uint16(exponent-uint8(up))<<7 | uint16(magnitude<<up&0x7E)
}
