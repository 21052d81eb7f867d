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
		if len(order) != len(a.spec.Shape) || !slices.Equal(slices.Sorted(slices.Values(order)), upTo(len(order))) {
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
