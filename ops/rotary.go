package ops

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// AllRows is the position of [Device.RotaryEmbedding] for rows at positions of their own.
const AllRows = -1

// RotaryEmbedding turns pairs of elements of each row by an angle that depends on the row's
// position, as TT-NN's rotary_embedding. It has the form of Hugging Face's models, where element i
// of a row is paired with element i + width/2:
//
//	y = x cos + rotate(x) sin, where rotate(x) is the negative right half of the row, then the left half.
//
// (The Llama authors' checkpoints pair neighbours; permuting the weights' columns converts them.)
//
// The tensor is [batches, heads, rows, width]; width is a multiple of 64. cos and sin have a row
// for each position, with the same angle for both elements of a pair: [1, 1, positions, width], or
// the tensor's batches and heads instead of 1. With [AllRows], row i is at position i. Otherwise
// all rows are at the given position, as in decoding, and in a capture [WithParam] makes it a
// parameter of the trace; beyond the last row of cos the last row is taken.
//
// All are floats of one data type in tile layout. BFloat16 products are exact, and their sum in 32
// bits is rounded once; each Float32 product is rounded.
func (d *Device) RotaryEmbedding(ctx context.Context, x, cos, sin *Tensor, position int, opts ...OpOption) (*Tensor, error) {
	args := argList{x, cos, sin, position}
	return d.do(ctx, "ttnn::experimental::rotary_embedding", args, func(c *call) (*Tensor, error) {
		if err := sameKind(x, cos, sin); err != nil {
			return nil, err
		}
		a, b := x.dims, cos.dims
		if a[3]%(2*tileSize) != 0 {
			return nil, shapeError("rows of %d elements: want a multiple of %d", a[3], 2*tileSize)
		}
		if b != sin.dims || b[3] != a[3] || b[0] != 1 && b[0] != a[0] || b[1] != 1 && b[1] != a[1] {
			return nil, shapeError("%v with cosines of %v and sines of %v: want two equal tensors, as wide, with a row for each position",
				x.spec.Shape, cos.spec.Shape, sin.spec.Shape)
		}
		at, one := uint32(position), uint32(1)
		switch {
		case position == AllRows && b[2] < a[2]:
			return nil, shapeError("%d rows, and cosines of %d positions: want one for each row", a[2], b[2])
		case position == AllRows:
			at, one = 0, 0
		case position < 0 || position >= b[2]:
			return nil, shapeError("position %d: cosines are of positions 0 to %d", position, b[2]-1)
		}
		if c.param != "" && one == 0 {
			return nil, fmt.Errorf("%w: rows at their own positions have none that could be parameter %q", ErrNoParam, c.param)
		}
		s := c.like(x)
		return c.compute("rotary_embedding", "RotaryEmbeddingDeviceOperation", args, s, func(out *Tensor) job {
			return job{
				program: catalog.Rotary, params: []uint32{at}, args: []uint32{one}, out: out, in: []*Tensor{x, cos, sin},
				engineArgs: words(out.wide), buffers: tiles(2, 4, 4),
			}
		})
	}, opts...)
}
