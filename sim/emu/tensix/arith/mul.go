package arith

// noExponent is the exponent of a zero among decoded factors: so small that no product with it decides an alignment.
const noExponent = -0x2000

// MatrixA is 16 rows of SrcA, decoded for all fidelity phases: row i holds the factors of datum i of SrcB, column c
// those that are added to column c of Dst. Decode it once and multiply many rows of SrcB by it.
type MatrixA struct {
	exponent [16][16]int16
	factor   [2][16][16]int16 // by bit 0 of the phase; signed
}

// RowB is a row of SrcB, decoded for all fidelity phases.
type RowB struct {
	exponent [16]int16
	factor   [2][16]int16 // by bit 1 of the phase; signed
}

// DecodeA decodes 16 rows of SrcA. The result depends on A and Int8 only, not on the phase.
func (m Math) DecodeA(a *MatrixA, rows *[16]Row) {
	if m.Int8 {
		for i := range rows {
			decodeInt8(&a.factor[0][i], &rows[i], 0x801C0000)
			decodeInt8(&a.factor[1][i], &rows[i], 0x8003E000)
		}
		return
	}
	mask := m.A.srcMask()
	for i := range rows {
		for c, v := range rows[i] {
			v &= mask
			exponent := int16(v >> 23 & 0xFF)
			upper, lower := int16(v>>19&0xF|0x10), int16(v>>14&0x1F)
			if exponent == 0 {
				exponent, upper, lower = noExponent, 0, 0
			}
			sign := int16(int32(v) >> 31)
			a.exponent[i][c] = exponent
			a.factor[0][i][c] = (upper ^ sign) - sign
			a.factor[1][i][c] = (lower ^ sign) - sign
		}
	}
}

// DecodeB decodes a row of SrcB. The result depends on B and Int8 only, not on the phase.
func (m Math) DecodeB(b *RowB, row *Row) {
	if m.Int8 {
		decodeInt8(&b.factor[0], row, 0x807E0000)
		decodeInt8(&b.factor[1], row, 0x8001E000)
		return
	}
	mask := m.B.srcMask()
	for i, v := range row {
		v &= mask
		exponent := int16(v >> 23 & 0xFF)
		upper, lower := int16(v>>17&0x3F|0x40), int16(v>>13&0xF<<3)
		if exponent == 0 {
			exponent, upper, lower = noExponent, 0, 0
		}
		sign := int16(int32(v) >> 31)
		b.exponent[i] = exponent
		b.factor[0][i] = (upper ^ sign) - sign
		b.factor[1][i] = (lower ^ sign) - sign
	}
}

// decodeInt8 decodes a row of 8-bit integers, of which a phase sees the bits of mask. An integer has 10 bits of
// magnitude in a register, and an exponent that is zero if and only if the integer is.
func decodeInt8(factors *[16]int16, row *Row, mask uint32) {
	for i, v := range row {
		factors[i] = int16(readInt8(v, mask))
	}
}

// readInt8 returns the integer that the bits of mask hold.
func readInt8(v, mask uint32) int32 {
	if v&0x7F800000 == 0 {
		return 0
	}
	return signed(v&mask>>13&0x3FF, v>>31)
}

// MulRow is one row of MVMUL or GAPOOL: it adds to each datum of the row of Dst the product of the row of SrcB and a
// column of SrcA. lo is the row's lower half if Dst has 32 bits, and nil if it doesn't.
func (m Math) MulRow(hi, lo *DstRow, a *MatrixA, b *RowB) {
	var values [16]uint32
	m.load(&values, hi, lo)
	if m.Int8 {
		m.mulInt8(&values, a, b)
	} else {
		m.mulFloat(&values, a, b)
	}
	m.store(hi, lo, &values)
}

func (m Math) mulInt8(values *[16]uint32, a *MatrixA, b *RowB) {
	fa, fb := &a.factor[m.Phase&1], &b.factor[m.Phase>>1&1]
	for c := range values {
		var sum int32
		for i, f := range fb {
			sum += int32(f) * int32(fa[i][c])
		}
		values[c] = signMagnitude(addSaturating(fromSignMagnitude(values[c]), sum))
	}
}

// addSaturating returns the sum within what a sign and 31 bits of magnitude hold.
func addSaturating(x, y int32) int32 {
	const largest = 1<<31 - 1
	return int32(min(max(int64(x)+int64(y), -largest), largest))
}

func (m Math) mulFloat(values *[16]uint32, a *MatrixA, b *RowB) {
	var sums [2][16]term
	for group := range sums {
		m.sumGroup(&sums[group], a, b, 8*group)
	}
	for c := range values {
		values[c] = m.accumulate(sums[0][c], sums[1][c], values[c])
	}
}

// sumGroup adds the eight products from index first of each column: aligned to the largest exponent among them, rounded
// to nearest, ties away from zero.
func (m Math) sumGroup(sums *[16]term, a *MatrixA, b *RowB, first int) {
	bias := m.productBias()
	fa, fb := &a.factor[m.Phase&1], &b.factor[m.Phase>>1&1]
	for c := range sums {
		largest := max(bias, 0) - bias // where a product of zero stands
		for i := first; i < first+8; i++ {
			largest = max(largest, int32(a.exponent[i][c])+int32(b.exponent[i]))
		}
		exponent := largest + bias
		if exponent <= 0 {
			sums[c] = term{}
			continue
		}
		var sum int32
		for i := first; i < first+8; i++ {
			diff := min(uint32(largest-int32(a.exponent[i][c])-int32(b.exponent[i])), 30)
			product := int32(fa[i][c]) * int32(fb[i])
			sign := product >> 31
			product = (product ^ sign) - sign
			product = (product<<1 + 1<<diff) >> (diff + 1)
			sum += (product ^ sign) - sign
		}
		negative := uint32(sum) >> 31
		sums[c] = term{negative, exponent, uint32(signed(uint32(sum), negative)) << 13}
	}
}
