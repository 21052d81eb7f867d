package ops

import (
	"context"
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Transpose exchanges two dimensions of a tensor; negative ones count from the end. It takes all
// data types, layouts and memories.
func (d *Device) Transpose(ctx context.Context, a *Tensor, dim0, dim1 int, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::transpose", argList{a, dim0, dim1}, func(c *call) (*Tensor, error) {
		return c.transpose(a, dim0, dim1)
	}, opts...)
}

func (c *call) transpose(a *Tensor, dim0, dim1 int) (*Tensor, error) {
	x, err := dimension(dim0, a.spec.Shape)
	if err != nil {
		return nil, err
	}
	y, err := dimension(dim1, a.spec.Shape)
	if err != nil {
		return nil, err
	}
	order := upTo(len(a.spec.Shape))
	order[x], order[y] = y, x
	return c.permute("transpose", "Transpose", a, order, dim0, dim1)
}

// Permute returns a tensor whose dimension i is dimension dims[i] of another one. dims has each
// dimension once. Otherwise it is as [Device.Transpose].
//
// Whole pages are copied where possible, and tiles with their last two dimensions exchanged are
// transposed. Otherwise a core caches up to 128 KiB of the operand in L1.
func (d *Device) Permute(ctx context.Context, a *Tensor, dims []int, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::permute", argList{a, dims}, func(c *call) (*Tensor, error) {
		order := slices.Clone(dims)
		for i := range order {
			order[i] = fromEnd(order[i], len(order))
		}
		if len(order) != len(a.spec.Shape) || !isOrder(order) {
			return nil, shapeError("dimensions %v of %v: want each dimension once", dims, a.spec.Shape)
		}
		return c.permute("permute", "Permute", a, order, dims)
	}, opts...)
}

func dimension(dim int, shape []int) (int, error) {
	rank := len(shape)
	along := fromEnd(dim, rank)
	if along < 0 || along >= rank {
		if rank == 0 {
			return 0, shapeError("dimension %d of a scalar, which has none: see Reshape", dim)
		}
		return 0, shapeError("dimension %d of %v: want one from %d to %d", dim, shape, -rank, rank-1)
	}
	return along, nil
}

func fromEnd(dim, rank int) int {
	if dim < 0 {
		return dim + rank
	}
	return dim
}

func (c *call) permute(name, class string, a *Tensor, order []int, more ...any) (*Tensor, error) {
	s := c.shaped(a, reordered(a.spec.Shape, order))
	args := append(append(argList{a}, more...), s.Memory)
	m, before := whole(a.all), len(a.all)-len(order)
	for i, k := range order {
		m.axes[before+i] = axis{from: before + k, step: 1, taken: a.all[before+k]}
	}
	return c.arrange(name, class, args, s, m, a)
}

// WithDim makes [Device.ArgMax] and [Device.TopK] search along another dimension than the last one,
// and [Mesh.AllGather] and [Mesh.ReduceScatter] cut along another than the first one; negative ones
// count from the end.
//
// As in TT-NN, ArgMax and TopK permute the tensor before, and TopK its result after. Permuted
// tensors are in DRAM that a trace holds and [Device.ClearProgramCache] releases.
func WithDim(dim int) OpOption {
	return func(r *result) { r.dim = &dim; r.given |= catalog.WithDim }
}

// WithSmallest makes [Device.TopK] find the smallest elements. TT-NN: largest=False.
func WithSmallest() OpOption {
	return func(r *result) { r.smallest = true; r.given |= catalog.WithSmallest }
}

func (r result) along() int {
	if r.dim != nil {
		return *r.dim
	}
	return -1
}

// lastAlong returns a tensor with a dimension moved to the end, and the order that moves it back,
// nil for the last dimension.
func (c *call) lastAlong(a *Tensor, dim int) (*Tensor, []int, error) {
	s := a.spec.clone()
	rank := len(s.Shape)
	along, err := dimension(dim, s.Shape)
	if err != nil {
		return nil, nil, err
	}
	if along == rank-1 {
		return a, nil, nil
	}
	order := append(slices.Delete(upTo(rank), along, along+1), along)
	back := make([]int, rank)
	for i, k := range order {
		back[k] = i
	}
	s.Shape = reordered(s.Shape, order)
	t, err := c.scratch(0, s)
	if err != nil {
		return nil, nil, err
	}
	return t, back, c.leaving(t, func() (*Tensor, error) { return c.permuteAs(a, order) })
}

func (c *call) permuteAs(a *Tensor, order []int) (*Tensor, error) {
	return c.permute("permute", "Permute", a, order, order)
}

// movedBack permutes a result out of scratch memory, to memory like the operand's.
func (c *call) movedBack(t, like *Tensor, back []int) (*Tensor, error) {
	own := c.result
	defer func() { c.result = own }()
	if c.memory == nil {
		m := c.memoryLike(like, reordered(t.spec.Shape, back), like.spec.Layout)
		c.memory = &m
	}
	return c.permuteAs(t, back)
}
