package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Operations of the kernels of elements, with the kernels' numbers.
const (
	opCopy = iota
	opRelu
	opAdd
	opMultiply
	opSubtract
	opDivide
)

// engineRight is the circular buffer of a second operand; kRight in kernels/blocks.h.
const engineRight = 2

// Add adds two tensors of the same data type. A dimension that is 1 in one of them is repeated.
//
// The matrix unit adds BFloat16 with sums in 32 bits, rounded once; the vector unit adds Float32
// and replaces subnormal numbers by zero, as in TT-NN.
func (d *Device) Add(ctx context.Context, a, b *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.binary(ctx, "ttnn::add", opAdd, a, b, opts)
}

// Subtract subtracts the second tensor from the first; see [Device.Add].
func (d *Device) Subtract(ctx context.Context, a, b *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.binary(ctx, "ttnn::subtract", opSubtract, a, b, opts)
}

// Multiply multiplies two tensors element by element; see [Device.Add].
func (d *Device) Multiply(ctx context.Context, a, b *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.binary(ctx, "ttnn::multiply", opMultiply, a, b, opts)
}

// Divide divides the first tensor of floats by the second, element by element; see [Device.Add].
// The vector unit multiplies by 1 / b, which has a relative error of 2^-22 and is 0 for |b| above
// 2^126.
func (d *Device) Divide(ctx context.Context, a, b *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.binary(ctx, "ttnn::divide", opDivide, a, b, opts)
}

func (d *Device) binary(ctx context.Context, name string, op uint32, a, b *Tensor, opts []OpOption) (*Tensor, error) {
	return d.do(ctx, name, argList{a, b}, func(c *call) (*Tensor, error) {
		s, err := c.together(a, b)
		if err != nil {
			return nil, err
		}
		if op == opDivide && !floats(a) {
			return nil, a.unsupportedError()
		}
		// A trace can't allocate the intermediate tensor.
		if !c.d.separateRepeat || c.into != nil || len(s.Shape) > 4 || slices.Contains(s.Shape, 0) {
			return c.prim(op, a, b, s)
		}
		return c.repeatFirst(op, a, b, to4D(s.Shape))
	}, opts...)
}

func (c *call) repeatFirst(op uint32, a, b *Tensor, whole [4]int) (out *Tensor, err error) {
	pair := [2]*Tensor{a, b}
	var repeated []*Tensor
	for i, t := range pair {
		times := []int{1, 1, 1, 1}
		for k := range 2 {
			times[k] = whole[k] / t.dims[k]
		}
		if times[0] == 1 && times[1] == 1 {
			continue
		}
		pair[i], err = c.function("ttnn::repeat", argList{t, times}, func() (*Tensor, error) {
			s := t.spec
			s.Memory = Interleaved(s.Memory.Kind)
			s.Shape, err = repeatedShape(t, times)
			if err != nil {
				return nil, err
			}
			return c.primRepeat(t, times, s)
		})
		if err != nil {
			break
		}
		repeated = append(repeated, pair[i])
	}
	if err == nil {
		var s Spec
		if s, err = c.together(pair[:]...); err == nil {
			out, err = c.prim(op, pair[0], pair[1], s)
		}
	}
	return out, release(err, repeated...)
}

func (c *call) together(in ...*Tensor) (Spec, error) {
	var shape []int
	first := in[0].spec
	for _, t := range in {
		if have := t.spec.DType; have != first.DType {
			return Spec{}, typeError("%v and %v", first.DType, have)
		}
		var ok bool
		if shape, ok = broadcast(shape, t.spec.Shape); !ok {
			return Spec{}, shapeError("%v and %v: dimensions are equal, or 1", first.Shape, t.spec.Shape)
		}
	}
	s := Spec{Shape: shape, DType: first.DType, Layout: first.Layout}
	like := in[0]
	for _, t := range slices.Backward(in) {
		if slices.Equal(t.spec.Shape, s.Shape) {
			like = t
		}
	}
	c.place(&s, like)
	return s, nil
}

