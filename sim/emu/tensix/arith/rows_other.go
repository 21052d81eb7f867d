//go:build !amd64 || purego

package arith

func haveAVX2() bool { return false }

func (m Math) mulRowsAVX2(hi, lo *DstRow, a *MatrixA, b *RowB, n int) {}
