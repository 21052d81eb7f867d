// Package operations has the cases of tensors and operations.
package operations

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/ops"
)

// Cases are the cases of layer ops.
func Cases() rig.Table {
	var cs table
	cs.protects = "elements are those of plain arithmetic, whatever is repeated"
	elementCases(&cs)
	cs.protects = "products, sums and norms of rows are near the exact ones, and padding doesn't count"
	rowCases(&cs)
	cs.protects = "elements are moved unchanged, whatever layout and memory they come from and go to"
	moveCases(&cs)
	cs.protects = "what a model decodes with is near the exact result, and changes nothing else of its caches"
	attentionCases(&cs)
	return cs.Table
}

// Operations are compared with float64: exactly for integers and copies, else as near as
// documented.

type table struct {
	rig.Table
	protects string
}

// add appends a case, whose name is a format and its arguments.
func (cs *table) add(run func(t *opsRun), name string, args ...any) {
	for i, a := range args {
		if s, ok := short[a]; ok {
			args[i] = s
		}
	}
	name = fmt.Sprintf(name, args...)
	cs.Add(name, cs.protects, func(f *rig.T) {
		t := &opsRun{T: f, d: ops.New(f.Dev), rnd: rig.Random(name)}
		defer t.release()
		run(t)
	})
}

type opsRun struct {
	*rig.T
	d    *ops.Device
	rnd  *rand.Rand
	made []T
}

func (t *opsRun) release() {
	for _, m := range t.made {
		if err := t.d.Deallocate(m); err != nil && !errors.Is(err, ops.ErrReleased) {
			t.Error(err)
		}
	}
	if err := t.d.Release(context.WithoutCancel(t.Ctx)); err != nil {
		t.Error(err)
	}
}

type index [4]int

type array struct {
	dims index
	v    []float64
}

func makeArray(dims index, f func(i index) float64) array {
	a := array{dims: dims, v: make([]float64, 0, dims[0]*dims[1]*dims[2]*dims[3])}
	for n := range dims[0] {
		for c := range dims[1] {
			for h := range dims[2] {
				for w := range dims[3] {
					a.v = append(a.v, f(index{n, c, h, w}))
				}
			}
		}
	}
	return a
}

// at returns an element; indices wrap, so a dimension of 1 is repeated.
func (a array) at(i index) float64 {
	at := 0
	for k, d := range a.dims {
		at = at*d + i[k]%d
	}
	return a.v[at]
}

func (a array) set(i index, v float64) {
	at := 0
	for k, d := range a.dims {
		at = at*d + i[k]
	}
	a.v[at] = v
}

func (a array) row(i index) []float64 {
	out := make([]float64, a.dims[3])
	for w := range out {
		i[3] = w
		out[w] = a.at(i)
	}
	return out
}

// numbers are integers of all bits, or normally distributed floats.
func (t *opsRun) numbers(dims index, dt ops.DataType) array {
	return makeArray(dims, func(index) float64 {
		switch dt {
		case ops.UInt8:
			return float64(uint8(t.rnd.Uint32()))
		case ops.UInt16:
			return float64(uint16(t.rnd.Uint32()))
		case ops.UInt32:
			return float64(t.rnd.Uint32())
		case ops.Int32:
			return float64(int32(t.rnd.Uint32()))
		case ops.BFloat16:
			return cutBF16(t.rnd.NormFloat64())
		}
		return float64(float32(t.rnd.NormFloat64()))
	})
}

// cutBF16 leaves of a number what a bfloat16 has.
func cutBF16(v float64) float64 {
	return float64(math.Float32frombits(math.Float32bits(float32(v)) &^ 0xFFFF))
}

func total(n int, of func(k int) float64) (sum float64) {
	for k := range n {
		sum += of(k)
	}
	return sum
}

func zeros(dims ...int) array { return makeArray(index(dims), func(index) float64 { return 0 }) }

// fill sets a part of an array, whose elements have other places there.
func (a array) fill(part array, place func(i index) index) {
	makeArray(part.dims, func(i index) float64 {
		a.set(place(i), part.at(i))
		return 0
	})
}

var (
	floats  = []ops.DataType{ops.BFloat16, ops.Float32}
	opsDRAM = ops.Interleaved(allocator.DRAM)
	opsL1   = ops.Interleaved(allocator.L1)
)

func (t *opsRun) send(a array, dt ops.DataType, l ops.Layout, m ops.MemoryConfig) T {
	out, err := t.d.ToDevice(t.Ctx, t.host(a, dt), l, m)
	t.OK(err)
	t.made = append(t.made, out)
	return out
}

func (t *opsRun) tiles(a array, dt ops.DataType) T {
	return t.send(a, dt, ops.Tile, opsDRAM)
}

// random has numbers, and sends them.
func (t *opsRun) random(dims index, dt ops.DataType) (array, T) {
	a := t.numbers(dims, dt)
	return a, t.tiles(a, dt)
}

