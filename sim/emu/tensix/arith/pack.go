package arith

import "encoding/binary"

// Relu is what a packer does to negative and small numbers.
type Relu uint8

const (
	ReluOff  Relu = iota
	ReluZero      // negative numbers become zero
	ReluMin       // and so do numbers up to the threshold
	ReluMax       // negative numbers become zero, numbers beyond the threshold become the threshold
)

// Pack describes how a packer brings a datum from Dst to L1: read, apply ReLU, convert, and gather
// blocks or accumulate.
type Pack struct {
	// Mid is the intermediate format; BFP8 and BFP8A mean bf16 and fp16 rounded to 6 mantissa bits.
	Mid  Format
	Out  Format
	Wide bool
	// Round10 reads a narrow Dst as bf16 where Mid is FP16; every Wide read to FP16 needs it.
	// Blackhole only.
	Round10 bool
	// Unsigned clamps a wide Dst to 0 and 255 where Mid is INT8.
	Unsigned bool
	// Threshold has the upper 16 bits of an fp32 where Mid is FP32, and Mid's format otherwise.
	Relu      Relu
	Threshold uint16
	// Accumulate adds to the data in L1, for Out FP32, FP16 and BF16.
	Accumulate bool
}

// Row converts a row of Dst for [Pack.Store], or, as bf16, for [Format.StoreBlock]. lo is the row's
// lower half if Wide.
func (p *Pack) Row(values *Row, hi, lo *DstRow) {
	p.read(values, hi, lo)
	if p.Relu != ReluOff {
		for c, v := range values {
			values[c] = p.relu(v)
		}
	}
	if p.converts() {
		for c, v := range values {
			values[c] = p.convert(v)
		}
	}
}

func (p *Pack) read(values *Row, hi, lo *DstRow) {
	switch {
	case p.Mid == BF16 && haveAVX2():
		if !p.Wide {
			lo = nil
		}
		readBF16AVX2(values, hi, lo)
	case p.Wide:
		for c := range values {
			values[c] = p.readWide(hi[c], lo[c])
		}
	default:
		for c := range values {
			values[c] = p.readNarrow(hi[c])
		}
	}
}

func (p *Pack) converts() bool {
	switch p.Mid {
	case FP16:
		return p.Wide || p.Out != FP16
	case BF16, BFP8:
		return p.Out == FP32
	}
	return p.Mid != p.Out
}

// An fp32 for FP16 stays a tf32 in bits 18 to 0, because ReLU comes before its exponent is
// narrowed.
func (p *Pack) readWide(hi, lo uint16) uint32 {
	if p.Mid == INT16 {
		return uint32(hi)
	}
	v := uint32(DecodeDstBF16(hi))<<16 | uint32(lo)
	switch p.Mid {
	case BF16:
		return flushNarrow((nanToInf(v) + 0x8000) >> 16)
	case BFP8:
		return flushNarrow((nanToInf(v)>>16 + 1) &^ 1)
	case FP16:
		v = (nanToInf(v) + 0x1000) >> 13
		if v&0x3FC00 == 0 {
			return 0
		}
	case INT8:
		return p.clampInt8(v)
	}
	return v
}

func (p *Pack) clampInt8(v uint32) uint32 {
	switch {
	case !p.Unsigned:
		return v>>24&0x80 | min(v&0x7FFFFFFF, 127)
	case v&0x80000000 != 0:
		return 0
	}
	return min(v, 255)
}

func nanToInf(v uint32) uint32 {
	if v&0x7FFFFFFF > 0x7F800000 {
		return v&0x80000000 | 0x7F800000
	}
	return v
}

func flushNarrow(v uint32) uint32 {
	if v&0x7F80 == 0 {
		return 0
	}
	return v
}

func (p *Pack) readNarrow(x uint16) uint32 {
	switch p.Mid {
	case FP16:
		if p.Round10 {
			return bf16ToHalf(uint32(DecodeDstBF16(x)))
		}
		return flushHalf(uint32(DecodeDstFP16(x)))
	case BFP8A:
		v := uint32(DecodeDstFP16(x))
		if v&0x7FFF > 0x7FF7 { // would round to a larger exponent than there is
			v = v&0x8000 | 0x7FF0
		}
		return flushHalf((v + 8) &^ 15)
	case BF16, BFP8:
		v := uint32(DecodeDstBF16(x))
		if v&0x7FFF > 0x7F80 {
			v = v&0x8000 | 0x7F80
		}
		v = flushNarrow(v)
		if p.Mid == BFP8 {
			v = (v + 1) &^ 1
		}
		return v
	}
	return uint32(x)
}

// bf16ToHalf saturates. An exponent that becomes zero keeps its mantissa.
func bf16ToHalf(v uint32) uint32 {
	return halfOf(v>>15, int32(v>>7&0xFF)-112, v&0x7F<<3)
}

func halfOf(sign uint32, exponent int32, mantissa uint32) uint32 {
	switch {
	case exponent < 0:
		return sign << 15
	case exponent > 31:
		return sign<<15 | 0x7FFF
	}
	return sign<<15 | uint32(exponent)<<10 | mantissa
}

