package arith

import "math/bits"

// canonicalNaN is the NaN of Blackhole's vector unit.
const canonicalNaN = 0x7FC00000

// FMA returns x times y plus z, in fp32, as the chip's vector unit computes it.
func (a Arch) FMA(x, y, z uint32) uint32 {
	if a == Blackhole {
		return fmaBlackhole(x, y, z)
	}
	return fmaWormhole(x, y, z)
}

// FMALanes computes x times y plus z in the enabled lanes, with signs of x and z flipped as asked.
func (a Arch) FMALanes(dst, x, y, z *[32]uint32, negateX, negateZ bool, enabled uint32) {
	rest := enabled
	if haveAVX2() {
		if rest = a.fmaAVX2(dst, x, y, z, negateX, negateZ, enabled); rest == 0 {
			return
		}
	}
	flipX, flipZ := uint32(0), uint32(0)
	if negateX {
		flipX = 1 << 31
	}
	if negateZ {
		flipZ = 1 << 31
	}
	for ; rest != 0; rest &= rest - 1 {
		lane := bits.TrailingZeros32(rest)
		dst[lane] = a.FMA(x[lane]^flipX, y[lane], z[lane]^flipZ)
	}
}

// unpacked is an fp32 whose mantissa has the leading one at bit 23, unless the number is zero.
type unpacked struct {
	sign     uint32
	exponent int32
	mantissa uint32
}

func unpackFlushed(x uint32) unpacked {
	u := unpacked{x & 0x80000000, int32(x >> 23 & 0xFF), x&0x7FFFFF | 0x800000}
	if u.exponent == 0 {
		u.mantissa = 0
	}
	return u
}

func (u unpacked) special() bool { return u.exponent == 255 }
func (u unpacked) nan() bool     { return u.exponent == 255 && u.mantissa != 0x800000 }
func (u unpacked) inf() bool     { return u.exponent == 255 && u.mantissa == 0x800000 }

func noProduct(x, y unpacked) bool {
	return x.special() && (x.nan() || y.mantissa == 0) || y.special() && (y.nan() || x.mantissa == 0)
}

// semiStickyShift ORs the lost bits into the lowest bit, but a value shifted out completely becomes
// 0.
func semiStickyShift(m uint32, by int32) uint32 {
	out := m >> by
	if out != 0 && out<<by != m {
		out |= 1
	}
	return out
}

// roundNearestEven rounds by the guard, round and sticky bits.
func roundNearestEven(r, low uint32) uint32 {
	if low&7+r&1 > 4 {
		r++
	}
	return r
}

func specialIEEE(x, y, z unpacked, zbits uint32) uint32 {
	psign := x.sign ^ y.sign
	switch {
	case noProduct(x, y), z.nan(), z.inf() && (x.special() || y.special()) && z.sign != psign:
		return canonicalNaN
	case z.inf():
		return zbits
	}
	return psign | 0x7F800000
}

// A tie has the first sign.
func addMagnitudes(asign, a, bsign, b uint32) (sign, sum uint32) {
	switch {
	case asign == bsign:
		return asign, a + b
	case a >= b:
		return asign, a - b
	}
	return bsign, b - a
}

// The mantissa has 26 fractional bits, the lowest sticky.
func product(x, y unpacked) (mantissa uint32, exponent int32) {
	p := uint64(x.mantissa) * uint64(y.mantissa) << 3
	mantissa = uint32(p >> 23)
	if p&0x7FFFFF != 0 {
		mantissa |= 1
	}
	return mantissa, x.exponent + y.exponent - 127
}

// fmaBlackhole flushes denormals, drops the lost bits of an addend that is shifted out, and
// overflows if the product alone does.
func fmaBlackhole(x, y, z uint32) uint32 {
	ux, uy, uz := unpackFlushed(x), unpackFlushed(y), unpackFlushed(z)
	psign := ux.sign ^ uy.sign
	p, pe := product(ux, uy)
	if ux.special() || uy.special() || uz.special() || pe >= 255 {
		return specialIEEE(ux, uy, uz, z)
	}
	if p == 0 || pe < 0 {
		if uz.mantissa != 0 {
			return z
		}
		return uz.sign & psign
	}
	sign, exponent, sum := addAligned(psign, p, pe, uz)
	if sum == 0 {
		return uz.sign & psign
	}
	down := 5 - int32(bits.LeadingZeros32(sum))
	exponent += down
	if exponent >= 255 {
		return sign | 0x7F800000
	}
	if exponent <= 0 {
		down++
		exponent = 0
	}
	if down <= 0 {
		sum <<= -down
	} else if lost := sum & uint32(down|1); lost != 0 { // the one or two bits that down can be
		sum = sum>>down | 1
	} else {
		sum >>= down
	}
	r := roundNearestEven(uint32(exponent)<<23+sum>>3&0x7FFFFF, sum)
	if r>>23 == 0 {
		return sign
	}
	return sign | r
}

func addAligned(psign, p uint32, pe int32, z unpacked) (sign uint32, exponent int32, sum uint32) {
	ze, zm := z.exponent, z.mantissa<<3
	exponent = max(pe, ze)
	sign, sum = addMagnitudes(psign, semiStickyShift(p, exponent-pe), z.sign, semiStickyShift(zm, exponent-ze))
	return sign, exponent, sum
}

// fmaWormhole differs from fmaBlackhole in NaNs, into which mantissa bits leak, and in zeros, which
// lose their sign.
func fmaWormhole(x, y, z uint32) uint32 {
	ux, uy, uz := unpackFlushed(x), unpackFlushed(y), unpackFlushed(z)
	psign := ux.sign ^ uy.sign
	p, pe := product(ux, uy)
	var nan uint32
	if pInf := ux.special() || uy.special() || pe >= 255; pInf || uz.special() {
		switch {
		case noProduct(ux, uy), uz.inf() && pInf && uz.sign != psign:
			nan = psign | 0x7F800001
		case uz.nan():
			nan = uz.sign | 0x7F800001
		case uz.inf():
			return z
		default:
			return psign | 0x7F800000
		}
		pe = min(pe, 255)
	}
	if p == 0 || pe < 0 {
		switch {
		case nan != 0:
			p, pe = 0, 0
		case uz.mantissa != 0:
			return z
		default:
			return 0
		}
	}
	sign, exponent, sum := addAligned(psign, p, pe, uz)
	if sum == 0 {
		return nan
	}
	down := 5 - int32(bits.LeadingZeros32(sum))
	exponent += down
	switch {
	case exponent >= 255 && nan == 0:
		return sign | 0x7F800000
	case exponent >= 255 || exponent < 0:
		return nan
	}
	if down <= 0 {
		sum <<= -down
	} else {
		sum = sum>>down | sum&1
	}
	r := roundNearestEven(uint32(exponent)<<23+sum>>3&0x7FFFFF, sum)
	if r>>23 == 0 {
		return nan
	}
	if nan != 0 {
		return nan | r
	}
	return sign | r
}

// ApproximateReciprocal is Blackhole's SFPARECIP of an fp32. It has 7 mantissa bits: the reciprocal
// of the middle of the interval given by the operand's upper 7 mantissa bits.
func ApproximateReciprocal(x uint32) uint32 {
	sign, magnitude := x&0x80000000, x&0x7FFFFFFF
	switch {
	case magnitude < 0x800000:
		return sign | 0x7F800000
	case magnitude >= 0x7E800000:
		return sign
	}
	upper := magnitude >> 16 & 0x7F
	mantissa := ((1<<17)/(257+2*upper)+1)>>1 - 128
	return sign | (253-magnitude>>23)<<23 | mantissa<<16
}
