package reference

import (
	"math"

	"github.com/reprise-tt/reprise/examples/internal/engine"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// What the vector unit computes of numbers of 32 bits, by the instructions of
// kernels/include/reprise/compute/sfpu.h.

const (
	one      = 0x3F800000
	two      = 0x40000000
	infinity = 0x7F800000
	// lowest is the bf16 that stands for minus infinity in masks.
	lowest = 0xFF7F0000
)

// lanes are the engines with the vector unit's functions.
type lanes struct{ engine.Engine }

func (e lanes) mad(a, b, c uint32) uint32 { return e.Arch.FMA(a, b, c) }
func (e lanes) mul(a, b uint32) uint32    { return e.Arch.FMA(a, b, 0) }
func (e lanes) add(a, c uint32) uint32    { return e.Arch.FMA(a, one, c) }

// lesser and greater return one of two numbers, in the order of signs and magnitudes.
func lesser(a, b uint32) uint32 {
	if arith.TotalOrder(b) < arith.TotalOrder(a) {
		return b
	}
	return a
}

func greater(a, b uint32) uint32 {
	if arith.TotalOrder(b) > arith.TotalOrder(a) {
		return b
	}
	return a
}

func (e lanes) horner(sum, x uint32, numbers ...uint32) uint32 {
	for _, c := range numbers {
		sum = e.mad(sum, x, c)
	}
	return sum
}

// exp is exp() of sfpu.h.
func (e lanes) exp(x uint32) uint32 {
	x = greater(lesser(x, 0x42B20000), 0xC2B00000)
	n := e.mad(x, 0x3FB8AA3B, 0x4B400000)
	whole := e.add(n, 0xCB400000)
	x = e.mad(whole, 0xBF318000, x)
	x = e.mad(whole, 0x395E8083, x)
	v := e.horner(0x3C07F217, x, 0x3D2BB0DA, 0x3E2AAD13, 0x3EFFFE89, 0x3F7FFFFB, 0x3F800001)
	return lesser(infinity, greater(n<<23+v, 0))
}

// recip is recip() of sfpu.h.
func (e lanes) recip(x uint32) uint32 {
	exponent := x >> 23 & 0xFF
	if exponent == 0 {
		return x&(1<<31) | infinity
	}
	m := 1<<31 | 127<<23 | x&0x7FFFFF
	v := e.horner(0x3EA57EB5, m, 0x3FBA2E8C, 0x4007C1F0)
	for range 2 {
		v = e.mul(v, e.mad(m, v, two))
	}
	v = greater(v-(exponent-127)<<23, 0)
	return x&(1<<31) | v&^(1<<31)
}

// rsqrt is rsqrt() of sfpu.h for positive numbers and a Dst of 32 bits.
func (e lanes) rsqrt(x uint32) uint32 {
	v := 0x5F3759DF - x>>1
	for range 3 {
		t := e.mul(e.mul(v, x), v)
		t = e.add(e.mul(t, 0xBF000000), 0x3FC00000)
		v = e.mul(v, t)
	}
	return v
}

func bits(x float32) uint32 { return math.Float32bits(x) }
