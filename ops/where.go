package ops

import (
	"context"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Where returns the elements of a where those of condition are not zero, and those of b elsewhere. The tensors are of one data type,
// floats in tile layout. A dimension that is 1 in some of them is repeated.
//
// Errors wrap [ErrDataType], [ErrMemory] for a tensor that isn't in tile layout, or [ErrShape].
func (d *Device) Where(ctx context.Context, condition, a, b *Tensor, opts ...OpOption) (*Tensor, error) {
	in := []*Tensor{condition, a, b}
	return d.do(ctx, "ttnn::where", argList{condition, a, b}, func(c *call) (*Tensor, error) {
		if err := floatTiles(in...); err != nil {
			return nil, err
		}
		s, err := c.together(in...)
		if err != nil {
			return nil, err
		}
		args := argList{condition, a, b, s.DType, s.Memory}
		return c.compute("ttnn::prim::where", "TernaryDeviceOperation", args, s, func(out *Tensor) job {
			return job{program: catalog.Where, args: []uint32{3}, out: out, in: in, buffers: tiles(2, 2, 2, 2)}
		})
	}, opts...)
}
