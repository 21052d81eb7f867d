//go:build !purego

package arith

type factorKernel struct {
	mask                   uint32 // bits that the matrix unit reads
	_                      uint32
	upperShift, lowerShift uint64
	upperBits, lowerBits   uint32 // after the shift
	lead                   uint32 // the leading one, among the upper bits
	zero                   uint32 // exponent of zero
}

// kernelA and kernelB decode factors of SrcA, which are doubled, and of SrcB.
func kernelA(f Format) factorKernel {
	return factorKernel{mask: f.srcMask(), upperShift: 18, lowerShift: 13, upperBits: 0x1E, lowerBits: 0x3E, lead: 0x20, zero: zeroExponent}
}

func kernelB(f Format) factorKernel {
	return factorKernel{mask: f.srcMask(), upperShift: 17, lowerShift: 10, upperBits: 0x3F, lowerBits: 0x78, lead: 0x40, zero: zeroExponent}
}

const zeroExponent = 1<<32 + noExponent

func (m Math) decodeAAVX2(a *MatrixA, rows *[16]Row) {
	k := kernelA(m.A)
	decodeAAVX2(a, rows, &k)
}

func (m Math) decodeBAVX2(b *RowB, rows *Row, n int) {
	k := kernelB(m.B)
	decodeBAVX2(b, rows, n, &k)
}

//go:noescape
func decodeAAVX2(a *MatrixA, rows *[16]Row, k *factorKernel)

//go:noescape
func decodeBAVX2(b *RowB, rows *Row, n int, k *factorKernel)

// widenBF16AVX2 converts blocks of eight bf16 to data of SrcA or SrcB.
//
//go:noescape
func widenBF16AVX2(dst *uint32, l1 *byte, blocks int)

// readBF16AVX2 rounds a row of Dst to bf16 as Pack does before ReLU; lo is nil if Dst is narrow.
func readBF16AVX2(values *Row, hi, lo *DstRow)

// store16AVX2 writes the lower halves of blocks of eight values.
func store16AVX2(l1 *byte, values *uint32, blocks int)
