package ops

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/ops/graph"
)

// Matmul multiplies the matrices in the last two dimensions. The other dimensions are equal, or 1 in one of the tensors. The
// result has the operands' data type or that of [WithDataType], to which it is converted once, at the end.
//
// Tiles of floats are multiplied by the engines, if the result is in tile layout too: with all bits of the operands (HiFi4) and
// sums in 32 bits, whatever the data types. Of BFloat16, the error of a sum is at most 2^-12 of the sum of the absolute values
// of its products; rounding to BFloat16 adds 2^-8 of the result. Of Float32 the engines take 11 bits of the significand (TF32),
// as in TT-NN: each product adds an error of 2^-10 of itself. TT-NN's default for bfloat16 is half the phases (HiFi2) and sums
// in 16 bits; its options for the arithmetic used here are HiFi4 and fp32_dest_acc_en.
//
// For any other tensors each element is the sum of its products in the order of their indices; products and sums are rounded
// to single precision, and integers are summed in 32 bits.
func (d *Device) Matmul(ctx context.Context, a, b *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::matmul", []*Tensor{a, b}, func() []graph.Arg { return []graph.Arg{a.arg(), b.arg()} }, func(c *call) (*Tensor, error) {
		x, y := a.geo.spec, b.geo.spec
		if x.DType != y.DType {
			return nil, fmt.Errorf("%w: %v and %v", ErrDataType, x.DType, y.DType)
		}
		shape := [4]int{0, 0, a.geo.dims[2], b.geo.dims[3]}
		fits := a.geo.dims[3] == b.geo.dims[2] && len(x.Shape) > 1 && len(y.Shape) > 1
		for i := range 2 {
			m, n := a.geo.dims[i], b.geo.dims[i]
			fits = fits && (m == n || m == 1 || n == 1)
			shape[i] = max(m, n)
		}
		if !fits {
			return nil, fmt.Errorf("%w: %v times %v: the width of the left is the height of the right, and the dimensions before are equal or 1", ErrShape, x.Shape, y.Shape)
		}
		s := Spec{Shape: shape[4-max(len(x.Shape), len(y.Shape)):], DType: x.DType, Layout: x.Layout}
		s.Memory = c.memoryLike(a, s.Shape, s.Layout)
		if c.dtype != nil {
			if s.DType = *c.dtype; s.DType >= numDataTypes || s.DType.Float() != x.DType.Float() {
				return nil, fmt.Errorf("%w: a product of %v can't be %v", ErrDataType, x.DType, s.DType)
			}
		}
		args := func() []graph.Arg { return []graph.Arg{a.arg(), b.arg(), text(s.DType), text(s.Memory)} }
		return c.deviceOp("ttnn::prim::matmul", "MatmulDeviceOperation", args, s, func(out *Tensor) error {
			if onEngines(out, a, b) {
				return c.run(engineMatmul(out, a, b))
			}
			return c.run(job{
				kernel: kernelMatmul, out: out, in: []*Tensor{a, b},
				buffers: rings(1, a.geo.pageBytes, b.geo.pageBytes, out.geo.pageBytes, out.geo.pageBytes/s.DType.Size()*4),
			})
		})
	}, opts...)
}

// ArgMax returns the index of the largest element of each row, as UInt32: the first one if several are equal. NaN is larger
// than any number. The last dimension of the result is 1; it is left out if keep is false and there are others. The result is
// row major and, unless an option says otherwise, interleaved in the operand's memory.
func (d *Device) ArgMax(ctx context.Context, a *Tensor, keep bool, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::argmax", []*Tensor{a}, func() []graph.Arg { return []graph.Arg{a.arg(), text(-1), text(keep)} }, func(c *call) (*Tensor, error) {
		shape := a.Shape()
		if last := len(shape) - 1; keep || last == 0 {
			shape[last] = 1
		} else {
			shape = shape[:last]
		}
		s := Spec{Shape: shape, DType: UInt32, Layout: RowMajor, Memory: Interleaved(a.geo.spec.Memory.Kind)}
		if c.memory != nil {
			s.Memory = c.memory.clone()
		}
		return c.deviceOp("ttnn::prim::argmax", "ArgMaxDeviceOperation", func() []graph.Arg { return []graph.Arg{a.arg(), text(-1), text(s.DType), text(s.Memory)} }, s, func(out *Tensor) error {
			return c.run(job{kernel: kernelArgMax, out: out, in: []*Tensor{a}, buffers: rings(2, max(a.geo.pageBytes, out.geo.pageBytes))})
		})
	}, opts...)
}
