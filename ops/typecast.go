package ops

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Typecast converts the elements of a tensor to another data type; the result has the tensor's shape and layout. Floats become
// integers towards zero, and the nearest integer of the type if they don't fit. Integers become the nearest float. Integers become
// narrower ones by their low bits.
//
// The engines convert tiles between BFloat16, Float32 and Int32: NaN becomes the largest Int32 then, numbers below the range
// -2^31 + 1, and BFloat16 is rounded to with ties away from zero. RISC-V cores convert everything else, which is slow: NaN becomes 0,
// and ties go to the even number.
//
// Errors wrap [ErrDataType] for BFloat8B, and for a data type that doesn't exist.
func (d *Device) Typecast(ctx context.Context, a *Tensor, to DataType, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::typecast", argList{a, to}, func(c *call) (*Tensor, error) {
		if to >= numDataTypes || to == BFloat8B {
			return nil, fmt.Errorf("%w: %v: want one of elements that stand alone (see Host.Convert for BFloat8B)", ErrDataType, to)
		}
		s := a.geo.spec.clone()
		s.DType, s.Memory = to, c.memoryLike(a, s.Shape, s.Layout)
		from := a.geo.spec.DType
		args := argList{a, from, to, s.Memory}
		if from == to {
			return c.unary(opCopy, "ttnn::prim::typecast", "TypecastDeviceOperation", args, a, s)
		}
		return c.deviceOp("ttnn::prim::typecast", "TypecastDeviceOperation", args, s, func(out *Tensor) error {
			if tilesForEngines(a, out) {
				return c.run(each(catalog.Typecast, catalog.ToFormat(to.format()), out, a))
			}
			return c.run(job{program: catalog.Convert, out: out, in: []*Tensor{a}, buffers: rings(1, a.geo.pageBytes, out.geo.pageBytes)})
		})
	}, opts...)
}