// broadcast returns the shape of a result, and whether dimensions are equal or 1 in one of them.
func broadcast(a, b []int) ([]int, bool) {
	a, b = padded(a, len(b)), padded(b, len(a))
	for i, n := range b {
		if a[i] == 1 {
			a[i] = n
		}
		if n != 1 && n != a[i] {
			return nil, false
		}
	}
	return a, true
}

// fitsInto reports whether a tensor has the dimensions of a result, or 1 where they are repeated.
func fitsInto(shape, result []int) bool {
	all, ok := broadcast(result, shape)
	return ok && slices.Equal(all, padded(result, len(all)))
}

// aligned returns operands whose dimensions before the last three can be merged as the result's:
// they are equal, or all 1. Other operands are replaced by copies.
func (c *call) aligned(out *Tensor, in ...*Tensor) (_ []*Tensor, err error) {
	merged := out.all[:len(out.all)-3]
	for i, t := range in {
		if n := t.dims[0]; n != 1 && n != out.dims[0] {
			if in[i], err = c.expanded(t, slices.Concat(merged, t.dims[1:])); err != nil {
				return nil, err
			}
		}
	}
	return in, nil
}

// expanded returns a copy in DRAM with dimensions of 1 before the last two repeated.
func (c *call) expanded(t *Tensor, shape []int) (*Tensor, error) {
	const first = 8 // slot
	s := t.spec
	for _, s.Shape = range [][]int{t.all, shape} {
		if t.sharding == nil && slices.Equal(s.Shape, t.all) {
			continue // but pages of shards may be no rows
		}
		c.copies++
		out, err := c.scratch(first+c.copies, s)
		if err == nil {
			err = c.repeated(out, t)
		}
		if err != nil {
			return nil, err
		}
		t = out
	}
	return t, nil
}

// repeated copies a tensor again and again until the end of the result.
func (c *call) repeated(out, a *Tensor) error {
	if slices.Equal(out.all, a.all) {
		return c.rearrange(whole(a.all), out, a)
	}
	shape := padded(a.all, len(out.all)) // a mask or a bias may have more dimensions of 1 before
	a, err := a.as(shape[len(shape)-len(out.all):])
	if err != nil || out.empty() {
		return err
	}
	m := arrangement{wraps: true, axes: whole(out.all).axes}
	if p, ok := m.pages(out.geometry, a.geometry); ok {
		return c.run(c.pages(p, out, a))
	}
	if n := len(out.all) - 2; n > 2 && !slices.Equal(out.all[:n], a.all[:n]) {
		if a, err = c.expanded(a, slices.Concat(out.all[:n], a.all[n:])); err != nil {
			return err
		}
	}
	return c.run(onCores(opCopy, out, a))
}

func (c *call) prim(op uint32, a, b *Tensor, s Spec) (*Tensor, error) {
	const none = "nullopt"
	args := argList{a, b, op, s.DType, s.Memory, none, none, none, none, none}
	name := "binary_ng"
	if c.d.separateRepeat {
		name = "binary"
	}
	return c.deviceOp(name, "BinaryNgDeviceOperation", args, s, func(out *Tensor) error { return c.elementwise(op, out, a, b) })
}

// Relu replaces negative elements by 0.
func (d *Device) Relu(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::relu", argList{a}, func(c *call) (*Tensor, error) {
		s := c.like(a)
		args := argList{a, "UnaryOpType::RELU", s.Memory}
		return c.deviceOp("unary", "UnaryDeviceOperation", args, s, func(out *Tensor) error { return c.elementwise(opRelu, out, a) })
	}, opts...)
}

// elementwise computes relu, or an operation of two operands.
func (c *call) elementwise(op uint32, out *Tensor, in ...*Tensor) error {
	whole := out.spec.Layout == Tile || !floats(out) // shards of row-major floats are no whole tiles
	if whole && sameShards(out, in...) && c.hasShards(out) {
		return c.runInShards(op, out, in...)
	}
	in, err := c.aligned(out, in...)
	if err != nil {
		return err
	}
	j := job{program: catalog.BinaryTiles, args: words(len(in)), out: out, in: in, allCores: true, buffers: tiles(2, 2, 2)}
	rows, function, more := catalog.BinaryElements, "", []uint32{op, engineRight}
	if op == opRelu {
		rows, function, more = catalog.UnaryElements, "relu", nil
		j = each(catalog.UnaryTiles, function, out, in[0])
	}
	if !onEngines(out, in...) {
		if !floats(in[0]) {
			return c.run(onCores(op, out, in...))
		}
		j = elements(rows, out, in...)
	}
	j.function, j.engineArgs = function, more
	return c.run(j)
}

