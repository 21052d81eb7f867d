//go:build !amd64 || purego

package arith

func haveAVX2() bool { return false }

func (m Math) mulRowsAVX2(hi, lo *DstRow, a *MatrixA, b *RowB, n int) {}

func (m Math) elwMulAVX2(hi, lo *DstRow, a, b *Row, n int) {}

func (m Math) elwAddAVX2(hi, lo *DstRow, a, b *Row, n int, flip uint32) {}
