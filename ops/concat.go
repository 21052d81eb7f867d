package ops

import (
	"context"
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// maxArgs is the most words of runtime arguments, unique and common together. Source: tt-metal
// max_runtime_args.
const maxArgs = 341

// Concat concatenates one or more tensors of one data type along a dimension; -1 is the last one.
// It takes all data types, layouts and memories, and copies whole pages where possible. One program
// takes up to 16 tensors, fewer if they have very many shards; groups of more tensors need memory,
// which a trace can't allocate (see [Device.Capture]).
func (d *Device) Concat(ctx context.Context, in []*Tensor, dim int, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::concat", argList{in, dim}, func(c *call) (*Tensor, error) {
		if len(in) == 0 {
			return nil, shapeError("no tensors: want one or more")
		}
		along, err := concatDim(in, dim)
		if err != nil {
			return nil, err
		}
		full := slices.DeleteFunc(slices.Clone(in), func(t *Tensor) bool { return t.empty() })
		if len(full) == 0 {
			full = in
		}
		return c.concat(full, along)
	}, opts...)
}

func concatDim(in []*Tensor, dim int) (int, error) {
	a := in[0].spec
	along, err := dimension(dim, a.Shape)
	if err != nil {
		return 0, err
	}
	for _, t := range in {
		b := t.spec
		if len(a.Shape) != len(b.Shape) {
			return 0, shapeError("%v and %v along dimension %d", a.Shape, b.Shape, dim)
		}
		if a.DType != b.DType {
			return 0, typeError("%v and %v", a.DType, b.DType)
		}
		for i, n := range b.Shape {
			if i != along && a.Shape[i] != n {
				return 0, shapeError("%v and %v along dimension %d: all others are equal", a.Shape, b.Shape, dim)
			}
		}
	}
	return along, nil
}

func (c *call) concat(in []*Tensor, dim int) (out *Tensor, err error) {
	into := c.into
	var groups []*Tensor
	for err == nil {
		n := fitting(in)
		if n == len(in) {
			c.into = into
			out, err = c.concatOnce(in, dim)
			break
		}
		c.into = nil
		var t *Tensor
		if t, err = c.concatOnce(in[:n], dim); err == nil {
			in, groups = append([]*Tensor{t}, in[n:]...), append(groups, t)
		}
	}
	return out, release(err, groups...)
}

// fitting returns how many of the tensors one program can take: their descriptions must fit the
// runtime arguments, with the kernel's own and those of a result with as many shards as any of the
// tensors.
func fitting(in []*Tensor) int {
	most := 0
	for _, t := range in {
		most = max(most, t.argWords())
	}
	words := 5 + most
	for i, t := range in {
		if words += t.argWords(); i >= 2 && (i == maxConcat || words > maxArgs) {
			return i
		}
	}
	return len(in)
}

func (c *call) concatOnce(in []*Tensor, dim int) (*Tensor, error) {
	a := in[0]
	shape := slices.Clone(a.spec.Shape)
	shape[dim] = 0
	page := 0
	for _, t := range in {
		shape[dim] += t.spec.Shape[dim]
		page = max(page, t.pageBytes)
	}
	s := c.shaped(a, shape)
	var args argList
	for _, t := range in {
		args = append(args, t)
	}
	args = append(args, dim, s.Memory)
	return c.deviceOp("concat", "ConcatDeviceOperation", args, s, func(out *Tensor) error {
		along, all := 4-len(shape)+dim, append(slices.Clone(in), out)
		if outer := min(dim, len(shape)-3); len(shape) > 4 { // the others before the last two are merged
			along = max(along, 1)
			for i, t := range all {
				var err error
				merged := []int{product(t.all[:outer]), product(t.all[outer : len(shape)-2]), t.dims[2], t.dims[3]}
				if all[i], err = t.as(merged); err != nil {
					return err
				}
			}
		}
		in, out := all[:len(in)], all[len(in)]
		j := job{
			program: catalog.Concat, args: []uint32{uint32(along), uint32(len(in)), 0}, out: out, in: in, allCores: true,
			buffers: rings(1, page, page, out.pageBytes, tensorStructBytes*len(in)),
		}
		if wholePages(out, in, along) {
			half, bytes := c.half(out.geometry)
			j.args[2] = uint32(half)
			j.buffers = []ring{{bytes, 2 * half}, {}, {}, {tensorStructBytes * len(in), 1}}
		}
		return c.run(j)
	})
}

func wholePages(out *Tensor, in []*Tensor, dim int) bool {
	for i, t := range in {
		if !t.equalPages(out.geometry) || i+1 < len(in) && t.dims[dim]%out.units()[dim] != 0 {
			return false
		}
	}
	return true
}