func (t *opsRun) host(a array, dt ops.DataType) *ops.Host {
	var h *ops.Host
	var err error
	switch {
	case dt.Float():
		h, err = ops.NewHost(a.dims[:], dt, converted[float32](a.v))
	case dt == ops.Int32:
		h, err = ops.NewHost(a.dims[:], dt, converted[int32](a.v))
	default:
		h, err = ops.NewHost(a.dims[:], dt, converted[uint32](a.v))
	}
	t.OK(err)
	return h
}

type number interface {
	~float64 | ~float32 | ~int32 | ~uint32
}

func converted[To, From number](v []From) []To {
	out := make([]To, len(v))
	for i := range v {
		out[i] = To(v[i])
	}
	return out
}

func (t *opsRun) result(out T, err error) T {
	t.OK(err)
	t.made = append(t.made, out)
	return out
}

func (t *opsRun) values(x T) []float64 {
	h, err := t.d.ToHost(t.Ctx, x)
	t.OK(err)
	switch h.DType {
	case ops.Int32:
		return converted[float64](ops.Values[int32](h))
	case ops.BFloat16, ops.Float32:
		return converted[float64](ops.Values[float32](h))
	}
	return converted[float64](ops.Values[uint32](h))
}

func (t *opsRun) exactly(got T, want array) {
	t.near(got, want, func(index) float64 { return 0 })
}

// rounded allows for rounding to a type, and an absolute error.
func (t *opsRun) rounded(got T, want array, dt ops.DataType, e float64) {
	t.near(got, want, func(i index) float64 { return rounding(dt)*math.Abs(want.at(i)) + e })
}

func (t *opsRun) near(got T, want array, tolerated func(i index) float64) {
	v := t.values(got)
	if len(v) != len(want.v) {
		t.Fatalf("%v has %d elements, want %d", got.Shape(), len(v), len(want.v))
	}
	k, wrong := 0, 0
	makeArray(want.dims, func(i index) float64 {
		if e := math.Abs(v[k] - want.v[k]); !(e <= tolerated(i)) {
			if wrong == 0 {
				t.Errorf("element %v of %v is %v, want %v and no error above %v", i, want.dims, v[k], want.v[k], tolerated(i))
			}
			wrong++
		}
		k++
		return 0
	})
	if wrong > 1 {
		t.Errorf("%d of %d elements differ", wrong, len(v))
	}
}

func rounding(dt ops.DataType) float64 {
	if dt == ops.BFloat16 {
		return 1. / (1 << 8)
	}
	return 1. / (1 << 17)
}

// D and T keep the tables of operations short.
type (
	D = *ops.Device
	T = *ops.Tensor
)

// run calls an operation of a device with a context before and options after its arguments, whose
// last ones may be options too, and replays it.
func (t *opsRun) run(op any, args ...any) T {
	call := func(ctx context.Context, opts ...ops.OpOption) (T, error) {
		in := []reflect.Value{reflect.ValueOf(t.d), reflect.ValueOf(ctx)}
		for _, a := range args {
			if o, ok := a.(ops.OpOption); ok {
				opts = append(opts, o)
				continue
			}
			in = append(in, reflect.ValueOf(a))
		}
		out := reflect.ValueOf(op).CallSlice(append(in, reflect.ValueOf(opts)))
		err, _ := out[1].Interface().(error)
		return out[0].Interface().(T), err
	}
	out := t.result(call(t.Ctx))
	t.replayed(out, func(ctx context.Context) error { return rig.Error(call(ctx, ops.Into(out))) })
	return out
}

// replayed checks a trace of an operation after its output has been overwritten.
func (t *opsRun) replayed(out T, again func(ctx context.Context) error) {
	want := t.values(out)
	t.OK(again(t.Ctx))
	trace, err := t.d.Capture(t.Ctx, "operation", again)
	t.OK(err)
	s := out.Spec()
	blank := t.host(zeros(1, 1, 1, 1), s.DType)
	blank.Shape, blank.Data = s.Shape, make([]byte, len(want)*s.DType.Size())
	t.OK(t.d.CopyHostToDevice(t.Ctx, blank, out))
	t.Replay(trace)
	for i, v := range t.values(out) {
		if v != want[i] && (v == v || want[i] == want[i]) {
			t.Errorf("replayed: element %d is %v, want %v", i, v, want[i])
			break
		}
	}
	t.Release(trace)
}

// short are what names of cases say.
var short = map[any]string{
	ops.UInt8: "uint8", ops.UInt16: "uint16", ops.UInt32: "uint32", ops.Int32: "int32", ops.BFloat16: "bf16", ops.Float32: "fp32",
	ops.RowMajor: "rows", ops.Tile: "tiles",
}

func (i index) String() string { return fmt.Sprintf("%dx%dx%dx%d", i[0], i[1], i[2], i[3]) }

type binary struct {
	name   string
	device any // of D, with two tensors
	floats func(x, y float64) float64
	ints   func(x, y int64) int64
}