func flushHalf(v uint32) uint32 {
	if v&0x7C00 == 0 {
		return 0
	}
	return v
}

func (p *Pack) relu(v uint32) uint32 {
	threshold := uint32(p.Threshold)
	sign := uint32(0x8000)
	var coarse int // lower bits that a comparison with the threshold as maximum ignores
	switch {
	case p.Mid == FP32:
		threshold, sign, coarse = threshold<<16, 0x80000000, 13
	case p.Mid == INT32:
		sign = 0x80000000
	case p.Mid == FP16 && p.Wide:
		threshold, sign = threshold<<3, 0x40000
	}
	if v&sign != 0 {
		v = 0
	}
	switch {
	case p.Relu == ReluMin && v <= threshold:
		return 0
	case p.Relu == ReluMax && v>>coarse > threshold>>coarse:
		return threshold
	}
	return v
}

func (p *Pack) convert(v uint32) uint32 {
	if p.Mid == FP16 && p.Wide {
		v = halfOf(v>>18, int32(v>>10&0xFF)-112, v&0x3FF)
	}
	switch {
	case p.Mid == FP16 && p.Out == FP32:
		return halfToFP32(v)
	case p.Mid == FP16 && p.Out == BF16, p.Mid == BFP8A && p.Out == BFP8:
		if v&0x7C00 == 0 {
			return 0
		}
		return v&0x8000 | (v&0x7FFF>>3 + 112<<7)
	case p.Mid == FP16 && p.Out == LF8:
		return halfToLF8(v)
	case p.Mid == FP32 && p.Out == FP16:
		return halfOf(v>>31, int32(v>>23&0xFF)-112, v>>13&0x3FF)
	case p.Mid == FP32 && p.Out.BFP():
		return flushNarrow(v >> 16)
	case (p.Mid == BF16 || p.Mid == BFP8) && p.Out == FP32:
		return v << 16
	}
	return v
}

// halfToFP32 keeps an exponent of zero, so the mantissa becomes that of a denormal.
func halfToFP32(v uint32) uint32 {
	if v&0x7C00 != 0 {
		return v&0x8000<<16 | (v&0x7FFF+112<<10)<<13
	}
	return v&0x8000<<16 | v&0x3FF<<13
}

// halfToLF8 cuts to 4 exponent bits and 3 mantissa bits, saturated.
func halfToLF8(v uint32) uint32 {
	sign, exponent := v>>15&1<<7, v>>10&0x1F
	switch {
	case exponent <= 8:
		return sign
	case exponent >= 24:
		return sign | 0x7F
	}
	return sign | (exponent-8)<<3 | v&0x3FF>>7
}

// Store writes data of [Pack.Row] to L1, for formats without shared exponents.
func (p *Pack) Store(l1 []byte, values []uint32) {
	switch p.Out.Bits() {
	case 32:
		for i, v := range values {
			at := l1[4*i:]
			if p.Accumulate {
				v = AccumulateFP32(binary.LittleEndian.Uint32(at), v)
			}
			binary.LittleEndian.PutUint32(at, v)
		}
	case 16:
		if !p.Accumulate && len(values)%8 == 0 && len(values) > 0 && haveAVX2() {
			l1 = l1[:2*len(values)]
			store16AVX2(&l1[0], &values[0], len(values)/8)
			return
		}
		for i, v := range values {
			at := l1[2*i:]
			v := uint16(v)
			switch {
			case p.Accumulate && p.Out == BF16:
				v = AccumulateBF16(binary.LittleEndian.Uint16(at), v)
			case p.Accumulate:
				v = AccumulateFP16(binary.LittleEndian.Uint16(at), v)
			}
			binary.LittleEndian.PutUint16(at, v)
		}
	case 8:
		for i, v := range values {
			l1[i] = byte(v)
		}
	}
}

// StoreBlock writes 16 bf16 data to L1 in a block format, and returns their shared exponent. Data
// are rounded to 7 bits of magnitude, then truncated to a narrower format.
func (f Format) StoreBlock(l1 []byte, values *Row) (exponent uint8) {
	for _, v := range values {
		exponent = max(exponent, uint8(v>>7))
	}
	width := f.Bits()
	clear(l1[:2*width])
	for i, v := range values {
		bit := i * width
		l1[bit/8] |= blockMagnitude(v, exponent, width) << (bit % 8)
	}
	return exponent
}

// blockMagnitude drops the sign of zero: minus zero would stand for minus infinity.
func blockMagnitude(v uint32, exponent uint8, width int) byte {
	magnitude := v & 0x7F
	if v&0x7F80 != 0 {
		magnitude |= 0x80
	}
	down := exponent - uint8(v>>7)
	if down >= 8 {
		return 0
	}
	magnitude = min((magnitude+1<<down)>>(down+1), 0x7F) >> (8 - width)
	if magnitude != 0 {
		magnitude |= v >> 15 & 1 << (width - 1)
	}
	return byte(magnitude)
}