// onCores returns the job of RISC-V cores that copies or repeats elements, or computes integers.
func onCores(op uint32, out *Tensor, in ...*Tensor) job {
	j := job{program: catalog.Elementwise, args: []uint32{op, 0, 0, 0, 0}, out: out, in: in,
		buffers: rings(2, max(in[0].pageBytes, out.pageBytes))}
	if len(in) == 2 {
		j.allCores, j.buffers = true, rings(2, in[0].pageBytes, in[1].pageBytes, out.pageBytes)
	}
	return j
}

// Repeat repeats a tensor times[i] times along dimension i.
func (d *Device) Repeat(ctx context.Context, a *Tensor, times []int, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::repeat", argList{a, times}, func(c *call) (*Tensor, error) {
		shape, err := repeatedShape(a, times)
		if err != nil {
			return nil, err
		}
		return c.primRepeat(a, times, c.shaped(a, shape))
	}, opts...)
}

func (c *call) primRepeat(a *Tensor, times []int, s Spec) (*Tensor, error) {
	return c.copyAs("repeat", "RepeatDeviceOperation", argList{times, a.spec.Shape, s.Shape, s.DType, s.Memory}, a, s)
}

func repeatedShape(a *Tensor, times []int) ([]int, error) {
	if _, err := volume(times); err != nil {
		return nil, fmt.Errorf("repetitions: %w", err)
	}
	shape, times := padded(a.spec.Shape, len(times)), padded(times, len(a.spec.Shape))
	for i, n := range times {
		if n > maxElements/max(shape[i], 1) {
			return nil, shapeError("%v repeated %v times", a.spec.Shape, times)
		}
		shape[i] *= n
	}
	_, err := volume(shape)
	return shape, err
}

// Where returns the elements of a where condition isn't zero, and the elements of b elsewhere. The
// tensors are floats of one data type in tile layout. A dimension that is 1 in some of them is
// repeated.
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
		return c.deviceOp("where", "TernaryDeviceOperation", args, s, func(out *Tensor) error {
			in, err := c.aligned(out, in...)
			if err != nil {
				return err
			}
			return c.run(job{program: catalog.Where, args: []uint32{3}, out: out, in: in, buffers: tiles(2, 2, 2, 2)})
		})
	}, opts...)
}

const tileElements = 32 * 32

func floats(ts ...*Tensor) bool {
	return !slices.ContainsFunc(ts, func(t *Tensor) bool { return !t.spec.DType.Float() })
}

// doubled returns a circular buffer's pages for n pages at a time: twice n unless that is much of
// L1.
func doubled(pages, bytes int) int {
	const limit = 64 << 10
	if pages*bytes > limit {
		return pages
	}
	return 2 * pages
}

func each(p *catalog.Program, function string, out, a *Tensor, numbers ...uint32) job {
	return job{program: p, function: function, args: []uint32{1}, out: out, in: []*Tensor{a}, numbers: numbers, buffers: tiles(2, 2)}
}

// elements returns the job of a program for tensors in any layout. The kernel computes tiles of
// elements in the order of the result's pages.
func elements(p *catalog.Program, out *Tensor, in ...*Tensor) job {
	n := 1 // tiles of a page
	if out.spec.Layout != Tile {
		n = ceil(out.pageWidth, tileElements)
	}
	room := doubled(n, tileElements*out.spec.DType.Size())
	j := job{
		program: p, args: words(len(in)), out: out, in: in, pieces: out.pages * n, together: n,
		buffers: append(tiles(room, room, 0), ring{in[0].pageBytes, 1}, ring{}),
	}
	if len(in) == 2 {
		j.buffers[2].pages, j.buffers[4] = room, ring{in[1].pageBytes, 1}
	}
	return j
}
