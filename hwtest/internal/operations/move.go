package operations

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
)

// move is an operation that moves elements of a tensor.
type move struct {
	name   string
	dims   index // of the tensor
	device func(d *ops.Device, ctx context.Context, a *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error)
	result index
	from   func(i index) index // where an element of the result comes from
}

func opsMoves() []move {
	type (
		D = *ops.Device
		T = *ops.Tensor
		C = context.Context
	)
	return []move{
		{"slice", index{2, 2, 40, 70}, func(d D, ctx C, a T, opts ...ops.OpOption) (T, error) {
			return d.Slice(ctx, a, []int{1, 0, 3, 5}, []int{2, 2, 39, 60}, opts...)
		}, index{1, 2, 36, 55}, func(i index) index { return index{i[0] + 1, i[1], i[2] + 3, i[3] + 5} }},
		{"repeat", index{1, 2, 5, 33}, func(d D, ctx C, a T, opts ...ops.OpOption) (T, error) {
			return d.Repeat(ctx, a, []int{2, 1, 3, 2}, opts...)
		}, index{2, 2, 15, 66}, func(i index) index { return index{0, i[1], i[2] % 5, i[3] % 33} }},
		{"transpose of rows and columns", index{1, 2, 40, 70}, func(d D, ctx C, a T, opts ...ops.OpOption) (T, error) {
			return d.Transpose(ctx, a, -2, -1, opts...)
		}, index{1, 2, 70, 40}, func(i index) index { return index{i[0], i[1], i[3], i[2]} }},
		{"transpose of heads and rows", index{2, 3, 33, 40}, func(d D, ctx C, a T, opts ...ops.OpOption) (T, error) {
			return d.Transpose(ctx, a, 1, 2, opts...)
		}, index{2, 33, 3, 40}, func(i index) index { return index{i[0], i[2], i[1], i[3]} }},
		{"permute", index{2, 3, 33, 40}, func(d D, ctx C, a T, opts ...ops.OpOption) (T, error) {
			return d.Permute(ctx, a, []int{3, 0, 2, 1}, opts...)
		}, index{40, 2, 33, 3}, func(i index) index { return index{i[1], i[3], i[2], i[0]} }},
		{"to rows", index{1, 2, 40, 70}, func(d D, ctx C, a T, opts ...ops.OpOption) (T, error) {
			return d.ToLayout(ctx, a, ops.RowMajor, opts...)
		}, index{1, 2, 40, 70}, func(i index) index { return i }},
		{"to tiles", index{1, 2, 40, 70}, func(d D, ctx C, a T, opts ...ops.OpOption) (T, error) {
			return d.ToLayout(ctx, a, ops.Tile, opts...)
		}, index{1, 2, 40, 70}, func(i index) index { return i }},
		{"to shards", index{1, 2, 32, 64}, func(d D, ctx C, a T, opts ...ops.OpOption) (T, error) {
			return d.ToMemoryConfig(ctx, a, ops.Sharded(allocator.HeightSharded, 32, 64, chip.Grid(1, 2)), opts...)
		}, index{1, 2, 32, 64}, func(i index) index { return i }},
	}
}

func moveCases() []opsCase {
	var cs []opsCase
	for _, m := range opsMoves() {
		for _, c := range []struct {
			dt ops.DataType
			l  ops.Layout
			m  ops.MemoryConfig
		}{{ops.BFloat16, ops.Tile, opsDRAM}, {ops.UInt32, ops.Tile, opsL1}, {ops.UInt16, ops.RowMajor, opsDRAM}} {
			cs = append(cs, opsCase{fmt.Sprintf("%s %s %s", m.name, typeName(c.dt), layoutName(c.l)), func(t *opsRun) {
				x := t.numbers(m.dims, c.dt)
				tx := t.send(x, c.dt, c.l, c.m)
				got := t.run(func(c call) (*ops.Tensor, error) {
					return m.device(t.d, c.ctx, tx, c.opts...)
				})
				t.exactly(got, makeArray(m.result, func(i index) float64 { return x.at(m.from(i)) }))
			}})
		}
	}
	for dim := range 4 {
		cs = append(cs, opsCase{fmt.Sprintf("concat along dimension %d", dim), func(t *opsRun) { concat(t, dim) }})
	}
	return cs
}

func concat(t *opsRun, dim int) {
	x, y := t.numbers(index{2, 2, 33, 40}, ops.BFloat16), index{2, 2, 33, 40}
	y[dim] = 3
	z := t.numbers(y, ops.BFloat16)
	in := []*ops.Tensor{t.tiles(x, ops.BFloat16), t.send(z, ops.BFloat16, ops.RowMajor, opsL1)}
	dims := x.dims
	dims[dim] += 3
	got := t.run(func(c call) (*ops.Tensor, error) {
		return t.d.Concat(c.ctx, in, dim, c.opts...)
	})
	t.exactly(got, makeArray(dims, func(i index) float64 {
		if i[dim] < x.dims[dim] {
			return x.at(i)
		}
		i[dim] -= x.dims[dim]
		return z.at(i)
	}))
}
