//go:build !purego

package arith

import "golang.org/x/sys/cpu"

func haveAVX2() bool { return cpu.X86.HasAVX2 }

type kernel struct {
	bias         twice  // see Math.productBias
	least        twice  // sum of exponents where a product of zero stands
	exponentMask uint32 // of a row of Dst
	mantissaMask uint32
	roundAdd     uint32 // bits that a narrow Dst has no room for are rounded before the sum
	roundMask    uint32
	drop         uint64 // mantissa bits that a narrow Dst doesn't have
	limit        uint32 // the largest result, less 1 in the exponent
	quirk        uint32 // what Wormhole adds to the exponent of minus one
	point        uint32 // 150 less drop: where the leading one of a sum needs no shift, plus 127
	c152, c253   uint32
}

func (k *kernel) fill(m *Math) {
	k.exponentMask, k.mantissaMask = 0xFF, 0x7F00
	k.roundAdd, k.roundMask, k.drop = 0, ^uint32(0), 0
	k.limit = 0x7F800000 - 1<<23
	k.c152, k.c253 = 152, 253
	if !m.wide() {
		k.roundAdd, k.roundMask, k.drop = 1<<12, ^uint32(0x1FFF), 16
		if m.half() {
			k.exponentMask, k.mantissaMask = 0x1F, 0x7FE0
			k.limit = (31<<23 | 0x3FF<<13) - 1<<23
			k.drop = 13
		}
	}
	k.point = 150 - uint32(k.drop)
	k.quirk = 0
	if m.Arch == Wormhole {
		k.quirk = 27
	}
}

// lo is nil if Dst is narrow, here and below.
func (m Math) mulRowsAVX2(hi, lo *DstRow, a *MatrixA, b *RowB, n int) {
	bias := m.productBias()
	k := kernel{bias: makeTwice(int16(bias)), least: makeTwice(int16(max(bias, 0) - bias))}
	k.fill(&m)
	mulRowsAVX2(hi, lo, &a.exponent, &a.factor[m.Phase&1], &b.exponent, &b.factor[m.Phase>>1&1], n, &k)
}

//go:noescape
func mulRowsAVX2(hi, lo *DstRow, ae, af *[16][16]int16, be, bf *[16]twice, n int, k *kernel)

type pairKernel struct {
	kernel
	maskA, maskB uint32 // bits of the operands
	flip         uint32 // sign bit, to subtract
	keep         uint32 // all ones if SrcB has denormals
	zero         uint32 // exponent of zero
	bias         int32  // of a product
	shift        [2]uint64
	bits, lead   [2]uint32 // mantissa bits of the phase, after the shifts, and the leading one
	rebias       uint32    // of a sum
}

func (k *pairKernel) fill(m *Math) {
	k.kernel.fill(m)
	k.maskA, k.maskB = m.A.srcMask()&^0x1FFF, m.B.srcMask()&^0x1FFF
	if m.KeepDenormalsB {
		k.keep = ^uint32(0)
	}
}

func (m Math) elwMulAVX2(hi, lo *DstRow, a, b *Row, n int) {
	var k pairKernel
	k.fill(&m)
	k.bias = m.productBias()
	k.zero = uint32(max(k.bias, 0))
	k.shift, k.bits, k.lead = [2]uint64{19, 17}, [2]uint32{0xF, 0x3F}, [2]uint32{0x10, 0x40}
	if m.Phase&1 != 0 {
		k.shift[0], k.bits[0], k.lead[0] = 14, 0x1F, 0
	}
	if m.Phase&2 != 0 {
		k.shift[1], k.bits[1], k.lead[1] = 10, 0x78, 0
	}
	elwMulAVX2(hi, lo, a, b, n, &k)
}

// elwAddAVX2 reads Dst only if it accumulates.
func (m Math) elwAddAVX2(hi, lo *DstRow, a, b *Row, n int, flip uint32, accumulate bool) {
	k := pairKernel{flip: flip}
	k.fill(&m)
	if m.wide() && m.half() {
		k.rebias, k.zero = 127-15, 127-30
	}
	if accumulate {
		elwAddAVX2(hi, lo, a, b, n, &k)
	} else {
		elwSumAVX2(hi, lo, a, b, n, &k)
	}
}

//go:noescape
func elwMulAVX2(hi, lo *DstRow, a, b *Row, n int, k *pairKernel)

// elwSumAVX2 is elwAddAVX2 for a Dst of zeros.
//
//go:noescape
func elwSumAVX2(hi, lo *DstRow, a, b *Row, n int, k *pairKernel)

//go:noescape
func elwAddAVX2(hi, lo *DstRow, a, b *Row, n int, k *pairKernel)

// sumInt8AVX2 adds the products of a row of SrcB and each column of SrcA.
//
//go:noescape
func sumInt8AVX2(sums *[16]int32, a *[16][16]int16, b *[16]twice)
