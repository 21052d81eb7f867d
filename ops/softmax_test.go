package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/reprise-tt/reprise/ops"
)

func (b *bench) near(what string, dt ops.DataType, got, want []float64, relative, absolute float64) {
	b.Helper()
	if s := off(dt, got, want, relative, absolute); s != "" {
		b.Errorf("%s: %s", what, s)
	}
}

func softmax(x, mask *plain, scale float64) *plain {
	at := func(n, c, h, w int) float64 {
		v := x.at(n, c, h, w) * scale
		if mask != nil {
			v += mask.at(n, c, h, w)
		}
		return v
	}
	var most, sum float64 // of the row
	return make4(x.dims, x.dtype, func(n, c, h, w int) float64 {
		if w == 0 {
			most, sum = math.Inf(-1), 0
			for k := range x.dims[3] {
				most = max(most, at(n, c, h, k))
			}
			for k := range x.dims[3] {
				sum += math.Exp(at(n, c, h, k) - most)
			}
		}
		return math.Exp(at(n, c, h, w)-most) / sum
	})
}

// e^x has an error of 2^-21 and one of 2^-24 of x, the reciprocal of the sum one of 2^-22.
func TestSoftmax(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			dims, mask [4]int
			dt         ops.DataType
			scale      float32
		}{
			{dims: [4]int{1, 1, 32, 32}, dt: ops.BFloat16},
			{dims: [4]int{1, 2, 40, 70}, dt: ops.BFloat16},
			{dims: [4]int{1, 2, 40, 70}, dt: ops.Float32},
			{dims: [4]int{2, 3, 5, 1}, dt: ops.Float32},
			{dims: [4]int{1, 1, 1, 300}, dt: ops.BFloat16, scale: 0.125},
			{dims: [4]int{1, 1, 3, 70}, dt: ops.BFloat16, scale: -0.5},
			{dims: [4]int{1, 1, 32, 2900}, dt: ops.BFloat16}, // resident, without room for exponentials
			{dims: [4]int{1, 2, 33, 65}, mask: [4]int{1, 1, 33, 65}, dt: ops.Float32, scale: -2},
			{dims: [4]int{2, 2, 33, 65}, mask: [4]int{1, 1, 33, 65}, dt: ops.BFloat16, scale: 0.125},
			{dims: [4]int{2, 2, 33, 65}, mask: [4]int{2, 1, 1, 65}, dt: ops.Float32, scale: 3},
			{dims: [4]int{1, 1, 2, 4170}, mask: [4]int{1, 1, 2, 4170}, dt: ops.BFloat16, scale: 1},
		} {
			x := normal(c.dims, c.dt, uint64(i))
			for j := range x.v {
				x.v[j] = fit(c.dt, 0, float32(8*x.v[j]-1000)) // padding would be the largest; without the maximum all would be 0
			}
			tx := b.put(x, ops.Tile, dram)
			what := fmt.Sprintf("softmax of %v %v, mask %v", c.dt, c.dims, c.mask)
			var got *ops.Tensor
			var mask *plain
			switch {
			case c.scale == 0:
				c.scale = 1
				got = b.ok(b.Softmax(b.ctx, tx, -1))
			case c.mask[3] == 0:
				got = b.ok(b.ScaleMaskSoftmax(b.ctx, tx, nil, c.scale))
			default:
				mask = make4(c.mask, c.dt, func(_, _, h, w int) float64 {
					if w > h+1 && w%3 == 0 {
						return math.Inf(-1)
					}
					return float64(w % 4)
				})
				got = b.ok(b.ScaleMaskSoftmax(b.ctx, tx, b.put(mask, ops.Tile, l1), c.scale))
			}
			v := b.get(got)
			b.everywhere(what, v)
			relative := 0x1p-18
			if mask != nil || c.scale != 1 {
				relative += 0x1p-23 * 1100 * math.Abs(float64(c.scale))
			}
			b.near(what, c.dt, v, softmax(x, mask, float64(c.scale)).v, relative, 0x1p-126)
		}
	})
}
