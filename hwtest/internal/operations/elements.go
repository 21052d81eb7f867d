package operations

import (
	"context"
	"math"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
)

type binary struct {
	name   string
	device func(d *ops.Device, ctx context.Context, a, b *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error)
	floats func(x, y float64) float64
	ints   func(x, y int64) int64
}

func binaries() []binary {
	return []binary{
		{"add", (*ops.Device).Add, func(x, y float64) float64 { return x + y }, func(x, y int64) int64 { return x + y }},
		{"subtract", (*ops.Device).Subtract, func(x, y float64) float64 { return x - y }, func(x, y int64) int64 { return x - y }},
		{"multiply", (*ops.Device).Multiply, func(x, y float64) float64 { return x * y }, func(x, y int64) int64 { return x * y }},
	}
}

func wrapped(dt ops.DataType, v int64) float64 {
	switch dt {
	case ops.UInt8:
		return float64(uint8(v))
	case ops.UInt16:
		return float64(uint16(v))
	case ops.UInt32:
		return float64(uint32(v))
	}
	return float64(int32(v))
}

func elementCases(cs *table) {
	for _, op := range binaries() {
		for _, c := range []struct {
			dt   ops.DataType
			l    ops.Layout
			a, b index
		}{
			{ops.BFloat16, ops.Tile, index{1, 2, 40, 70}, index{1, 2, 40, 70}},
			{ops.BFloat16, ops.Tile, index{2, 1, 33, 7}, index{1, 3, 1, 7}},
			{ops.Float32, ops.Tile, index{1, 1, 70, 33}, index{1, 1, 70, 1}},
			{ops.Int32, ops.RowMajor, index{1, 2, 5, 33}, index{1, 1, 5, 33}},
			{ops.UInt8, ops.Tile, index{1, 1, 33, 40}, index{1, 1, 1, 1}},
		} {
			cs.add(func(t *opsRun) { elementwise(t, op, c.dt, c.l, opsDRAM, c.a, c.b) },
				"%s %s %s %s and %s", op.name, typeName(c.dt), layoutName(c.l), dimsName(c.a), dimsName(c.b))
		}
		shards := ops.Sharded(allocator.HeightSharded, 32, 64, chip.Grid(1, 2))
		cs.add(func(t *opsRun) {
			elementwise(t, op, ops.BFloat16, ops.Tile, shards, index{1, 1, 64, 64}, index{1, 1, 64, 64})
		}, "%s bf16 in shards", op.name)
	}
	for _, f := range functions() {
		for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
			cs.add(func(t *opsRun) { unary(t, f, dt) }, "%s %s", f.name, typeName(dt))
		}
	}
}

func elementwise(t *opsRun, op binary, dt ops.DataType, l ops.Layout, m ops.MemoryConfig, a, b index) {
	x, y := t.numbers(a, dt), t.numbers(b, dt)
	var dims index
	for i := range dims {
		dims[i] = max(a[i], b[i])
	}
	tx, ty := t.send(x, dt, l, m), t.send(y, dt, l, m)
	got := t.run(func(c call) (*ops.Tensor, error) { return op.device(t.d, c.ctx, tx, ty, c.opts...) })
	if !dt.Float() {
		t.exactly(got, makeArray(dims, func(i index) float64 { return wrapped(dt, op.ints(int64(x.at(i)), int64(y.at(i)))) }))
	} else {
		bits := 20
		if dt == ops.BFloat16 {
			bits = 11 // the matrix unit's sums
		}
		t.near(got, makeArray(dims, func(i index) float64 { return op.floats(x.at(i), y.at(i)) }), func(i index) float64 {
			return rounding(dt)*math.Abs(op.floats(x.at(i), y.at(i))) + math.Ldexp(math.Abs(x.at(i))+math.Abs(y.at(i)), -bits)
		})
	}
}

type opsFunction struct {
	name     string
	device   func(d *ops.Device, ctx context.Context, a *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error)
	exact    func(float64) float64
	positive bool // of positive numbers
}

func functions() []opsFunction {
	return []opsFunction{
		{"abs", (*ops.Device).Abs, math.Abs, false},
		{"exp", (*ops.Device).Exp, math.Exp, false},
		{"gelu", (*ops.Device).Gelu, func(v float64) float64 { return v * math.Erfc(-v/math.Sqrt2) / 2 }, false},
		{"log", (*ops.Device).Log, math.Log, true},
		{"neg", (*ops.Device).Neg, func(v float64) float64 { return -v }, false},
		{"reciprocal", (*ops.Device).Reciprocal, func(v float64) float64 { return 1 / v }, true},
		{"relu", (*ops.Device).Relu, func(v float64) float64 { return max(v, 0) }, false},
		{"rsqrt", (*ops.Device).Rsqrt, func(v float64) float64 { return 1 / math.Sqrt(v) }, true},
		{"sigmoid", (*ops.Device).Sigmoid, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }, false},
		{"sign", (*ops.Device).Sign, func(v float64) float64 { return math.Copysign(1, v) }, true},
		{"silu", (*ops.Device).Silu, func(v float64) float64 { return v / (1 + math.Exp(-v)) }, false},
		{"sqrt", (*ops.Device).Sqrt, math.Sqrt, true},
		{"square", (*ops.Device).Square, func(v float64) float64 { return v * v }, false},
		{"tanh", (*ops.Device).Tanh, math.Tanh, false},
	}
}

