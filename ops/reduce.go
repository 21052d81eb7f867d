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

// TopK returns the k largest elements of each row, largest first, and their indices: UInt16, or
// UInt32 if a row has more than 2^16 elements. With [WithSmallest] it finds the smallest. A row is
// the elements along the last dimension, or that of [WithDim]; both results have k there, and the
// operand's layout. Equal elements stay in order. NaN is beyond the infinity of its sign, and zeros
// of both signs are equal. TopK takes all data types, layouts and memories. [IntoEach] takes
// tensors for the values and the indices.
//
// A core needs 12 B of L1 for each of k, or 384 B for tiles.
func (d *Device) TopK(ctx context.Context, a *Tensor, k int, opts ...OpOption) (values, indices *Tensor, err error) {
	r := optionsOf(opts)
	args := argList{a, k, r.along(), !r.smallest, true}
	values, err = d.do(ctx, "ttnn::topk", args, func(c *call) (*Tensor, error) {
		if err := c.checkEach(2); err != nil {
			return nil, err
		}
		for _, t := range c.each {
			if l := a.spec.Layout; t.spec.Layout != l {
				return nil, memoryError("a result goes into a tensor in %v, and the operand is in %v", t.spec.Layout, l)
			}
		}
		shape, along := a.Shape(), fromEnd(c.along(), len(a.spec.Shape))
		if 0 <= along && along < len(shape) && (k < 1 || k > shape[along]) {
			return nil, shapeError("%d of %v: want a number from 1 to %d", k, shape, shape[along])
		}
		in, back, err := c.lastAlong(a, c.along())
		if err != nil {
			return nil, err
		}
		var first *Tensor
		if back == nil {
			first, indices, err = c.topK(a, k, c.each)
		} else {
			first, indices, err = c.topKMoved(in, a, k, back)
		}
		if err != nil {
			return nil, err
		}
		c.others = []*Tensor{indices}
		return first, nil
	}, opts...)
	if err != nil {
		return nil, nil, err
	}
	return values, indices, nil
}

func topKSpecs(a *Tensor, k int) (values, indices Spec) {
	values = a.spec.clone()
	values.Shape[len(values.Shape)-1] = k
	indices = values.clone()
	if indices.DType = UInt16; a.dims[3] > 1<<16 {
		indices.DType = UInt32
	}
	return values, indices
}

// topK searches along the last dimension. each is two tensors for the results, or nil.
func (c *call) topK(a *Tensor, k int, each []*Tensor) (values, indices *Tensor, err error) {
	own := c.result
	defer func() { c.result = own }()
	second := (*Tensor)(nil)
	if each != nil {
		c.into, second = each[0], each[1]
	}
	s, numbers := topKSpecs(a, k)
	c.place(&s, a)
	numbers.Memory = s.Memory
	args := argList{a, k, -1, !c.smallest, true, s.Memory}
	values, err = c.deviceOp("topk", "TopKDeviceOperation", args, s, func(out *Tensor) error {
		first := c.into
		c.into = second
		var err error
		indices, err = c.output(numbers)
		c.into = first
		if err != nil {
			return err
		}
		rows := 1
		if out.spec.Layout == Tile {
			rows = min(tileSize, out.dims[2])
		}
		if err := c.run(job{
			program: catalog.TopK, args: []uint32{uint32(k), flag(c.smallest)}, out: out, in: []*Tensor{a, indices},
			pieces:  out.pages / out.wide,
			buffers: []ring{{max(out.pageBytes, a.pageBytes, indices.pageBytes), 1}, {12 * k * rows, 1}},
		}); err != nil {
			if second == nil {
				err = release(err, indices)
			}
			return err
		}
		return nil
	})
	return values, indices, err
}

// topKMoved searches along a dimension that was moved to the end, and moves it back in both
// results.
func (c *call) topKMoved(in, a *Tensor, k int, back []int) (values, indices *Tensor, err error) {
	s, numbers := topKSpecs(in, k)
	var found [2]*Tensor
	for i, s := range []Spec{s, numbers} {
		if found[i], err = c.scratch(1+i, s); err != nil {
			return nil, nil, err
		}
	}
	if _, _, err := c.topK(in, k, found[:]); err != nil {
		return nil, nil, err
	}
	var moved [2]*Tensor
	err = c.results(moved[:], func(i int) (*Tensor, error) { return c.movedBack(found[i], a, back) })
	return moved[0], moved[1], err
}
