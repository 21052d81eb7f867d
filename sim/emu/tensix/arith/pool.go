package arith

// MaxPool is GMPOOL: each datum of the row of Dst becomes the maximum, in [TotalOrder], of itself
// and its column of 16 rows of SrcA. A wide Dst is first truncated to tf32. lo is the row's lower
// half, or nil if Dst has 16 bits.
func (m Math) MaxPool(hi, lo *DstRow, rows *[16]Row) {
	var values [16]uint32
	m.load(&values, hi, lo)
	mask := uint32(0xFFFF0000)
	if m.A == TF32 {
		mask = 0xFFFFFFFF
	}
	for c := range values {
		values[c] &= 0xFFFFE000
		order := TotalOrder(values[c])
		for i := range rows {
			v := rows[i][c] & mask
			if v&0x7F800000 == 0 {
				v = 0
			}
			if o := TotalOrder(v); o > order {
				order, values[c] = o, v
			}
		}
	}
	m.store(hi, lo, &values)
}
