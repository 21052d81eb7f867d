//go:build !purego

package arith

// fmaKernel is what the vector instructions need to know of a multiply-add.
type fmaKernel struct {
	flipX, flipZ uint32 // sign bits
	lost         uint32 // which of the bits that normalising shifts out count as lost
	gradual      uint32 // all ones if exponents below 1 shift once more: Blackhole
	signed       uint32 // all ones if zeros keep their sign: Blackhole
}

func (a Arch) fmaKernel(negateX, negateZ bool) fmaKernel {
	k := fmaKernel{lost: 1}
	if a == Blackhole {
		k.lost, k.gradual, k.signed = ^uint32(0), ^uint32(0), ^uint32(0)
	}
	if negateX {
		k.flipX = 1 << 31
	}
	if negateZ {
		k.flipZ = 1 << 31
	}
	return k
}

func (a Arch) fmaAVX2(dst, x, y, z *[32]uint32, negateX, negateZ bool) (special uint32) {
	k := a.fmaKernel(negateX, negateZ)
	return fmaAVX2(dst, x, y, z, &k)
}

//go:noescape
func fmaAVX2(dst, x, y, z *[32]uint32, k *fmaKernel) (special uint32)
