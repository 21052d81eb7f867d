// Package lanes has the inner loops of the vector unit on registers of 32 lanes. Functions change
// enabled lanes only; operands may be the same register. They do eight lanes at a time with AVX2.
package lanes

// Count is the number of lanes.
const Count = 32

// Register is a register of all lanes.
type Register = [Count]uint32

// RowLanes lanes read or write a row of Dst, Rows rows serve all: lane 8r+i has datum 2i, or 2i+1
// in column 1, of row r.
const (
	RowLanes = 8
	Rows     = Count / RowLanes
)

// Block is the rows of Dst that all lanes read or write.
type Block = [Rows][2 * RowLanes]uint16

const signBit = 1 << 31

func bit(mask uint32, lane int) bool { return mask>>(lane&31)&1 != 0 }

func each(d, c *Register, enabled uint32, f func(lane int, v uint32) uint32) {
	for lane, v := range c {
		if v = f(lane, v); bit(enabled, lane) {
			d[lane] = v
		}
	}
}

func at(lane int, column uint32) (row, i int) {
	return lane / RowLanes, lane%RowLanes*2 + int(column&1)
}

// Fill sets all lanes to v.
func Fill(d *Register, v uint32) { Bits(d, d, 0, 0, v, 1<<Count-1) }

// Bits sets d to the bits keep of c and own of d, then flips the bits flip.
func Bits(d, c *Register, keep, own, flip, enabled uint32) {
	if haveAVX2() {
		bitsAVX2(d, c, keep, own, flip, enabled)
		return
	}
	each(d, c, enabled, func(lane int, v uint32) uint32 { return (v&keep | d[lane]&own) ^ flip })
}

// And sets d to b AND c.
func And(d, b, c *Register, enabled uint32) {
	if haveAVX2() {
		andAVX2(d, b, c, enabled)
		return
	}
	each(d, b, enabled, func(lane int, v uint32) uint32 { return v & c[lane] })
}

// Or sets d to b OR c.
func Or(d, b, c *Register, enabled uint32) {
	if haveAVX2() {
		orAVX2(d, b, c, enabled)
		return
	}
	each(d, b, enabled, func(lane int, v uint32) uint32 { return v | c[lane] })
}

// Xor sets d to b XOR c.
func Xor(d, b, c *Register, enabled uint32) {
	if haveAVX2() {
		xorAVX2(d, b, c, enabled)
		return
	}
	each(d, b, enabled, func(lane int, v uint32) uint32 { return v ^ c[lane] })
}

// Exponents sets d to the fp32 exponents of c, less bias. It returns the lanes, enabled or not,
// with a negative result.
func Exponents(d, c *Register, bias, enabled uint32) (negative uint32) {
	if haveAVX2() {
		return exponentsAVX2(d, c, bias, enabled)
	}
	for lane, v := range c {
		v = v>>23&0xFF - bias
		negative |= v >> 31 << lane
		if bit(enabled, lane) {
			d[lane] = v
		}
	}
	return negative
}

// Shift shifts c left by the lowest five bits of by, or right by those of -by if negative.
func Shift(d, c, by *Register, arithmetic bool, enabled uint32) {
	if haveAVX2() {
		shiftAVX2(d, c, by, arithmetic, enabled)
		return
	}
	each(d, c, enabled, func(lane int, v uint32) uint32 {
		switch n := int32(by[lane]); {
		case n >= 0:
			return v << (n & 31)
		case arithmetic:
			return uint32(int32(v) >> (-n & 31))
		default:
			return v >> (-n & 31)
		}
	})
}

// Add sets d to a+b, or a-b if minus. Its result is as that of Exponents.
func Add(d, a, b *Register, minus bool, enabled uint32) (negative uint32) {
	if haveAVX2() {
		return addAVX2(d, a, b, minus, enabled)
	}
	for lane, v := range a {
		if minus {
			v -= b[lane]
		} else {
			v += b[lane]
		}
		negative |= v >> 31 << lane
		if bit(enabled, lane) {
			d[lane] = v
		}
	}
	return negative
}

