//go:build !purego

package arith

import "golang.org/x/sys/cpu"

// haveAVX2 reports whether the processor has the vector instructions of the functions here.
func haveAVX2() bool { return cpu.X86.HasAVX2 }

// kernel is what the vector instructions need to know of a pass.
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

func (m Math) kernel() kernel {
	bias := m.productBias()
	k := kernel{
		bias: makeTwice(int16(bias)), least: makeTwice(int16(max(bias, 0) - bias)),
		exponentMask: 0xFF, mantissaMask: 0x7F00,
		roundMask: ^uint32(0),
		limit:     0x7F800000 - 1<<23,
		c152:      152, c253: 253,
	}
	if !m.wide() {
		k.roundAdd, k.roundMask, k.drop = 1<<12, ^uint32(0x1FFF), 16
		if m.half() {
			k.exponentMask, k.mantissaMask = 0x1F, 0x7FE0
			k.limit = (31<<23 | 0x3FF<<13) - 1<<23
			k.drop = 13
		}
	}
	k.point = 150 - uint32(k.drop)
	if m.Arch == Wormhole {
		k.quirk = 27
	}
	return k
}

// mulRowsAVX2 is mulRow for n rows that follow one another in hi, lo and b. lo is nil if Dst is narrow.
func (m Math) mulRowsAVX2(hi, lo *DstRow, a *MatrixA, b *RowB, n int) {
	k := m.kernel()
	mulRowsAVX2(hi, lo, &a.exponent, &a.factor[m.Phase&1], &b.exponent, &b.factor[m.Phase>>1&1], n, &k)
}

//go:noescape
func mulRowsAVX2(hi, lo *DstRow, ae, af *[16][16]int16, be, bf *[16]twice, n int, k *kernel)
