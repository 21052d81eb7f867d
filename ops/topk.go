package ops

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/ops/graph"
)

// TopK returns the k largest elements of each row, largest first, and their indices: UInt16, or UInt32 if a row has more than 2^16
// elements. Of equal elements the first comes first. NaN is larger than any number, and zeros of both signs are equal. It takes all
// data types, layouts and memories; both results have the operand's layout. [IntoEach] takes tensors for the values and the
// indices.
//
// It takes time for each element and, where elements get larger along a row, for each and k. A core has 12 B of memory for each of k,
// for tiles 384 B. The error wraps [ErrShape] if k isn't from 1 to the width of the tensor.
func (d *Device) TopK(ctx context.Context, a *Tensor, k int, opts ...OpOption) (values, indices *Tensor, err error) {
	args := func() []graph.Arg { return []graph.Arg{a.arg(), text(k), text(-1), text(true), text(true)} }
	values, err = d.do(ctx, "ttnn::topk", []*Tensor{a}, args, func(c *call) (*Tensor, error) {
		g := a.geo
		if k < 1 || k > g.dims[3] {
			return nil, fmt.Errorf("%w: %d of %v: want a number from 1 to %d", ErrShape, k, g.spec.Shape, g.dims[3])
		}
		if c.into != nil || c.each != nil && len(c.each) != 2 {
			return nil, fmt.Errorf("%w: there are two results, and %d tensors to write them to: see IntoEach", ErrShape, max(len(c.each), 1))
		}
		second := (*Tensor)(nil)
		if c.each != nil {
			c.into, second = c.each[0], c.each[1]
		}
		for _, t := range c.each {
			if err := t.checkLocked(d); err != nil {
				return nil, err
			}
			if t == a || t.geo.spec.Layout != g.spec.Layout {
				return nil, fmt.Errorf("%w: a result goes into another tensor than the operand, of the same layout", ErrMemory)
			}
		}
		s := g.spec.clone()
		s.Shape[len(s.Shape)-1] = k
		s.Memory = c.memoryLike(a, s.Shape, s.Layout)
		numbers := s.clone()
		if numbers.DType = UInt16; g.dims[3] > 1<<16 {
			numbers.DType = UInt32
		}
		more := func() []graph.Arg { return append(args(), text(s.Memory)) }
		return c.deviceOp("ttnn::prim::topk", "TopKDeviceOperation", more, s, func(out *Tensor) error {
			first := c.into
			c.into = second
			var err error
			indices, err = c.output(numbers)
			c.into = first
			if err != nil {
				return err
			}
			if err := c.run(topK(k, out, a, indices)); err != nil {
				if second == nil {
					err = c.discard(err, indices)
				}
				return err
			}
			return nil
		})
	}, opts...)
	if err != nil {
		return nil, nil, err
	}
	return values, indices, nil
}

// topK returns the job that finds the largest elements of rows.
func topK(k int, out, a, indices *Tensor) job {
	rows := 1
	if out.geo.spec.Layout == Tile {
		rows = min(tileSize, out.geo.dims[2])
	}
	return job{
		kernel: kernelTopK, args: []uint32{uint32(k)}, out: out, in: []*Tensor{a, indices}, pieces: out.geo.pages / out.geo.wide,
		buffers: []ring{{max(out.geo.pageBytes, a.geo.pageBytes, indices.geo.pageBytes), 1}, {12 * k * rows, 1}},
	}
}
