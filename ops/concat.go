package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/ops/graph"
)

// mostArgs is how many words a kernel can be told, unique ones included. Source: tt-metal max_runtime_args.
const mostArgs = 341

// mostBehind is how many tensors one program puts behind each other, if what it has to know of them fits.
const mostBehind = 16

// Concat puts tensors behind each other along a dimension; -1 is the last one. One program does it for up to 16 tensors,
// or fewer if they have very many shards. More are put together in groups first: that takes memory for a while, so there
// can't be so many inside of [Device.Capture].
func (d *Device) Concat(ctx context.Context, in []*Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	args := func() []graph.Arg {
		all := graph.Arg{Text: fmt.Sprintf("[%d tensors]", len(in))}
		for _, t := range in {
			all.Tensors = append(all.Tensors, t.graph())
		}
		return []graph.Arg{all, text(dim)}
	}
	return d.do(ctx, "ttnn::concat", in, args, func(c *call) (*Tensor, error) {
		if len(in) < 2 {
			return nil, fmt.Errorf("%w: %d tensors: it takes two or more", ErrShape, len(in))
		}
		n, err := concatenated(in, dim)
		if err != nil {
			return nil, err
		}
		return c.concat(in, n)
	}, opts...)
}

// concatenated checks what is put behind each other, and gives the dimension from 0 on.
func concatenated(in []*Tensor, dim int) (int, error) {
	a := in[0].geo.spec
	rank, along := len(a.Shape), dim
	if along < 0 {
		along += rank
	}
	for _, t := range in {
		b := t.geo.spec
		if along < 0 || along >= rank || rank != len(b.Shape) {
			return 0, fmt.Errorf("%w: %v and %v along dimension %d", ErrShape, a.Shape, b.Shape, dim)
		}
		if a.DType != b.DType {
			return 0, fmt.Errorf("%w: %v and %v", ErrDataType, a.DType, b.DType)
		}
		for i, n := range b.Shape {
			if i != along && a.Shape[i] != n {
				return 0, fmt.Errorf("%w: %v and %v along dimension %d: all others are equal", ErrShape, a.Shape, b.Shape, dim)
			}
		}
	}
	return along, nil
}

// concat puts tensors behind each other, in groups if they are many.
func (c *call) concat(in []*Tensor, dim int) (out *Tensor, err error) {
	into := c.into
	var made []*Tensor
	for err == nil {
		n := fitting(in)
		if n == len(in) {
			c.into = into
			out, err = c.behind(in, dim)
			break
		}
		c.into = nil
		var t *Tensor
		if t, err = c.behind(in[:n], dim); err == nil {
			in, made = append([]*Tensor{t}, in[n:]...), append(made, t)
		}
	}
	for _, t := range made {
		if free := t.release(); free != nil && err == nil {
			err = free
		}
	}
	return out, err
}

// fitting is how many of the tensors one program can put together: as many as its kernel can be told of, beside its own
// arguments and a result that has as many shards as any.
func fitting(in []*Tensor) int {
	most := 0
	for _, t := range in {
		most = max(most, t.geo.words())
	}
	words := 4 + most
	for i, t := range in {
		if words += t.geo.words(); i >= 2 && (i == mostBehind || words > mostArgs) {
			return i
		}
	}
	return len(in)
}

// behind puts tensors behind each other by one program.
func (c *call) behind(in []*Tensor, dim int) (*Tensor, error) {
	a := in[0]
	shape := slices.Clone(a.geo.spec.Shape)
	shape[dim] = 0
	page := 0
	for _, t := range in {
		shape[dim] += t.geo.spec.Shape[dim]
		page = max(page, t.geo.pageBytes)
	}
	s := Spec{Shape: shape, DType: a.geo.spec.DType, Layout: a.geo.spec.Layout, Memory: c.memoryLike(a, shape, a.geo.spec.Layout)}
	args := func() []graph.Arg {
		var all []graph.Arg
		for _, t := range in {
			all = append(all, t.arg())
		}
		return append(all, text(dim), text(s.Memory))
	}
	return c.deviceOp("ttnn::prim::concat", "ConcatDeviceOperation", args, s, func(out *Tensor) error {
		return c.run(job{
			kernel: behind, args: []uint32{uint32(4 - len(shape) + dim), uint32(len(in))}, out: out, in: in, all: true, pages: 1,
			rooms: []int{page, page, out.geo.pageBytes, tensorBytes * len(in)},
		})
	})
}
