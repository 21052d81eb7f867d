package arith

func (m Math) MulRowScalar(hi, lo *DstRow, a *MatrixA, b *RowB) { m.mulRow(hi, lo, a, b) }

func (m Math) ElwMulScalar(hi, lo *DstRow, a, b *Row) { m.mul(hi, lo, a, b) }

func (m Math) ElwAddScalar(hi, lo *DstRow, a, b *Row, flip uint32, accumulate bool) {
	if !accumulate {
		*hi, *lo = DstRow{}, DstRow{}
	}
	m.add(hi, lo, a, b, flip)
}

func (m Math) DecodeScalar(a *MatrixA, rows *[16]Row, b *RowB, row *Row) {
	m.decodeA(a, rows)
	m.decodeB(b, row)
}

func (p *Pack) ReadScalar(values *Row, hi, lo *DstRow) {
	for c := range values {
		if p.Wide {
			values[c] = p.readWide(hi[c], lo[c])
		} else {
			values[c] = p.readNarrow(hi[c])
		}
	}
}

func (m Math) SumsInt8(a *MatrixA, b *RowB) (got, want [16]int32) {
	fa, fb := &a.factor[m.Phase&1], &b.factor[m.Phase>>1&1]
	sumInt8(&want, fa, fb)
	if sumInt8(&got, fa, fb); haveAVX2() {
		sumInt8AVX2(&got, fa, fb)
	}
	return got, want
}
