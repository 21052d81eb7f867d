package arith

// MulRowScalar is MulRow without vector instructions.
func (m Math) MulRowScalar(hi, lo *DstRow, a *MatrixA, b *RowB) { m.mulRow(hi, lo, a, b) }