var binaries = []binary{
	{"add", D.Add, func(x, y float64) float64 { return x + y }, func(x, y int64) int64 { return x + y }},
	{"subtract", D.Subtract, func(x, y float64) float64 { return x - y }, func(x, y int64) int64 { return x - y }},
	{"multiply", D.Multiply, func(x, y float64) float64 { return x * y }, func(x, y int64) int64 { return x * y }},
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
	for _, op := range binaries {
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
				"%s %s %s %s and %s", op.name, c.dt, c.l, c.a, c.b)
		}
		shards := ops.Sharded(allocator.HeightSharded, 32, 64, chip.Grid(1, 2))
		cs.add(func(t *opsRun) {
			elementwise(t, op, ops.BFloat16, ops.Tile, shards, index{1, 1, 64, 64}, index{1, 1, 64, 64})
		}, "%s bf16 in shards", op.name)
	}
	for _, f := range functions {
		for _, dt := range floats {
			cs.add(func(t *opsRun) { unary(t, f, dt) }, "%s %s", f.name, dt)
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
	got := t.run(op.device, tx, ty)
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
	device   any // of D, with a tensor
	exact    func(float64) float64
	positive bool // of positive numbers
}

var functions = []opsFunction{
	{"abs", D.Abs, math.Abs, false},
	{"exp", D.Exp, math.Exp, false},
	{"gelu", D.Gelu, func(v float64) float64 { return v * math.Erfc(-v/math.Sqrt2) / 2 }, false},
	{"log", D.Log, math.Log, true},
	{"neg", D.Neg, func(v float64) float64 { return -v }, false},
	{"reciprocal", D.Reciprocal, func(v float64) float64 { return 1 / v }, true},
	{"relu", D.Relu, func(v float64) float64 { return max(v, 0) }, false},
	{"rsqrt", D.Rsqrt, func(v float64) float64 { return 1 / math.Sqrt(v) }, true},
	{"sigmoid", D.Sigmoid, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }, false},
	{"sign", D.Sign, func(v float64) float64 { return math.Copysign(1, v) }, true},
	{"silu", D.Silu, func(v float64) float64 { return v / (1 + math.Exp(-v)) }, false},
	{"sqrt", D.Sqrt, math.Sqrt, true},
	{"square", D.Square, func(v float64) float64 { return v * v }, false},
	{"tanh", D.Tanh, math.Tanh, false},
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
	got := t.run(f.device, tx)
	want := makeArray(x.dims, func(i index) float64 { return f.exact(float64(float32(x.at(i)))) })
	t.rounded(got, want, dt, 1./(1<<20))
}

type move struct {
	name   string
	dims   index
	device any   // of D, with a tensor
	args   []any // after it
	result index
	from   func(i index) index // where an element of the result comes from
}

func opsMoves() []move {
	stays := func(i index) index { return i }
	return []move{
		{"slice", index{2, 2, 40, 70}, D.Slice, []any{[]int{1, 0, 3, 5}, []int{2, 2, 39, 60}}, index{1, 2, 36, 55},
			func(i index) index { return index{i[0] + 1, i[1], i[2] + 3, i[3] + 5} }},
		{"repeat", index{1, 2, 5, 33}, D.Repeat, []any{[]int{2, 1, 3, 2}}, index{2, 2, 15, 66}, func(i index) index { return index{0, i[1], i[2] % 5, i[3] % 33} }},
		{"transpose of rows and columns", index{1, 2, 40, 70}, D.Transpose, []any{-2, -1}, index{1, 2, 70, 40}, func(i index) index { return index{i[0], i[1], i[3], i[2]} }},
		{"transpose of heads and rows", index{2, 3, 33, 40}, D.Transpose, []any{1, 2}, index{2, 33, 3, 40}, func(i index) index { return index{i[0], i[2], i[1], i[3]} }},
		{"permute", index{2, 3, 33, 40}, D.Permute, []any{[]int{3, 0, 2, 1}}, index{40, 2, 33, 3}, func(i index) index { return index{i[1], i[3], i[2], i[0]} }},
		{"to rows", index{1, 2, 40, 70}, D.ToLayout, []any{ops.RowMajor}, index{1, 2, 40, 70}, stays},
		{"to tiles", index{1, 2, 40, 70}, D.ToLayout, []any{ops.Tile}, index{1, 2, 40, 70}, stays},
		{"to shards", index{1, 2, 32, 64}, D.ToMemoryConfig, []any{ops.Sharded(allocator.HeightSharded, 32, 64, chip.Grid(1, 2))}, index{1, 2, 32, 64}, stays},
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
				got := t.run(m.device, append([]any{tx}, m.args...)...)
				t.exactly(got, makeArray(m.result, func(i index) float64 { return x.at(m.from(i)) }))
			}, "%s %s %s", m.name, c.dt, c.l)
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
	in := []T{t.tiles(x, ops.BFloat16), t.send(z, ops.BFloat16, ops.RowMajor, opsL1)}
	dims := x.dims
	dims[dim] += 3
	got := t.run(D.Concat, in, dim)
	t.exactly(got, makeArray(dims, func(i index) float64 {
		if i[dim] < x.dims[dim] {
			return x.at(i)
		}
		i[dim] -= x.dims[dim]
		return z.at(i)
	}))
}