// Sort orders sign-and-magnitude numbers. Disabled lanes get x and y.
func Sort(greater, less, x, y *Register, enabled uint32) {
	if haveAVX2() {
		sortAVX2(greater, less, x, y, enabled)
		return
	}
	for lane, v := range x {
		w := y[lane]
		if bit(enabled, lane) && int32(v^uint32(int32(v)>>31)>>1) < int32(w^uint32(int32(w)>>31)>>1) {
			v, w = w, v
		}
		greater[lane], less[lane] = v, w
	}
}

// RoundBF16 rounds c to bf16, ties away from zero, as deterministic SFPSTOCHRND does. Denormals
// become zero, NaNs infinities.
func RoundBF16(d, c *Register, enabled uint32) {
	if haveAVX2() {
		roundBF16AVX2(d, c, enabled)
		return
	}
	each(d, c, enabled, func(_ int, v uint32) uint32 {
		switch v >> 23 & 0xFF {
		case 0:
			return 0
		case 255:
			return v & 0xFF800000
		default:
			return (v + 0x8000) & 0xFFFF0000
		}
	})
}

// Random steps each lane's linear feedback shift register.
func Random(d *Register, enabled uint32) {
	if haveAVX2() {
		randomAVX2(d, enabled)
		return
	}
	each(d, d, enabled, func(_ int, v uint32) uint32 { return ^(v>>31^v>>21^v>>1^v)<<31 | v>>1 })
}

// Test returns the lanes whose sign is set, and the lanes that are zero.
func Test(c *Register) (negative, zero uint32) {
	if haveAVX2() {
		return testAVX2(c)
	}
	for lane, v := range c {
		negative |= v >> 31 << lane
		if v == 0 {
			zero |= 1 << lane
		}
	}
	return negative, zero
}

// LoadBF16 sets d to a block's bf16.
func LoadBF16(d *Register, from *Block, column, enabled uint32) {
	if haveAVX2() {
		loadBF16AVX2(d, from, column, enabled)
		return
	}
	each(d, d, enabled, func(lane int, _ uint32) uint32 {
		r, i := at(lane, column)
		return decode(uint32(from[r][i]) << 16)
	})
}

// Load32 sets d to 32-bit data of two blocks of halves.
func Load32(d *Register, high, low *Block, column, enabled uint32) {
	if haveAVX2() {
		load32AVX2(d, high, low, column, enabled)
		return
	}
	each(d, d, enabled, func(lane int, _ uint32) uint32 {
		r, i := at(lane, column)
		return decode(uint32(high[r][i])<<16) | uint32(low[r][i])
	})
}

// decode returns an fp32's upper half from Dst's encoding.
func decode(v uint32) uint32 { return v&signBit | v<<7&0x7F800000 | v>>8&0x7F0000 }

func encode(v uint32) uint32 { return v&signBit | v<<8&0x7F000000 | v>>7&0xFF0000 }

func flush(v uint32) uint32 {
	if v&0x7F800000 == 0 {
		return v & signBit
	}
	return v
}

// StoreBF16 stores the upper halves of fp32 to a block. Denormals become zero.
func StoreBF16(to *Block, c *Register, column, enabled uint32) {
	if haveAVX2() {
		storeBF16AVX2(to, c, column, enabled)
		return
	}
	for lane, v := range c {
		if bit(enabled, lane) {
			r, i := at(lane, column)
			to[r][i] = uint16(encode(flush(v)) >> 16)
		}
	}
}

// Store32 stores 32-bit data to two blocks of halves. Denormals become zero if flushed.
func Store32(high, low *Block, c *Register, flushed bool, column, enabled uint32) {
	if haveAVX2() {
		store32AVX2(high, low, c, flushed, column, enabled)
		return
	}
	for lane, v := range c {
		if !bit(enabled, lane) {
			continue
		}
		if flushed {
			v = flush(v)
		}
		r, i := at(lane, column)
		high[r][i], low[r][i] = uint16(encode(v)>>16), uint16(v)
	}
}

// EncodeRow encodes the upper halves of fp32 for Dst. Denormals become unsigned zero if flushed.
func EncodeRow(to *[2 * RowLanes]uint16, from *[2 * RowLanes]uint32, flushed bool) {
	if haveAVX2() {
		encodeRowAVX2(to, from, flushed)
		return
	}
	for i, v := range from {
		if flushed && v&0x7F800000 == 0 {
			v = 0
		}
		to[i] = uint16(encode(v) >> 16)
	}
}