func unary(t *opsRun, f opsFunction, dt ops.DataType) {
	x := t.numbers(index{1, 2, 33, 40}, dt)
	for i := range x.v {
		if f.positive {
			x.v[i] = math.Abs(x.v[i]) + 1./64
		}
		if dt == ops.BFloat16 {
			x.v[i] = cutBF16(x.v[i])
		}
	}
	tx := t.tiles(x, dt)
	got := t.run(func(c call) (*ops.Tensor, error) { return f.device(t.d, c.ctx, tx, c.opts...) })
	want := makeArray(x.dims, func(i index) float64 { return f.exact(float64(float32(x.at(i)))) })
	t.rounded(got, want, dt, 1./(1<<20))
}

type move struct {
	name   string
	dims   index
	device func(d *ops.Device, c call, a *ops.Tensor) (*ops.Tensor, error)
	result index
	from   func(i index) index // where an element of the result comes from
}

func opsMoves() []move {
	stays := func(i index) index { return i }
	type (
		D = *ops.Device
		T = *ops.Tensor
	)
	return []move{
		{"slice", index{2, 2, 40, 70}, func(d D, c call, a T) (T, error) {
			return d.Slice(c.ctx, a, []int{1, 0, 3, 5}, []int{2, 2, 39, 60}, c.opts...)
		}, index{1, 2, 36, 55}, func(i index) index { return index{i[0] + 1, i[1], i[2] + 3, i[3] + 5} }},
		{"repeat", index{1, 2, 5, 33},
			func(d D, c call, a T) (T, error) { return d.Repeat(c.ctx, a, []int{2, 1, 3, 2}, c.opts...) },
			index{2, 2, 15, 66}, func(i index) index { return index{0, i[1], i[2] % 5, i[3] % 33} }},
		{"transpose of rows and columns", index{1, 2, 40, 70},
			func(d D, c call, a T) (T, error) { return d.Transpose(c.ctx, a, -2, -1, c.opts...) },
			index{1, 2, 70, 40}, func(i index) index { return index{i[0], i[1], i[3], i[2]} }},
		{"transpose of heads and rows", index{2, 3, 33, 40},
			func(d D, c call, a T) (T, error) { return d.Transpose(c.ctx, a, 1, 2, c.opts...) },
			index{2, 33, 3, 40}, func(i index) index { return index{i[0], i[2], i[1], i[3]} }},
		{"permute", index{2, 3, 33, 40},
			func(d D, c call, a T) (T, error) { return d.Permute(c.ctx, a, []int{3, 0, 2, 1}, c.opts...) },
			index{40, 2, 33, 3}, func(i index) index { return index{i[1], i[3], i[2], i[0]} }},
		{"to rows", index{1, 2, 40, 70},
			func(d D, c call, a T) (T, error) { return d.ToLayout(c.ctx, a, ops.RowMajor, c.opts...) }, index{1, 2, 40, 70}, stays},
		{"to tiles", index{1, 2, 40, 70},
			func(d D, c call, a T) (T, error) { return d.ToLayout(c.ctx, a, ops.Tile, c.opts...) }, index{1, 2, 40, 70}, stays},
		{"to shards", index{1, 2, 32, 64}, func(d D, c call, a T) (T, error) {
			return d.ToMemoryConfig(c.ctx, a, ops.Sharded(allocator.HeightSharded, 32, 64, chip.Grid(1, 2)), c.opts...)
		}, index{1, 2, 32, 64}, stays},
	}
}

func moveCases(cs *table) {
	for _, m := range opsMoves() {
		for _, c := range []struct {
			dt ops.DataType
			l  ops.Layout
			m  ops.MemoryConfig
		}{{ops.BFloat16, ops.Tile, opsDRAM}, {ops.UInt32, ops.Tile, opsL1}, {ops.UInt16, ops.RowMajor, opsDRAM}} {
			cs.add(func(t *opsRun) {
				x := t.numbers(m.dims, c.dt)
				tx := t.send(x, c.dt, c.l, c.m)
				got := t.run(func(c call) (*ops.Tensor, error) { return m.device(t.d, c, tx) })
				t.exactly(got, makeArray(m.result, func(i index) float64 { return x.at(m.from(i)) }))
			}, "%s %s %s", m.name, typeName(c.dt), layoutName(c.l))
		}
	}
	for dim := range 4 {
		cs.add(func(t *opsRun) { concat(t, dim) }, "concat along dimension %d", dim)
	}
}

func concat(t *opsRun, dim int) {
	x, y := t.numbers(index{2, 2, 33, 40}, ops.BFloat16), index{2, 2, 33, 40}
	y[dim] = 3
	z := t.numbers(y, ops.BFloat16)
	in := []*ops.Tensor{t.tiles(x, ops.BFloat16), t.send(z, ops.BFloat16, ops.RowMajor, opsL1)}
	dims := x.dims
	dims[dim] += 3
	got := t.run(func(c call) (*ops.Tensor, error) { return t.d.Concat(c.ctx, in, dim, c.opts...) })
	t.exactly(got, makeArray(dims, func(i index) float64 {
		if i[dim] < x.dims[dim] {
			return x.at(i)
		}
		i[dim] -= x.dims[dim]
		return z.at(i)
	}))
}
