package arith

// noExponent is a decoded zero's, too small to decide an alignment.
const noExponent = -0x2000

// MatrixA is 16 rows of SrcA, decoded for all fidelity phases and many rows of SrcB. Row i holds
// the factors of datum i of SrcB; column c is added to column c of Dst.
type MatrixA struct {
	exponent [16][16]int16
	factor   [2][16][16]int16 // by bit 0 of the phase; signed, and of floats doubled, for alignment to round
}

// RowB is a row of SrcB, decoded for all fidelity phases.
type RowB struct {
	exponent [16]twice
	factor   [2][16]twice // by bit 1 of the phase; signed
}

// twice is a 16-bit number in both halves, to be broadcast.
type twice uint32

func makeTwice(x int16) twice { return twice(uint16(x)) * 0x10001 }

func (t twice) int() int32 { return int32(int16(t)) }

// DecodeA decodes 16 rows of SrcA by A and Int8 only.
func (m Math) DecodeA(a *MatrixA, rows *[16]Row) {
	if m.Int8 {
		for i := range rows {
			for c, v := range rows[i] {
				a.factor[0][i][c] = int16(readInt8(v, 0x801C0000))
				a.factor[1][i][c] = int16(readInt8(v, 0x8003E000))
			}
		}
		return
	}
	if haveAVX2() {
		m.decodeAAVX2(a, rows)
		return
	}
	m.decodeA(a, rows)
}

func (m Math) decodeA(a *MatrixA, rows *[16]Row) {
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
			a.factor[0][i][c] = 2 * ((upper ^ sign) - sign)
			a.factor[1][i][c] = 2 * ((lower ^ sign) - sign)
		}
	}
}

// DecodeRows decodes len(b) rows of SrcB by B and Int8 only.
func (m Math) DecodeRows(b []RowB, rows []Row) {
	n := len(b)
	if n > 0 && !m.Int8 && haveAVX2() {
		m.decodeBAVX2(&b[0], &rows[:n][0], n)
		return
	}
	for i := range b {
		m.decodeB(&b[i], &rows[i])
	}
}

func (m Math) decodeB(b *RowB, row *Row) {
	if m.Int8 {
		for i, v := range row {
			b.factor[0][i] = makeTwice(int16(readInt8(v, 0x807E0000)))
			b.factor[1][i] = makeTwice(int16(readInt8(v, 0x8001E000)))
		}
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
		b.exponent[i] = makeTwice(exponent)
		b.factor[0][i] = makeTwice((upper ^ sign) - sign)
		b.factor[1][i] = makeTwice((lower ^ sign) - sign)
	}
}

// readInt8 selects a phase's bits of an integer. Integers have 10 bits of magnitude in a register,
// and exponent zero only if the integer is zero.
func readInt8(v, mask uint32) int32 {
	if v&0x7F800000 == 0 {
		return 0
	}
	return signed(v&mask>>13&0x3FF, v>>31)
}

// MulRows is MVMUL or GAPOOL of len(b) consecutive rows: it adds the products of the rows of SrcB
// and each column of SrcA to the rows of Dst. lo is as in [Math.ElwMulRows].
func (m Math) MulRows(hi, lo []DstRow, a *MatrixA, b []RowB) {
	n := len(b)
	if n > 0 && !m.Int8 && haveAVX2() {
		m.mulRowsAVX2(&hi[:n][0], m.low(lo, 0, n), a, &b[0], n)
		return
	}
	for i := range b {
		m.mulRow(&hi[i], m.low(lo, i, n), a, &b[i])
	}
}

func (m Math) mulRow(hi, lo *DstRow, a *MatrixA, b *RowB) {
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
	var sums [16]int32
	if haveAVX2() {
		sumInt8AVX2(&sums, fa, fb)
	} else {
		sumInt8(&sums, fa, fb)
	}
	for c, sum := range sums {
		values[c] = signMagnitude(addSaturating(fromSignMagnitude(values[c]), sum))
	}
}

func sumInt8(sums *[16]int32, a *[16][16]int16, b *[16]twice) {
	for i, f := range b {
		f := f.int()
		for c, v := range &a[i] {
			sums[c] += f * int32(v)
		}
	}
}

// addSaturating saturates at 31 bits of magnitude.
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

// sumGroup rounds to nearest, ties away from zero.
func (m Math) sumGroup(sums *[16]term, a *MatrixA, b *RowB, first int) {
	bias := m.productBias()
	fa, fb := &a.factor[m.Phase&1], &b.factor[m.Phase>>1&1]
	for c := range sums {
		largest := max(bias, 0) - bias // where a product of zero stands
		for i := first; i < first+8; i++ {
			largest = max(largest, int32(a.exponent[i][c])+b.exponent[i].int())
		}
		exponent := largest + bias
		if exponent <= 0 {
			sums[c] = term{}
			continue
		}
		var sum int32
		for i := first; i < first+8; i++ {
			diff := min(uint32(largest-int32(a.exponent[i][c])-b.exponent[i].int()), 30)
			doubled := int32(fa[i][c]) * fb[i].int()
			sign := doubled >> 31
			product := ((doubled ^ sign) - sign + 1<<diff) >> (diff + 1)
			sum += (product ^ sign) - sign
		}
		negative := uint32(sum) >> 31
		sums[c] = term{negative, exponent, uint32(signed(uint32(sum), negative)) << 13}
	}
}
