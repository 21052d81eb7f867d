package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// Matmul multiplies the matrices in the last two dimensions. The other dimensions are equal, or 1
// in one of the tensors. Matrices without columns times ones without rows are zeros. The result has
// the operands' data type or that of [WithDataType]; it is rounded once.
//
// The engines multiply floats with all bits of the operands (HiFi4) and sums in 32 bits. For
// BFloat16 the error of a sum is at most 2^-11 of the sum of the absolute values of its products;
// rounding to BFloat16 adds 2^-8 of the result. Of Float32 the engines take 11 bits of the
// significand (TF32) and cut off the others, as in TT-NN: each product adds an error of up to 2^-9
// of itself. TT-NN's options for this arithmetic are HiFi4 and fp32_dest_acc_en; its default for
// bfloat16 is HiFi2 and sums in 16 bits.
//
// About one in twenty million sums of 128 products is wrong on Wormhole: see docs/operations.md.
//
// The right operand of tiles of floats may be BFloat8B. A row-major result needs L1 for 32 of its
// rows on a core. RISC-V cores sum integers in 32 bits.
func (d *Device) Matmul(ctx context.Context, a, b *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::matmul", append(argList{a, b}, productOptions(optionsOf(opts))...), func(c *call) (*Tensor, error) {
		return c.matmul("matmul", a, b, nil)
	}, opts...)
}

// Linear is [Device.Matmul] of tensors that the engines multiply, plus a bias before rounding, with
// a function by [WithActivation]. The bias is nil, or it has the operands' data type, tile layout
// and one row for the whole result or for each of its matrices.
func (d *Device) Linear(ctx context.Context, a, b, bias *Tensor, opts ...OpOption) (*Tensor, error) {
	args := append(argList{a, b, optional(bias)}, productOptions(optionsOf(opts))...)
	return d.do(ctx, "ttnn::linear", args, func(c *call) (*Tensor, error) {
		others := slices.DeleteFunc(present(a, b, bias), func(t *Tensor) bool { return t == b && t.spec.DType == BFloat8B })
		if err := floatTiles(others...); err != nil {
			return nil, err
		}
		return c.matmul("linear", a, b, bias)
	}, opts...)
}

func (c *call) matmul(title string, x, y, bias *Tensor) (*Tensor, error) {
	a, b := c.operands(x, y)
	s, err := c.product(a, b, bias)
	if err != nil {
		return nil, err
	}
	args := append(argList{x, y, s.DType, s.Memory}, productOptions(c.result)...)
	return c.deviceOp("matmul", "MatmulDeviceOperation", args, s, func(out *Tensor) error {
		engines := onEngines(out, x) && (onEngines(y) || y.spec.DType == BFloat8B)
		switch {
		case engines:
		case y.spec.DType == BFloat8B:
			return floatTiles(x, out)
		case bias != nil || c.activation != "" || c.matmulProgram != (MatmulProgram{}):
			return floatTiles(x, y, out)
		}
		if out.empty() || x.empty() && bias == nil {
			return c.fill(out, 0)
		}
		in, err := c.aligned(out, present(x, y, bias)...)
		if err != nil {
			return err
		}
		if bias != nil {
			bias = in[2]
		}
		a.Tensor, b.Tensor = in[0], in[1]
		switch {
		case engines:
			return c.multiply(title, out, a, b, bias)
		case floats(x):
			return c.run(engineMatmulRows(out, a, b))
		}
		return c.run(job{
			program: catalog.MatmulIntegers, out: out, in: in, transposed: [2]bool{a.transposed, b.transposed},
			buffers: rings(1, a.pageBytes, b.pageBytes, out.pageBytes, out.pageBytes/s.DType.Size()*4),
		})
	})
}

func productOptions(r result) (args argList) {
	if r.transposeA {
		args = append(args, "transpose_a=true")
	}
	if r.transposeB {
		args = append(args, "transpose_b=true")
	}
	if r.activation != "" {
		args = append(args, "activation="+string(r.activation))
	}
	return args
}

// multiply computes a product on the engines, in the faster form.
func (c *call) multiply(title string, out *Tensor, a, b operand, bias *Tensor) error {
	simple := engineMatmul(out, a, b, bias, string(c.activation))
	simple.title = title
	k, err := c.blocks(out, a, b, bias)
	if err != nil {
		return err
	}
	if k == nil {
		return c.run(simple)
	}
	blocked, err := k.job(c, out, a, b, bias)
	if err != nil {
		return err
	}
	blocked.title = title
	if c.matmulProgram != (MatmulProgram{}) || b.spec.DType == BFloat8B {
		return c.run(blocked)
	}
	// Tensors in L1 may leave no room for blocks. A trace takes the program that was loaded then.
	if c.rec != nil && !c.isLoaded(blocked) && c.isLoaded(simple) {
		return c.run(simple)
	}
	err = c.run(blocked)
	if errors.Is(err, allocator.ErrOutOfMemory) || errors.Is(err, allocator.ErrOccupied) {
		return c.run(simple)
	}
	return err
}

