//go:build !amd64 || purego

package arith

func haveAVX2() bool { return false }

func (m Math) mulRowsAVX2(hi, lo *DstRow, a *MatrixA, b *RowB, n int) {}

func (m Math) elwMulAVX2(hi, lo *DstRow, a, b *Row, n int) {}

func (m Math) elwAddAVX2(hi, lo *DstRow, a, b *Row, n int, flip uint32, accumulate bool) {}

func (m Math) decodeAAVX2(a *MatrixA, rows *[16]Row) {}

func (m Math) decodeBAVX2(b *RowB, rows *Row, n int) {}

func widenBF16AVX2(dst *uint32, l1 *byte, blocks int) {}

func readBF16AVX2(values *Row, hi, lo *DstRow) {}

func store16AVX2(l1 *byte, values *uint32, blocks int) {}

func (a Arch) fmaAVX2(dst, x, y, z *[32]uint32, negateX, negateZ bool, enabled uint32) (special uint32) {
	return 0
}

func sumInt8AVX2(sums *[16]int32, a *[16][16]int16, b *[16]twice) {}
