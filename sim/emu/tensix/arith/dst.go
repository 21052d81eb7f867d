package arith

// DstRow is a row of Dst: 16 data of 16 bits, or one half of 16 data of 32 bits, encoded as the
// register holds them.
type DstRow = [16]uint16

// EncodeDstBF16 returns how Dst holds a bf16: sign, mantissa, exponent.
func EncodeDstBF16(x uint16) uint16 { return x&0x8000 | x&0x7F<<8 | x>>7&0xFF }

// DecodeDstBF16 is the inverse of [EncodeDstBF16].
func DecodeDstBF16(x uint16) uint16 { return x&0x8000 | x&0xFF<<7 | x>>8&0x7F }

// EncodeDstFP16 returns how Dst holds an fp16: sign, mantissa, exponent.
func EncodeDstFP16(x uint16) uint16 { return x&0x8000 | x&0x3FF<<5 | x>>10&0x1F }

// DecodeDstFP16 is the inverse of [EncodeDstFP16].
func DecodeDstFP16(x uint16) uint16 { return x&0x8000 | x&0x1F<<10 | x>>5&0x3FF }

// EncodeDst32 returns how Dst holds an fp32, or an int32 of sign and magnitude: the upper half as a
// bf16.
func EncodeDst32(x uint32) uint32 { return uint32(EncodeDstBF16(uint16(x>>16)))<<16 | x&0xFFFF }

// DecodeDst32 is the inverse of [EncodeDst32].
func DecodeDst32(x uint32) uint32 { return uint32(DecodeDstBF16(uint16(x>>16)))<<16 | x&0xFFFF }

// WidenHalf returns an fp16 in the layout of a Src datum: the exponent from bit 23, not biased
// anew.
func WidenHalf(x uint16) uint32 { return uint32(x&0x8000)<<16 | uint32(x&0x7FFF)<<13 }

// NarrowHalf is the inverse of WidenHalf.
func NarrowHalf(x uint32) uint16 { return uint16(x>>16)&0x8000 | uint16(x>>13)&0x7FFF }

// signMagnitude turns the smallest integer into minus zero, as the engine does.
func signMagnitude(x int32) uint32 {
	if x < 0 {
		return 0x80000000 | uint32(-x)
	}
	return uint32(x)
}

func fromSignMagnitude(x uint32) int32 {
	if x&0x80000000 != 0 {
		return -int32(x & 0x7FFFFFFF)
	}
	return int32(x)
}

// load returns data in fp32 layout.
func (m Math) load(values *[16]uint32, hi, lo *DstRow) {
	switch {
	case m.Wide || m.Int8:
		for c := range values {
			values[c] = uint32(DecodeDstBF16(hi[c]))<<16 | uint32(lo[c])
		}
	case m.A.half():
		for c := range values {
			values[c] = WidenHalf(DecodeDstFP16(hi[c]))
		}
	default:
		for c := range values {
			values[c] = uint32(DecodeDstBF16(hi[c])) << 16
		}
	}
}

// store drops the bits that a narrow Dst has no room for.
func (m Math) store(hi, lo *DstRow, values *[16]uint32) {
	switch {
	case m.Wide || m.Int8:
		for c, v := range values {
			hi[c], lo[c] = EncodeDstBF16(uint16(v>>16)), uint16(v)
		}
	case m.A.half():
		for c, v := range values {
			hi[c] = EncodeDstFP16(NarrowHalf(v))
		}
	default:
		for c, v := range values {
			hi[c] = EncodeDstBF16(uint16(v >> 16))
		}
	}
}
