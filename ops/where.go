package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Where returns the elements of a where those of condition are not zero, and those of b elsewhere. The tensors are of one data type,
// floats in tile layout. A dimension that is 1 in some of them is repeated.
//
// Errors wrap [ErrDataType], [ErrMemory] for a tensor that isn't in tile layout, or [ErrShape].
func (d *Device) Where(ctx context.Context, condition, a, b *Tensor, opts ...OpOption) (*Tensor, error) {
	in := []*Tensor{condition, a, b}
	args := argList{condition, a, b}
	return d.do(ctx, "ttnn::where", in, args, func(c *call) (*Tensor, error) {
		if err := floatTiles(in...); err != nil {
			return nil, err
		}
		s, err := c.repeatedTogether(in)
		if err != nil {
			return nil, err
		}
		args := argList{condition, a, b, s.DType, s.Memory}
		return c.compute("ttnn::prim::where", "TernaryDeviceOperation", args, s, func(out *Tensor) job {
			return job{program: catalog.Where, args: []uint32{3}, out: out, in: in, buffers: tiles(2, 2, 2, 2)}
		})
	}, opts...)
}

// repeatedTogether returns the spec of a result with the dimensions of all tensors, where those that are 1 are repeated.
func (c *call) repeatedTogether(in []*Tensor) (Spec, error) {
	shape, rank := [4]int{1, 1, 1, 1}, 0
	for _, t := range in {
		rank = max(rank, len(t.geo.spec.Shape))
		if have, want := t.geo.spec.DType, in[0].geo.spec.DType; have != want {
			return Spec{}, fmt.Errorf("%w: %v and %v", ErrDataType, want, have)
		}
		for i, n := range t.geo.dims {
			if n != 1 && shape[i] != 1 && n != shape[i] {
				return Spec{}, fmt.Errorf("%w: %v and %v: dimensions are equal, or 1", ErrShape, shape, t.geo.spec.Shape)
			}
			shape[i] = max(shape[i], n)
		}
	}
	s := Spec{Shape: shape[4-rank:], DType: in[0].geo.spec.DType, Layout: Tile}
	like := in[0]
	for _, t := range slices.Backward(in) {
		if slices.Equal(t.geo.spec.Shape, s.Shape) {
			like = t
		}
	}
	s.Memory = c.memoryLike(like, s.Shape, s.Layout)
	return s, nil
}