func (c *call) product(a, b operand, bias *Tensor) (Spec, error) {
	x, y := a.spec, b.spec
	weights := y.DType == BFloat8B && x.DType.Float()
	if x.DType != y.DType && !weights || x.DType == BFloat8B || bias != nil && bias.spec.DType != x.DType {
		return Spec{}, typeError("%v and %v: operands and bias have one, but the right operand of floats may be BFloat8B",
			x.DType, y.DType)
	}
	left, right := a.size(), b.size()
	var shape []int
	fits := left[1] == right[0] && len(x.Shape) > 1 && len(y.Shape) > 1
	if fits {
		shape, fits = broadcast(x.Shape[:len(x.Shape)-2], y.Shape[:len(y.Shape)-2])
	}
	if !fits {
		return Spec{}, shapeError("%v times %v: want two or more dimensions, where the width of the left is the height of the right, "+
			"and the dimensions before are equal or 1", a.text(), b.text())
	}
	shape = append(shape, left[0], right[1])
	if bias != nil {
		d := bias.dims
		if !fitsInto(bias.spec.Shape, shape) || d[3] != right[1] || d[2] != 1 {
			return Spec{}, shapeError("a bias of %v for a product of %v: want one row of it", bias.spec.Shape, shape)
		}
	}
	s := Spec{Shape: shape, DType: x.DType, Layout: x.Layout}
	c.place(&s, a.Tensor)
	if c.dtype != nil {
		if s.DType = *c.dtype; s.DType >= numDataTypes || s.DType.Float() != x.DType.Float() {
			return Spec{}, typeError("a product of %v can't be %v", x.DType, s.DType)
		}
	}
	return s, nil
}

// ArgMax returns the index of the largest element of each row, as UInt32: the first one if several
// are equal. NaN is beyond the infinity of its sign, as for [Device.Max]. A row is the elements
// along the last dimension, or that of [WithDim], which becomes 1 in the result; without keep it is
// left out if there are others. The result is row-major and by default interleaved in the operand's
// memory.
func (d *Device) ArgMax(ctx context.Context, a *Tensor, keep bool, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::argmax", argList{a, optionsOf(opts).along(), keep}, func(c *call) (*Tensor, error) {
		shape := a.Shape()
		in, _, err := c.lastAlong(a, c.along())
		if err != nil {
			return nil, err
		}
		if i := fromEnd(c.along(), len(shape)); keep || len(shape) == 1 {
			shape[i] = 1
		} else {
			shape = slices.Delete(shape, i, i+1)
		}
		s := Spec{Shape: shape, DType: UInt32, Layout: RowMajor, Memory: c.memoryOr(Interleaved(a.spec.Memory.Kind))}
		return c.compute("argmax", "ArgMaxDeviceOperation", argList{in, -1, s.DType, s.Memory}, s, func(out *Tensor) job {
			return job{program: catalog.ArgMax, out: out, in: []*Tensor{in}, buffers: rings(2, max(in.pageBytes, out.pageBytes))}
		})
	}, opts...)
}

// matmulBlock is the number of result tiles that a core computes at once; kBlock in
// kernels/blocks.h.
const matmulBlock = 4

// engineMatmul multiplies matrices of tiles; bias may be nil and function empty.
func engineMatmul(out *Tensor, a, b operand, bias *Tensor, function string) job {
	j := job{
		program: catalog.Matmul, function: function, args: []uint32{flag(bias != nil)}, out: out,
		in: present(a.Tensor, b.Tensor, bias), engineArgs: append(words(out.wide, a.inner()), flag(bias != nil)),
		buffers: tiles(2, 2, 2*matmulBlock),
	}
	if bias != nil {
		j.buffers = append(j.buffers, tiles(1)...)
	}
	j.transpose(a, b)
	return j
}

// engineMatmulRows multiplies matrices in any layout.
func engineMatmulRows(out *Tensor, a, b operand) job {
	d := out.dims
	wide, high, inner := ceil(d[3], 32), ceil(d[2], 32), a.inner()
	j := job{
		program: catalog.MatmulRows, out: out, in: []*Tensor{a.Tensor, b.Tensor},
		engineArgs: []uint32{uint32(wide), uint32(inner), 0}, pieces: d[0] * d[1] * high * wide,
		buffers: append(tiles(2, 2, 2*matmulBlock, 0), ring{a.pageBytes, 1}, ring{b.pageBytes, 1}, ring{}),
	}
	if out.spec.Layout != Tile {
		j.program, j.together = catalog.MatmulRowsOut, wide
		j.buffers[0].pages, j.buffers[6] = doubled(wide, tileElements*out.spec.DType.Size()), ring{out.pageBytes, 1}
	}
	j.transpose(a, b)
	return j
}

type operand struct {
	*Tensor
	transposed bool
}

func (r *result) operands(a, b *Tensor) (left, right operand) {
	return operand{a, r.transposeA}, operand{b, r.transposeB}
}

// size returns the height and width of an operand's matrices.
func (o operand) size() [2]int {
	if o.transposed {
		return [2]int{o.dims[3], o.dims[2]}
	}
	return [2]int(o.dims[2:])
}

func (o operand) text() string {
	if o.transposed {
		return fmt.Sprint(o.spec.Shape) + " transposed"
	}
	return fmt.Sprint(o.spec.Shape)
}

// inner returns the number of tiles in a row of a left operand.
func (o operand) inner() int { return ceil(o.size()[1], tileSize) }

// transpose adds the transpositions of operands to a job: two flags after the engines' other
// arguments, and a circular buffer for the turned tiles of a left operand.
func (j *job) transpose(a, b operand) {
	if j.transposed = [2]bool{a.transposed, b.transposed}; j.transposed == [2]bool{} {
		return
	}
	j.engineArgs = append(j.engineArgs, flag(a.transposed), flag(b.transposed))
	if !a.transposed {
		return
	}
	j.buffers[1].pages, j.buffers[engineRight].pages = 2*engineTurn, (engineTurn+1)*matmulBlock
	for len(j.buffers) < engineTurned {
		j.buffers = append(j.buffers, ring{})
	}
	j.buffers = append(j.buffers, tiles(2*engineTurn)...)
}

// kTurned and kTurn in kernels/compute/transposed.h: the circular buffer of turned left tiles, and
// how many are turned at once.
const engineTurned, engineTurn = 7, 4
