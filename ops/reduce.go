package ops

import (
	"context"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Sum returns the sums along a dimension, which becomes 1; -1 is the last one. The tensor is one of floats in tile layout. Sums have 32
// bits and are rounded once. Along one of the last two dimensions the matrix unit sums, which takes 11 bits of the significand of
// Float32 elements, as in TT-NN; along another one the vector unit, which takes all bits.
func (d *Device) Sum(ctx context.Context, a *Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.reduce(ctx, "sum", a, dim, opts)
}

// Mean returns the means along a dimension: sums of elements times 1/n, which along one of the last two dimensions has the precision of
// the tensor's elements as in TT-NN: 8 bits, or 11 of Float32. The tensor and the dimension are as for [Device.Sum].
func (d *Device) Mean(ctx context.Context, a *Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.reduce(ctx, "mean", a, dim, opts)
}

// Max returns the largest elements along a dimension. The tensor and the dimension are as for [Device.Sum].
func (d *Device) Max(ctx context.Context, a *Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.reduce(ctx, "max", a, dim, opts)
}

func (d *Device) reduce(ctx context.Context, op string, a *Tensor, dim int, opts []OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::"+op, []*Tensor{a}, argList{a, dim}, func(c *call) (*Tensor, error) {
		if err := floatTiles(a); err != nil {
			return nil, err
		}
		s := a.geo.spec.clone()
		rank := len(s.Shape)
		along, err := dimension(dim, s.Shape)
		if err != nil {
			return nil, err
		}
		rows, n := along != rank-1, s.Shape[along]
		s.Shape[along] = 1
		s.Memory = c.memoryLike(a, s.Shape, s.Layout)
		args := argList{a, op, dim, s.Memory}
		return c.compute("ttnn::prim::reduce", "ReduceDeviceOperation", args, s, func(out *Tensor) job {
			if along < rank-2 {
				return engineFold(op, along == rank-3, n, out, a)
			}
			return engineReduce(op, rows, n, out, a)
		})
	}, opts...)
}

// engineReduce returns the job that reduces n rows or columns of a tensor of tiles.
func engineReduce(op string, rows bool, n int, out, a *Tensor) job {
	each, factor, padding := a.geo.wide, float32(1), uint32(0)
	var maxima, byRows uint32
	if rows {
		each, byRows = a.geo.high, 1
	}
	switch op {
	case "max":
		maxima, padding = 1, math.Float32bits(float32(math.Inf(-1)))
		if a.geo.spec.DType == BFloat16 {
			padding >>= 16
		}
	case "mean":
		factor = 1 / float32(n)
	}
	word := math.Float32bits(factor)
	if a.geo.spec.DType == BFloat16 {
		word = (word + 0x7FFF + word>>16&1) >> 16
		word |= word << 16
	}
	return job{
		program: catalog.Reduce, args: []uint32{byRows, padding, word}, out: out, in: []*Tensor{a},
		engineArgs: []uint32{uint32(each), maxima, byRows}, buffers: tiles(2, 2, 1, 1),
	}
}

// engineFold returns the job that reduces the first or the second of four dimensions, of n, of a tensor of tiles.
func engineFold(op string, second bool, n int, out, a *Tensor) job {
	var maxima, inSecond uint32
	factor := float32(1)
	if second {
		inSecond = 1
	}
	switch op {
	case "max":
		maxima = 1
	case "mean":
		factor /= float32(n)
	}
	return job{
		program: catalog.Fold, args: []uint32{inSecond}, out: out, in: []*Tensor{a},
		engineArgs: []uint32{uint32(n), maxima, math.Float32bits(factor)}, buffers: tiles(2, 2),
	}
}
