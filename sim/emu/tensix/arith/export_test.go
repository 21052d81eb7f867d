package arith

// MulRowScalar is MulRow without vector instructions.
func (m Math) MulRowScalar(hi, lo *DstRow, a *MatrixA, b *RowB) { m.mulRow(hi, lo, a, b) }

// ElwMulScalar is ElwMul without vector instructions.
func (m Math) ElwMulScalar(hi, lo *DstRow, a, b *Row) { m.mul(hi, lo, a, b) }

// ElwAddScalar is ElwAdd, or ElwSub if flip is the sign bit, without vector instructions.
func (m Math) ElwAddScalar(hi, lo *DstRow, a, b *Row, flip uint32, accumulate bool) {
	if !accumulate {
		*hi, *lo = DstRow{}, DstRow{}
	}
	m.add(hi, lo, a, b, flip)
}
