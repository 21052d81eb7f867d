package ops

import (
	"context"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Sum returns the sums along a dimension, which becomes 1; -1 is the last one. The tensor is floats
// in tile layout. Sums have 32 bits and are rounded once. Along one of the last two dimensions the
// matrix unit takes 11 bits of the significand of Float32 elements, as in TT-NN; along another one
// all bits count. A sum of no elements is 0.
func (d *Device) Sum(ctx context.Context, a *Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.reduce(ctx, "sum", a, dim, opts)
}

// Mean is [Device.Sum] of elements times 1/n. Along one of the last two dimensions 1/n has 8 bits,
// or 11 for Float32, as in TT-NN. A mean of no elements is NaN, as in PyTorch.
func (d *Device) Mean(ctx context.Context, a *Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.reduce(ctx, "mean", a, dim, opts)
}

// Max returns the largest elements along a dimension, as [Device.Sum] the sums. NaN is beyond the
// infinity of its sign. A maximum of no elements is an error that wraps [ErrShape].
func (d *Device) Max(ctx context.Context, a *Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.reduce(ctx, "max", a, dim, opts)
}

func (d *Device) reduce(ctx context.Context, op string, a *Tensor, dim int, opts []OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::"+op, argList{a, dim}, func(c *call) (*Tensor, error) {
		if err := floatTiles(a); err != nil {
			return nil, err
		}
		shape := a.Shape()
		rank := len(shape)
		along, err := dimension(dim, shape)
		if err != nil {
			return nil, err
		}
		rows, n := along != rank-1, shape[along]
		shape[along] = 1
		s := c.shaped(a, shape)
		args := argList{a, op, dim, s.Memory}
		return c.deviceOp("reduce", "ReduceDeviceOperation", args, s, func(out *Tensor) error {
			switch {
			case n == 0 && op == "sum":
				return c.fill(out, 0)
			case n == 0 && op == "mean":
				return c.fill(out, out.spec.DType.element(math.NaN()))
			}
			factor, t := float32(1), a.spec.DType
			if op == "mean" {
				factor /= float32(n)
			}
			if along < rank-2 {
				step := product(a.spec.Shape[along+1:rank-2]) * a.high * a.wide // tiles from one element to the next
				return c.run(job{
					program: catalog.Fold, args: words(n, step), out: out, in: []*Tensor{a},
					engineArgs: []uint32{uint32(n), flag(op == "max"), math.Float32bits(factor)}, buffers: tiles(2, 2),
				})
			}
			each, padding := a.wide, uint32(0)
			if rows {
				each = a.high
			}
			if op == "max" {
				padding = t.lowest()
			}
			return c.run(job{
				program: catalog.Reduce, args: []uint32{flag(rows), padding, elementWord(t, t.element(float64(factor)))}, out: out,
				in: []*Tensor{a}, engineArgs: []uint32{uint32(each), flag(op == "max"), flag(rows)}, buffers: tiles(2, 2, 1, 1),
			})
		})
	}, opts...)
}

// lowest returns the bits of minus infinity as an element.
func (t DataType) lowest() uint32 {
	bits := math.Float32bits(float32(math.Inf(-1)))
	if t == BFloat16 {
		bits >>= 16
	}
	return bits
}
