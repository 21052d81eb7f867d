package ops_test

import (
	"math"

	"github.com/reprise-tt/reprise/ops"
)

// The same operations in plain Go, on four-dimensional tensors.

type plain struct {
	dims  [4]int
	dtype ops.DataType
	v     []float64 // integers as they are, floats exactly
}

func (p *plain) at(n, c, h, w int) float64 {
	d := p.dims
	return p.v[((n%d[0]*d[1]+c%d[1])*d[2]+h%d[2])*d[3]+w%d[3]]
}

func make4(dims [4]int, t ops.DataType, f func(n, c, h, w int) float64) *plain {
	p := &plain{dims: dims, dtype: t}
	for n := range dims[0] {
		for c := range dims[1] {
			for h := range dims[2] {
				for w := range dims[3] {
					p.v = append(p.v, f(n, c, h, w))
				}
			}
		}
	}
	return p
}

func fit(t ops.DataType, i int64, f float32) float64 {
	switch t {
	case ops.UInt8:
		return float64(uint8(i))
	case ops.UInt16:
		return float64(uint16(i))
	case ops.UInt32:
		return float64(uint32(i))
	case ops.Int32:
		return float64(int32(i))
	case ops.Float32:
		return float64(f)
	}
	return float64(bfloat(f))
}

func bfloat(f float32) float32 {
	u := math.Float32bits(f)
	if f != f {
		return float32(math.NaN()) // the host makes one NaN of all
	}
	low := u & 0xFFFF
	u &^= 0xFFFF
	if low > 0x8000 || low == 0x8000 && u&0x10000 != 0 {
		u += 0x10000
	}
	return math.Float32frombits(u)
}

func pairwise(a, b *plain, ints func(x, y int64) int64, floats func(x, y float32) float32) *plain {
	var d [4]int
	for i := range d {
		d[i] = max(a.dims[i], b.dims[i])
	}
	return make4(d, a.dtype, func(n, c, h, w int) float64 {
		x, y := a.at(n, c, h, w), b.at(n, c, h, w)
		if a.dtype.Float() {
			return fit(a.dtype, 0, floats(float32(x), float32(y)))
		}
		return fit(a.dtype, ints(int64(x), int64(y)), 0)
	})
}

func add(a, b *plain) *plain {
	return pairwise(a, b, func(x, y int64) int64 { return x + y }, func(x, y float32) float32 { return x + y })
}

func subtract(a, b *plain) *plain {
	return pairwise(a, b, func(x, y int64) int64 { return x - y }, func(x, y float32) float32 { return x - y })
}

func multiply(a, b *plain) *plain {
	return pairwise(a, b, func(x, y int64) int64 { return x * y }, func(x, y float32) float32 { return x * y })
}

func relu(a *plain) *plain {
	return make4(a.dims, a.dtype, func(n, c, h, w int) float64 {
		if x := a.at(n, c, h, w); x != x || x > 0 {
			return x
		}
		return 0
	})
}

func repeat(a *plain, times [4]int) *plain {
	d := a.dims
	for i := range d {
		d[i] *= times[i]
	}
	return make4(d, a.dtype, a.at)
}

func concat(a, b *plain, dim int) *plain {
	d := a.dims
	d[dim] += b.dims[dim]
	return make4(d, a.dtype, func(n, c, h, w int) float64 {
		i := [4]int{n, c, h, w}
		if i[dim] < a.dims[dim] {
			return a.at(n, c, h, w)
		}
		i[dim] -= a.dims[dim]
		return b.at(i[0], i[1], i[2], i[3])
	})
}

func matmul(a, b *plain, to ops.DataType) *plain {
	d := [4]int{max(a.dims[0], b.dims[0]), max(a.dims[1], b.dims[1]), a.dims[2], b.dims[3]}
	return make4(d, to, func(n, c, h, w int) float64 {
		var i int64
		var f float32
		for k := range a.dims[3] {
			x, y := a.at(n, c, h, k), b.at(n, c, k, w)
			i += int64(x) * int64(y)
			p := float32(float32(x) * float32(y)) // converted, so that no product and sum are fused
			if k == 0 {
				f = p
			} else {
				f = float32(f + p)
			}
		}
		return fit(to, i, f)
	})
}

// ranked maps the numbers of 32 bits to their order.
func ranked(v float64) float64 {
	switch {
	case v != v:
		return math.Copysign(math.Inf(1), v)
	case math.IsInf(v, 0):
		return math.Copysign(math.MaxFloat64, v)
	}
	return v
}

func argmax(a *plain) *plain {
	d := a.dims
	d[3] = 1
	return make4(d, ops.UInt32, func(n, c, h, _ int) float64 {
		best := 0
		for w := range a.dims[3] {
			if ranked(a.at(n, c, h, w)) > ranked(a.at(n, c, h, best)) {
				best = w
			}
		}
		return float64(best)
	})
}

func slice(a *plain, begin, end [4]int) *plain {
	d := end
	for i := range d {
		d[i] -= begin[i]
	}
	return make4(d, a.dtype, func(n, c, h, w int) float64 { return a.at(n+begin[0], c+begin[1], h+begin[2], w+begin[3]) })
}
