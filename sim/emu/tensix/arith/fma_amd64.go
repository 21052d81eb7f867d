//go:build !purego

package arith

type fmaKernel struct {
	flipX, flipZ uint32 // sign bits
	signed       uint32 // the sign bit if zeros keep their sign: Blackhole
	sticky       uint32 // not 0 if all bits that are shifted out count: Blackhole
}

func (a Arch) fmaKernel(negateX, negateZ bool) fmaKernel {
	var k fmaKernel
	if a == Blackhole {
		k.signed, k.sticky = 1<<31, 1
	}
	if negateX {
		k.flipX = 1 << 31
	}
	if negateZ {
		k.flipZ = 1 << 31
	}
	return k
}

func (a Arch) fmaAVX2(dst, x, y, z *[32]uint32, negateX, negateZ bool, enabled uint32) (special uint32) {
	k := a.fmaKernel(negateX, negateZ)
	return fmaAVX2(dst, x, y, z, &k, enabled)
}

//go:noescape
func fmaAVX2(dst, x, y, z *[32]uint32, k *fmaKernel, enabled uint32) (special uint32)
