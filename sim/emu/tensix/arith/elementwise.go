package arith

const signBit = 1 << 18

// ElwMulRows is ELWMUL of len(a) consecutive rows: it adds the products of data of SrcA and SrcB to
// the rows of Dst. lo are the rows' lower halves if Dst has 32 bits; otherwise it is unused.
func (m Math) ElwMulRows(hi, lo []DstRow, a, b []Row) {
	n := len(a)
	if n > 0 && !m.Int8 && haveAVX2() {
		m.elwMulAVX2(&hi[:n][0], m.low(lo, 0, n), &a[0], &b[:n][0], n)
		return
	}
	for i := range a {
		m.mul(&hi[i], m.low(lo, i, n), &a[i], &b[i])
	}
}

// low returns the lower half of row i of n, nil if Dst has 16 bits.
func (m Math) low(lo []DstRow, i, n int) *DstRow {
	if !m.wide() {
		return nil
	}
	return &lo[:n][i]
}

func (m Math) mul(hi, lo *DstRow, a, b *Row) {
	var values [16]uint32
	m.load(&values, hi, lo)
	if m.Int8 {
		maskA, maskB := uint32(0x801C0000), uint32(0x807E0000)
		if m.Phase&1 != 0 {
			maskA = 0x8003E000
		}
		if m.Phase&2 != 0 {
			maskB = 0x8001E000
		}
		for c := range values {
			product := readInt8(a[c], maskA) * m.readInt8B(b[c], maskB)
			values[c] = signMagnitude(addSaturating(fromSignMagnitude(values[c]), product))
		}
	} else {
		maskA, maskB := m.A.srcMask(), m.B.srcMask()
		bias := m.productBias()
		for c := range values {
			product := m.multiply(a[c]&maskA>>13, b[c]&maskB>>13, bias)
			values[c] = m.accumulate(product, term{}, values[c])
		}
	}
	m.store(hi, lo, &values)
}

// multiply returns a product in bits 18 to 0.
func (m Math) multiply(a, b uint32, bias int32) term {
	exponent := int32(a>>10&0xFF) + int32(b>>10&0xFF) + bias
	zeroA := a&0x3FC00 == 0
	zeroB := b&0x3FC00 == 0 && !m.KeepDenormalsB
	if zeroA || zeroB || exponent <= 0 {
		return term{exponent: max(bias, 0)}
	}
	fa, fb := a>>6&0xF|0x10, b>>4&0x3F|0x40
	if m.Phase&1 != 0 {
		fa = a >> 1 & 0x1F
	}
	if m.Phase&2 != 0 {
		fb = b & 0xF << 3
	}
	return term{(a ^ b) >> 18, exponent, fa * fb << 13}
}

// ElwAddRows is ELWADD of len(a) consecutive rows: it writes the sums of data of SrcA and SrcB to
// the rows of Dst, or adds them if accumulate. lo is as in [Math.ElwMulRows].
func (m Math) ElwAddRows(hi, lo []DstRow, a, b []Row, accumulate bool) {
	m.addOrSubRows(hi, lo, a, b, 0, accumulate)
}

// ElwSubRows is [Math.ElwAddRows] with the sign of SrcB's data flipped.
func (m Math) ElwSubRows(hi, lo []DstRow, a, b []Row, accumulate bool) {
	m.addOrSubRows(hi, lo, a, b, 0x80000000, accumulate)
}

// The vector code lacks the chip's wrap-around for a minus zero of SrcB that counts as a number.
func (m Math) vectorAdd() bool { return !m.Int8 && !m.KeepDenormalsB && haveAVX2() }

func (m Math) addOrSubRows(hi, lo []DstRow, a, b []Row, flip uint32, accumulate bool) {
	n := len(a)
	if n > 0 && m.vectorAdd() {
		m.elwAddAVX2(&hi[:n][0], m.low(lo, 0, n), &a[0], &b[:n][0], n, flip, accumulate)
		return
	}
	for i := range a {
		low := m.low(lo, i, n)
		if !accumulate {
			hi[i] = DstRow{}
			if low != nil {
				*low = DstRow{}
			}
		}
		m.add(&hi[i], low, &a[i], &b[i], flip)
	}
}

func (m Math) add(hi, lo *DstRow, a, b *Row, flip uint32) {
	var values [16]uint32
	m.load(&values, hi, lo)
	if m.Int8 {
		for c := range values {
			sum := readInt8(a[c], ^uint32(0)) + m.readInt8B(b[c]^flip, ^uint32(0))
			values[c] = signMagnitude(addSaturating(fromSignMagnitude(values[c]), sum))
		}
	} else {
		maskA, maskB := m.A.srcMask(), m.B.srcMask()
		for c := range values {
			sum := m.sum((a[c])&maskA>>13, (b[c]^flip)&maskB>>13)
			values[c] = m.accumulate(sum, term{}, values[c])
		}
	}
	m.store(hi, lo, &values)
}

func (m Math) sum(a, b uint32) term {
	if a&0x3FC00 == 0 {
		a = 0
	}
	if b&0x3FC00 == 0 && !m.KeepDenormalsB {
		b = 0
	}
	if a&0x3FFFF < b&0x3FFFF {
		a, b = b, a
	}
	exponent := int32(a >> 10 & 0xFF)
	large, small := mantissa11(a), mantissa11(b)
	switch diff := exponent - int32(b>>10&0xFF); {
	case diff >= 12:
		small = 0
	case diff > 0:
		small = (small + 1<<(diff-1)) >> diff
	}
	if (a^b)&signBit != 0 {
		small = -small
	}
	if m.wide() && m.half() { // Dst has exponents of 8 bits
		if exponent != 0 {
			exponent += 127 - 15
		} else {
			exponent = 127 - 30
		}
	}
	return term{a >> 18, exponent, (large + small) << 13}
}

// mantissa11 adds the leading one unless the datum is zero.
func mantissa11(x uint32) uint32 {
	if x == 0 {
		return 0
	}
	return x&0x3FF | 0x400
}

func (m Math) readInt8B(v, mask uint32) int32 {
	if m.KeepDenormalsB {
		return signed(v&mask>>13&0x3FF, v>>31)
	}
	return readInt8(v, mask)
}

// HighExponent returns the first datum that sets one of the three upper exponent bits. Formats with
// 5 exponent bits and 8-bit integers leave those bits 0.
func HighExponent(row *Row) (datum uint32, ok bool) {
	for _, v := range row {
		if v&0x70000000 != 0 {
			return v, true
		}
	}
	return 0, false
}
