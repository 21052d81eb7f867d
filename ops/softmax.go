package ops

import (
	"context"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Softmax returns e^(x - m) / s for each element x, where m is the largest element of its row and s
// the sum of the row's e^(x - m). A row is the elements along dimension dim; -1 is the last one.
// The tensor is one of BFloat16 or Float32 in tile layout, and so is the result, of the tensor's
// shape and data type. Padding doesn't count.
//
// The vector unit computes in fp32, as TT-NN does with fp32_dest_acc_en and numeric_stable: the
// error is at most 2^-18 of the result plus 2^-126, and that of rounding to BFloat16. A row stays
// in the L1 of its core if it takes no more than 512 KiB, and is read three times otherwise. Up to
// 85 tiles of BFloat16 are a row whose e^(x - m) stay there too; they are computed twice otherwise.
// For another dimension than the last one the tensor is permuted before and after, in memory as
// [WithDim] has it.
//
// Errors wrap [ErrDataType], [ErrMemory] for a tensor that isn't in tile layout, or [ErrShape] for
// a dimension that it doesn't have.
func (d *Device) Softmax(ctx context.Context, a *Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::softmax", argList{a, dim}, func(c *call) (*Tensor, error) {
		if err := floatTiles(a); err != nil {
			return nil, err
		}
		t, back, err := c.lastAlong(a, dim)
		if err != nil {
			return nil, err
		}
		if back == nil {
			return c.softmax(a, nil, 1)
		}
		out, err := c.scratch(1, t.geo.spec)
		if err != nil {
			return nil, err
		}
		if err := c.leaving(out, func() (*Tensor, error) { return c.softmax(t, nil, 1) }); err != nil {
			return nil, err
		}
		return c.movedBack(out, a, back)
	}, opts...)
}

// ScaleMaskSoftmax is [Device.Softmax] of scale times the tensor, plus a mask, over the last dimension, as attention needs it. The mask
// is nil, or it has the tensor's data type, tile layout and width, and each of its other dimensions is that of the tensor or 1; it
// typically has zeros, and minus infinity where an element must not count. A row must have an element that counts. The scale is a
// number other than 0. The scaled and masked element v is rounded to fp32, which adds 2^-23 of the largest |v| of the row to the error.
func (d *Device) ScaleMaskSoftmax(ctx context.Context, a, mask *Tensor, scale float32, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::scale_mask_softmax", argList{a, scale, optional(mask)}, func(c *call) (*Tensor, error) {
		return c.softmax(a, mask, scale)
	}, opts...)
}

func (c *call) softmax(a, mask *Tensor, scale float32) (*Tensor, error) {
	if !(scale >= -math.MaxFloat32 && scale <= math.MaxFloat32) || scale == 0 {
		return nil, fmt.Errorf("%w: a scale of %v: want a finite number other than 0", ErrShape, scale)
	}
	if mask != nil {
		if err := a.fitsMask(mask); err != nil {
			return nil, err
		}
	}
	if err := floatTiles(present(a, mask)...); err != nil {
		return nil, err
	}
	s := c.like(a)
	args := argList{a, optional(mask), scale, s.Memory}
	return c.compute("ttnn::prim::softmax", "SoftmaxDeviceOperation", args, s, func(out *Tensor) job {
		o := rowOperation{program: catalog.Softmax, args: []uint32{flag(mask != nil), math.Float32bits(scale)}, passes: 3, mask: mask, keeps: true}
		return o.job(out, a)
	})
}

// fitsMask returns an error unless a mask fits the tensor.
func (t *Tensor) fitsMask(mask *Tensor) error {
	if have, want := mask.geo.spec.DType, t.geo.spec.DType; have != want {
		return fmt.Errorf("%w: a mask of %v for a tensor of %v: want that of the tensor (see Typecast)", ErrDataType, have, want)
	}
	for i, n := range mask.geo.dims {
		if n != t.geo.dims[i] && (n != 1 || i == 3) {
			return fmt.Errorf("%w: a mask of %v for a tensor of %v: want its width, and its other dimensions or 1", ErrShape, mask.geo.spec.Shape,
				t.geo.spec.Shape)
		}
	}
	return nil
}
