// Package lanes is the inner loops of the vector unit: what an instruction does to a register of 32
// lanes. Each function changes the lanes of a mask only, and its operands may be the same register.
// Processors with AVX2 do eight lanes at a time, others what the plain Go functions, whose names
// end in Go, say.
package lanes

// Count is the number of lanes.
const Count = 32

// Register is a register of all lanes.
type Register = [Count]uint32

// RowLanes is how many lanes read or write a row of Dst, and Rows how many rows all lanes do: lane
// 8r+i has datum 2i, or 2i+1 in column 1, of row r.
const (
	RowLanes = 8
	Rows     = Count / RowLanes
)

// Block is the rows of Dst that all lanes read or write.
type Block = [Rows][2 * RowLanes]uint16

const signBit = 1 << 31

// bit reports whether a mask has a lane.
func bit(mask uint32, lane int) bool { return mask>>(lane&31)&1 != 0 }

// each sets d to what f makes of a datum of c.
func each(d, c *Register, enabled uint32, f func(lane int, v uint32) uint32) {
	for lane, v := range c {
		if v = f(lane, v); bit(enabled, lane) {
			d[lane] = v
		}
	}
}

// at returns where a lane's datum is in a block.
func at(lane int, column uint32) (row, i int) {
	return lane / RowLanes, lane%RowLanes*2 + int(column&1)
}

// Fill sets all lanes to v.
func Fill(d *Register, v uint32) { Bits(d, d, 0, 0, v, 1<<Count-1) }

// Bits sets d to the bits keep of c and the bits own of d itself, and flips the bits flip of that.
func Bits(d, c *Register, keep, own, flip, enabled uint32) {
	if haveAVX2() {
		bitsAVX2(d, c, keep, own, flip, enabled)
	} else {
		bitsGo(d, c, keep, own, flip, enabled)
	}
}

func bitsGo(d, c *Register, keep, own, flip, enabled uint32) {
	each(d, c, enabled, func(lane int, v uint32) uint32 { return (v&keep | d[lane]&own) ^ flip })
}

// And sets d to the bits that b and c have in common.
func And(d, b, c *Register, enabled uint32) {
	if haveAVX2() {
		andAVX2(d, b, c, enabled)
	} else {
		andGo(d, b, c, enabled)
	}
}

func andGo(d, b, c *Register, enabled uint32) {
	each(d, b, enabled, func(lane int, v uint32) uint32 { return v & c[lane] })
}

// Or sets d to the bits that b or c has.
func Or(d, b, c *Register, enabled uint32) {
	if haveAVX2() {
		orAVX2(d, b, c, enabled)
	} else {
		orGo(d, b, c, enabled)
	}
}

func orGo(d, b, c *Register, enabled uint32) {
	each(d, b, enabled, func(lane int, v uint32) uint32 { return v | c[lane] })
}

// Xor sets d to the bits in which b and c differ.
func Xor(d, b, c *Register, enabled uint32) {
	if haveAVX2() {
		xorAVX2(d, b, c, enabled)
	} else {
		xorGo(d, b, c, enabled)
	}
}

func xorGo(d, b, c *Register, enabled uint32) {
	each(d, b, enabled, func(lane int, v uint32) uint32 { return v ^ c[lane] })
}

// Exponents sets d to the exponents of c as fp32, less bias. It returns the lanes, enabled or not,
// in which that is negative.
func Exponents(d, c *Register, bias, enabled uint32) (negative uint32) {
	if haveAVX2() {
		return exponentsAVX2(d, c, bias, enabled)
	}
	return exponentsGo(d, c, bias, enabled)
}

func exponentsGo(d, c *Register, bias, enabled uint32) (negative uint32) {
	for lane, v := range c {
		v = v>>23&0xFF - bias
		negative |= v >> 31 << lane
		if bit(enabled, lane) {
			d[lane] = v
		}
	}
	return negative
}

// Shift sets d to c shifted left by the lowest five bits of by, or right by those of -by if it is
// negative. Right shifts copy the sign if arithmetic.
func Shift(d, c, by *Register, arithmetic bool, enabled uint32) {
	if haveAVX2() {
		shiftAVX2(d, c, by, arithmetic, enabled)
	} else {
		shiftGo(d, c, by, arithmetic, enabled)
	}
}

