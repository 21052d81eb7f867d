package ops

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/ops/graph"
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
	return d.do(ctx, "ttnn::typecast", []*Tensor{a}, func() []graph.Arg { return []graph.Arg{a.arg(), text(to)} },
		func(c *call) (*Tensor, error) {
			if to >= numDataTypes || to == BFloat8B {
				return nil, fmt.Errorf("%w: %v: want one of elements that stand alone (see Host.Convert for BFloat8B)", ErrDataType, to)
			}
			s := a.geo.spec.clone()
			s.DType, s.Memory = to, c.memoryLike(a, s.Shape, s.Layout)
			from := a.geo.spec.DType
			args := func() []graph.Arg { return []graph.Arg{a.arg(), text(from), text(to), text(s.Memory)} }
			if from == to {
				return c.unary(opCopy, "ttnn::prim::typecast", "TypecastDeviceOperation", args, a, s)
			}
			return c.deviceOp("ttnn::prim::typecast", "TypecastDeviceOperation", args, s, func(out *Tensor) error {
				if tilesForEngines(a, out) {
					return c.run(engineEach("typecast", "to_"+engineFormats[to].String(), out, a))
				}
				return c.run(job{kernel: kernelConvert, out: out, in: []*Tensor{a}, buffers: rings(1, a.geo.pageBytes, out.geo.pageBytes)})
			})
		}, opts...)
}

// tilesForEngines reports whether tensors are tiles of BFloat16, Float32 or Int32.
func tilesForEngines(ts ...*Tensor) bool {
	for _, t := range ts {
		if s := t.geo.spec; s.Layout != Tile || !s.DType.Float() && s.DType != Int32 {
			return false
		}
	}
	return true
}
