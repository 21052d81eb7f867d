// Package operations has the cases of tensors and operations.
package operations

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/reprise-tt/reprise/allocator"
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
	made []*ops.Tensor
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

// total is the sum of n numbers.
func total(n int, of func(k int) float64) (sum float64) {
	for k := range n {
		sum += of(k)
	}
	return sum
}

// zeros is an array of zeros.
func zeros(dims ...int) array { return makeArray(index(dims), func(index) float64 { return 0 }) }

// fill sets a part of an array, whose elements have other places there.
func (a array) fill(part array, place func(i index) index) {
	makeArray(part.dims, func(i index) float64 {
		a.set(place(i), part.at(i))
		return 0
	})
}

var (
	opsDRAM = ops.Interleaved(allocator.DRAM)
	opsL1   = ops.Interleaved(allocator.L1)
)

func (t *opsRun) send(a array, dt ops.DataType, l ops.Layout, m ops.MemoryConfig) *ops.Tensor {
	out, err := t.d.ToDevice(t.Ctx, t.host(a, dt), l, m)
	t.OK(err)
	t.made = append(t.made, out)
	return out
}

func (t *opsRun) tiles(a array, dt ops.DataType) *ops.Tensor {
	return t.send(a, dt, ops.Tile, opsDRAM)
}

// random has numbers, and sends them.
func (t *opsRun) random(dims index, dt ops.DataType) (array, *ops.Tensor) {
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

func (t *opsRun) result(out *ops.Tensor, err error) *ops.Tensor {
	t.OK(err)
	t.made = append(t.made, out)
	return out
}

func (t *opsRun) values(x *ops.Tensor) []float64 {
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

func (t *opsRun) exactly(got *ops.Tensor, want array) {
	t.near(got, want, func(index) float64 { return 0 })
}

// rounded allows for rounding to a type, and an absolute error.
func (t *opsRun) rounded(got *ops.Tensor, want array, dt ops.DataType, e float64) {
	t.near(got, want, func(i index) float64 { return rounding(dt)*math.Abs(want.at(i)) + e })
}

func (t *opsRun) near(got *ops.Tensor, want array, tolerated func(i index) float64) {
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

// rounding is the error of rounding to a type.
func rounding(dt ops.DataType) float64 {
	if dt == ops.BFloat16 {
		return 1. / (1 << 8)
	}
	return 1. / (1 << 17)
}

type call struct {
	ctx  context.Context
	opts []ops.OpOption
}

func (t *opsRun) run(op func(call) (*ops.Tensor, error)) *ops.Tensor {
	out := t.result(op(call{ctx: t.Ctx}))
	t.replayed(out, func(ctx context.Context) error { _, err := op(call{ctx, []ops.OpOption{ops.Into(out)}}); return err })
	return out
}

// replayed checks a trace of an operation after its output has been overwritten.
func (t *opsRun) replayed(out *ops.Tensor, again func(ctx context.Context) error) {
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

func typeName(dt ops.DataType) string {
	return map[ops.DataType]string{
		ops.UInt8: "uint8", ops.UInt16: "uint16", ops.UInt32: "uint32", ops.Int32: "int32", ops.BFloat16: "bf16", ops.Float32: "fp32",
	}[dt]
}

func layoutName(l ops.Layout) string {
	return map[ops.Layout]string{ops.RowMajor: "rows", ops.Tile: "tiles"}[l]
}

func dimsName(i index) string { return fmt.Sprintf("%dx%dx%dx%d", i[0], i[1], i[2], i[3]) }
