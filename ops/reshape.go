package ops

import (
	"context"
	"slices"
)

// Reshape returns a tensor of another shape with the same elements, row by row. One dimension of
// the shape may be -1: the number of elements determines it. Reshape takes all data types, layouts
// and memories.
//
// If no element moves in memory, the result shares the operand's memory, which is freed after both
// have been deallocated: in row-major layout the last dimension must stay the same; in tile layout
// the last but one too, or be a multiple of 32 before and after. Options about the result's place
// force a copy.
func (d *Device) Reshape(ctx context.Context, a *Tensor, shape []int, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::reshape", argList{a, shape}, func(c *call) (*Tensor, error) {
		s := a.spec.clone()
		var err error
		if s.Shape, err = reshaped(a.spec.Shape, shape); err != nil {
			return nil, err
		}
		if c.into == nil && c.memory == nil {
			if t := c.view(a, s); t != nil {
				return t, nil
			}
		}
		c.place(&s, a)
		args := argList{a, s.Shape, s.Memory}
		return c.arrange("reshape_view", "ReshapeView", args, s, arrangement{order: true}, a)
	}, opts...)
}

func reshaped(from, shape []int) ([]int, error) {
	out, open, have := slices.Clone(shape), slices.Index(shape, -1), product(from)
	if open >= 0 {
		out[open] = 1
	}
	n, err := volume(out)
	if err == nil && open >= 0 && n > 0 {
		out[open] = have / n
		n *= out[open]
	}
	if err != nil || n != have || open >= 0 && slices.Contains(slices.Delete(slices.Clone(shape), open, open+1), 0) {
		return nil, shapeError("%v as %v: want the same number of elements, in up to %d dimensions; one may be -1 if the others determine it",
			from, shape, maxRank)
	}
	return out, nil
}

// view returns a tensor that shares another one's memory, or nil if elements would move.
func (c *call) view(a *Tensor, s Spec) *Tensor {
	g, err := s.geometry()
	if err != nil || !g.samePlaces(a.geometry) {
		return nil
	}
	if a.users == nil {
		a.users = new(1)
	}
	*a.users++
	c.d.lastID++
	return &Tensor{d: c.d, id: c.d.lastID, geometry: g, buf: a.buf, plan: a.plan, users: a.users}
}

// samePlaces reports whether two tensors of one size, data type, layout and memory configuration
// store each element at the same place.
func (g *geometry) samePlaces(o *geometry) bool {
	if g.pages != o.pages || g.pageBytes != o.pageBytes || g.wide != o.wide || g.dims[3] != o.dims[3] {
		return false
	}
	return g.spec.Layout == RowMajor || g.dims[2] == o.dims[2] || g.dims[2]%tileSize == 0 && o.dims[2]%tileSize == 0
}
