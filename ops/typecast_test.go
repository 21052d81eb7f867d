package ops_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops"
)

var limits = map[ops.DataType][2]float64{
	ops.UInt8: {0, math.MaxUint8}, ops.UInt16: {0, math.MaxUint16}, ops.UInt32: {0, math.MaxUint32}, ops.Int32: {math.MinInt32, math.MaxInt32},
}

func away(f float32) float32 { return math.Float32frombits((math.Float32bits(f) + 0x8000) &^ 0xFFFF) }

func converted(v float64, from, to ops.DataType, engines bool) float64 {
	switch {
	case !to.Float():
		if from.Float() {
			if v != v {
				v = math.Copysign(math.Inf(1), v)
			}
			return min(max(math.Trunc(v), limits[to][0], -math.MaxInt32), limits[to][1])
		}
		return fit(to, int64(v), 0)
	case to == ops.Float32:
		return float64(float32(v))
	case engines:
		return float64(away(float32(v)))
	}
	return float64(bfloat(float32(v)))
}

func TestTypecast(t *testing.T) {
	none := math.NaN()
	floats := []float64{math.Inf(1), math.Inf(-1), none, math.Copysign(none, -1), 0, 0.5, 0.99, 1, 1.5, 2.5, -0.5, -1.75, -3, 200.5, 255,
		256, 300.25, -300, 65535, 65536, 70000.5, 1e6, 16777215, 2.5e9, -2.5e9, 5e9, -5e9, 1e20, 1e-30, 1.00390625, 1.01171875}
	integers := []float64{0, 1, 2, 127, 128, 255, 256, 257, 1000, 32767, 32768, 65535, 65536, 16777217, 33554431, 1 << 30, math.MaxInt32, 3e9,
		math.MaxUint32, -1, -2, -300, -16777219, math.MinInt32 + 1, math.MinInt32}
	onBackends(t, func(b *bench) {
		for _, from := range types {
			var v []float64
			for _, x := range map[bool][]float64{true: floats, false: integers}[from.Float()] {
				if from.Float() {
					v = append(v, fit(from, 0, float32(x)))
				} else if x >= limits[from][0] && x <= limits[from][1] {
					v = append(v, x)
				}
			}
			n := len(v)
			for len(v) < 3*37 { // rows of 37
				v = append(v, v[len(v)%n])
			}
			for _, to := range types {
				for i, x := range v {
					if x != x && to.Float() {
						v[i] = 2 // NaN isn't equal to itself
					}
				}
				for _, l := range []ops.Layout{ops.Tile, ops.RowMajor} {
					if l == ops.RowMajor && (from == ops.UInt16 || to == ops.UInt32) {
						continue // as for other types
					}
					what := fmt.Sprintf("%v to %v in %v", from, to, l)
					got := numbers(b, b.ok(b.Typecast(b.ctx, putNumbers(b, v, from, l), to)))
					engine := func(t ops.DataType) bool { return t.Float() || t == ops.Int32 }
					var want []float64
					for _, x := range v {
						want = append(want, converted(x, from, to, l == ops.Tile && from != to && engine(from) && engine(to)))
					}
					equal(b, want, got, what)
					b.everywhere(what, got)
					if from.Float() && !to.Float() {
						h, err := ops.NewHost([]int{len(v)}, to, convert[float32](v))
						b.must(err)
						equal(b, want, hostNumbers(h), what+" on the host")
					}
				}
			}
		}
	})
}

func TestValuesOutOfRange(t *testing.T) {
	v := []float32{-1, 300.5, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), -3e9}
	h, err := ops.NewHost([]int{len(v)}, ops.Float32, v)
	devtest.Must(t, err)
	equal(t, []uint8{0, 255, 255, 0, 255, 0}, ops.Values[uint8](h))
	equal(t, []uint16{0, 300, 65535, 0, 65535, 0}, ops.Values[uint16](h))
	equal(t, []int32{-1, 300, math.MaxInt32, -math.MaxInt32, math.MaxInt32, -math.MaxInt32}, ops.Values[int32](h))
	equal(t, []uint32{0, 300, math.MaxUint32, 0, math.MaxUint32, 0}, ops.Values[uint32](h))
	equal(t, v[:4], ops.Values[float32](h)[:4])
}

func putNumbers(b *bench, v []float64, t ops.DataType, l ops.Layout) *ops.Tensor {
	b.Helper()
	shape := []int{3, len(v) / 3}
	var h *ops.Host
	var err error
	switch {
	case t.Float():
		h, err = ops.NewHost(shape, t, convert[float32](v))
	case t == ops.Int32:
		h, err = ops.NewHost(shape, t, convert[int32](v))
	default:
		h, err = ops.NewHost(shape, t, convert[uint32](v))
	}
	b.must(err)
	return b.ok(b.ToDevice(b.ctx, h, l, dram))
}

func numbers(b *bench, t *ops.Tensor) []float64 {
	b.Helper()
	h, err := b.ToHost(b.ctx, t)
	b.must(err)
	return hostNumbers(h)
}

func hostNumbers(h *ops.Host) []float64 {
	switch {
	case h.DType.Float():
		return convert[float64](ops.Values[float32](h))
	case h.DType == ops.Int32:
		return convert[float64](ops.Values[int32](h))
	}
	return convert[float64](ops.Values[uint32](h))
}

func convert[To, From float32 | float64 | int32 | uint32](v []From) []To {
	out := make([]To, 0, len(v))
	for _, x := range v {
		out = append(out, To(x))
	}
	return out
}

func TestQuantize(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
			x := normal([4]int{1, 2, 33, 40}, dt, uint64(i))
			const scale, zero, to, next = 0.0171875, -7, 0.05, 11
			s, n := float32(scale), float32(to)
			tq := b.ok(b.Quantize(b.ctx, b.put(x, ops.Tile, dram), s, zero))
			q := numbers(b, tq)
			limited := func(v float64) float64 { return min(max(v, -127), 127) }
			check := func(what string, got, exact []float64) {
				b.Helper()
				b.everywhere(fmt.Sprint(what, " of ", dt), got)
				for i, v := range exact {
					if !(math.Abs(got[i]-limited(v)) <= 0.5+0x1p-12) || got[i] != math.Trunc(got[i]) || math.Abs(got[i]) > 127 {
						b.Errorf("%s of %v: %v, want %v", what, dt, got[i], v)
						return
					}
				}
			}
			var exact, again, back []float64
			for i, v := range x.v {
				exact = append(exact, v/float64(s)+zero)
				again = append(again, (q[i]-zero)*float64(s)/float64(n)+next)
				back = append(back, (q[i]-zero)*float64(s))
			}
			check("quantize", q, exact)
			if !slices.Contains(q, 127) || !slices.Contains(q, -127) {
				b.Error("no limit was reached")
			}
			check("requantize", numbers(b, b.ok(b.Requantize(b.ctx, tq, s, zero, n, next))), again)
			got := b.get(b.ok(b.Dequantize(b.ctx, tq, s, zero, ops.WithDataType(dt))))
			b.everywhere(fmt.Sprint("dequantize to ", dt), got)
			b.near(fmt.Sprint("dequantize to ", dt), dt, got, back, 0x1p-23, 0)
		}
	})
}
