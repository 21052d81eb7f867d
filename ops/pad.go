package ops

import (
	"context"
	"fmt"
	"math"
)

// Pad returns a tensor with more elements around those of another one: padding[i] is how many come before and after them in
// dimension i. The elements have a value, converted to the data type. It takes all data types, layouts and memories. Whole pages
// are copied where padding leaves them whole: of row-major tensors if the last dimension has none, of tiles if padding of the last
// two dimensions adds whole tiles. The error wraps [ErrShape] if padding doesn't have a pair for each dimension, or is negative.
func (d *Device) Pad(ctx context.Context, a *Tensor, padding [][2]int, value float64, opts ...OpOption) (*Tensor, error) {
	args := argList{a, padding, value}
	return d.do(ctx, "ttnn::pad", args, func(c *call) (*Tensor, error) {
		s := a.geo.spec.clone()
		if len(padding) != len(s.Shape) {
			return nil, fmt.Errorf("%w: padding %v of %v: want a pair for each dimension", ErrShape, padding, s.Shape)
		}
		m := whole(a.geo.dims)
		m.value = s.DType.element(value)
		for i, p := range padding {
			if p[0] < 0 || p[1] < 0 || p[0] > maxElements || p[1] > maxElements {
				return nil, fmt.Errorf("%w: padding %v of %v: want numbers of elements from 0", ErrShape, padding, s.Shape)
			}
			s.Shape[i] += p[0] + p[1]
			m.axes[4-len(padding)+i].before = p[0]
		}
		if _, err := volume(s.Shape); err != nil {
			return nil, err
		}
		s.Memory = c.memoryLike(a, s.Shape, s.Layout)
		return c.deviceOp("ttnn::prim::pad", "PadDeviceOperation", args, s, func(out *Tensor) error { return c.rearrange(m, out, a) })
	}, opts...)
}

// element returns the bits of a number as an element: an integer wraps around, a float is rounded to nearest.
func (t DataType) element(v float64) uint32 {
	if !t.Float() {
		return uint32(int64(v))
	}
	var b [4]byte
	t.put(b[:], math.Float32bits(float32(v)))
	return t.bits(b[:])
}