func shiftGo(d, c, by *Register, arithmetic bool, enabled uint32) {
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

// Add sets d to a plus b, or minus b if asked. It returns the lanes, enabled or not, in which that
// is negative.
func Add(d, a, b *Register, minus bool, enabled uint32) (negative uint32) {
	if haveAVX2() {
		return addAVX2(d, a, b, minus, enabled)
	}
	return addGo(d, a, b, minus, enabled)
}

func addGo(d, a, b *Register, minus bool, enabled uint32) (negative uint32) {
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

// Sort sets greater to the greater of x and y, as numbers of sign and magnitude, and less to the
// other. Lanes that aren't enabled get x and y.
func Sort(greater, less, x, y *Register, enabled uint32) {
	if haveAVX2() {
		sortAVX2(greater, less, x, y, enabled)
	} else {
		sortGo(greater, less, x, y, enabled)
	}
}

func sortGo(greater, less, x, y *Register, enabled uint32) {
	for lane, v := range x {
		w := y[lane]
		if bit(enabled, lane) && int32(v^uint32(int32(v)>>31)>>1) < int32(w^uint32(int32(w)>>31)>>1) {
			v, w = w, v
		}
		greater[lane], less[lane] = v, w
	}
}

// RoundBF16 sets d to what arith.RoundBF16 says of c.
func RoundBF16(d, c *Register, enabled uint32) {
	if haveAVX2() {
		roundBF16AVX2(d, c, enabled)
	} else {
		roundBF16Go(d, c, enabled)
	}
}

func roundBF16Go(d, c *Register, enabled uint32) {
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

// Random steps the random numbers of lanes: linear feedback shift registers with taps at bits 31,
// 21, 1 and 0.
func Random(d *Register, enabled uint32) {
	if haveAVX2() {
		randomAVX2(d, enabled)
	} else {
		randomGo(d, enabled)
	}
}

func randomGo(d *Register, enabled uint32) {
	each(d, d, enabled, func(_ int, v uint32) uint32 { return ^(v>>31^v>>21^v>>1^v)<<31 | v>>1 })
}

// Test returns the lanes whose sign is set, and those that are zero.
func Test(c *Register) (negative, zero uint32) {
	if haveAVX2() {
		return testAVX2(c)
	}
	return testGo(c)
}

func testGo(c *Register) (negative, zero uint32) {
	for lane, v := range c {
		negative |= v >> 31 << lane
		if v == 0 {
			zero |= 1 << lane
		}
	}
	return negative, zero
}

// LoadBF16 sets d to data of a block, encoded as Dst does, as fp32.
func LoadBF16(d *Register, from *Block, column, enabled uint32) {
	if haveAVX2() {
		loadBF16AVX2(d, from, column, enabled)
	} else {
		loadBF16Go(d, from, column, enabled)
	}
}

func loadBF16Go(d *Register, from *Block, column, enabled uint32) {
	each(d, d, enabled, func(lane int, _ uint32) uint32 {
		r, i := at(lane, column)
		return decode(uint32(from[r][i]) << 16)
	})
}

// Load32 sets d to data of 32 bits of two blocks, whose upper halves are encoded as Dst does.
func Load32(d *Register, high, low *Block, column, enabled uint32) {
	if haveAVX2() {
		load32AVX2(d, high, low, column, enabled)
	} else {
		load32Go(d, high, low, column, enabled)
	}
}

func load32Go(d *Register, high, low *Block, column, enabled uint32) {
	each(d, d, enabled, func(lane int, _ uint32) uint32 {
		r, i := at(lane, column)
		return decode(uint32(high[r][i])<<16) | uint32(low[r][i])
	})
}

// decode returns the upper half of an fp32, from how Dst holds it in the upper half: sign,
// mantissa, exponent.
func decode(v uint32) uint32 { return v&signBit | v<<7&0x7F800000 | v>>8&0x7F0000 }

// encode is the inverse of decode. It drops the lower half.
func encode(v uint32) uint32 { return v&signBit | v<<8&0x7F000000 | v>>7&0xFF0000 }

// flush returns zero of the same sign for a denormal.
func flush(v uint32) uint32 {
	if v&0x7F800000 == 0 {
		return v & signBit
	}
	return v
}

// StoreBF16 stores the upper halves of fp32 to a block, encoded as Dst does. Denormals become zero.
func StoreBF16(to *Block, c *Register, column, enabled uint32) {
	if haveAVX2() {
		storeBF16AVX2(to, c, column, enabled)
	} else {
		storeBF16Go(to, c, column, enabled)
	}
}

func storeBF16Go(to *Block, c *Register, column, enabled uint32) {
	for lane, v := range c {
		if bit(enabled, lane) {
			r, i := at(lane, column)
			to[r][i] = uint16(encode(flush(v)) >> 16)
		}
	}
}

// Store32 stores data of 32 bits to two blocks, their upper halves encoded as Dst does. Denormals
// become zero if asked.
func Store32(high, low *Block, c *Register, flushed bool, column, enabled uint32) {
	if haveAVX2() {
		store32AVX2(high, low, c, flushed, column, enabled)
	} else {
		store32Go(high, low, c, flushed, column, enabled)
	}
}

func store32Go(high, low *Block, c *Register, flushed bool, column, enabled uint32) {
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

// EncodeRow sets a row of Dst to the upper halves of fp32, encoded as Dst does. Denormals become
// zero without a sign if asked.
func EncodeRow(to *[2 * RowLanes]uint16, from *[2 * RowLanes]uint32, flushed bool) {
	if haveAVX2() {
		encodeRowAVX2(to, from, flushed)
	} else {
		encodeRowGo(to, from, flushed)
	}
}

func encodeRowGo(to *[2 * RowLanes]uint16, from *[2 * RowLanes]uint32, flushed bool) {
	for i, v := range from {
		if flushed && v&0x7F800000 == 0 {
			v = 0
		}
		to[i] = uint16(encode(v) >> 16)
	}
}
