package ops_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/catalog"
)

var updatePage = flag.Bool("update", false, "write docs/special-values.md")

var specialNames = []string{"0", "-0", "subnormal", "2⁶⁴", "largest", "∞", "-∞", "NaN", "-NaN"}

// special calls show with what operations of the catalog give for special values.
func special(b *bench, dt ops.DataType, show func(operation string, results []string)) {
	largest := map[ops.DataType]float64{ops.BFloat16: 0x1.FEp127, ops.Float32: math.MaxFloat32}[dt]
	var pairs, ones []float32
	for _, v := range []float64{0, math.Copysign(0, -1), 0x1p-127, 0x1p64, largest, math.Inf(1), math.Inf(-1), math.NaN(),
		math.Copysign(math.NaN(), -1)} {
		pairs, ones = append(pairs, float32(v), 1), append(ones, 1, 1)
	}
	n := len(specialNames)
	put := func(v []float32) *ops.Tensor {
		h := value(ops.NewHost([]int{n, 2}, dt, v))(b)
		for i, x := range v {
			if x != x && dt == ops.BFloat16 && math.Signbit(float64(x)) { // NewHost makes one NaN of all
				h.Data[2*i+1] |= 0x80
			}
		}
		return b.ok(b.ToDevice(b.ctx, h, ops.Tile, dram))
	}
	x, one, none := put(pairs), put(ones), (*ops.Tensor)(nil)
	outer := b.ok(b.Reshape(b.ctx, b.ok(b.Transpose(b.ctx, x, 0, 1)), []int{2, 1, n, 1}))
	const pair, first = "of x and 1", "of x and 1, over the first dimension"
	operands := map[string][][]any{ // by types, after their name in the page
		"*T":         {{"of x", x}},
		"*T *T":      {{"of x, x", x, x}, {"of 1, x", one, x}},
		"*T *T *T":   {{"of x, 1, 2", x, one, b.ok(b.Add(b.ctx, one, one))}},
		"*T int":     {{pair, x, -1}, {first, outer, 0}},
		"*T bool":    {{pair, x, false}},
		"*T *T f":    {{pair, x, none, float32(1)}},
		"*T *T *T f": {{pair, x, none, none, float32(1)}},
	}
	programs := []*catalog.Program{catalog.BinaryTiles, catalog.UnaryTiles, catalog.Where, catalog.Reduce, catalog.Softmax, catalog.Norm,
		catalog.ArgMax}
	for _, o := range catalog.Operations {
		if !slices.ContainsFunc(o.Programs, func(p *catalog.Program) bool { return slices.Contains(programs, p) }) {
			continue
		}
		for _, name := range regexp.MustCompile("`\\w+`").FindAllString(o.Name, -1) {
			f := reflect.ValueOf(b.Device).MethodByName(strings.Trim(name, "`"))
			if f.Type().NumOut() == 3 {
				continue // TopK orders numbers as ArgMax
			}
			var types []string
			for i := range f.Type().NumIn() - 2 {
				types = append(types, strings.NewReplacer("ops.Tensor", "T", "float32", "f").Replace(f.Type().In(1+i).String()))
			}
			for _, with := range operands[strings.Join(types, " ")] {
				in := []reflect.Value{reflect.ValueOf(b.ctx)}
				for _, v := range with[1:] {
					in = append(in, reflect.ValueOf(v))
				}
				out := f.Call(in)
				if !out[1].IsNil() {
					b.Fatal(name, out[1])
				}
				h := b.toHost(out[0].Interface().(*ops.Tensor))
				got := ops.Values[float32](h)
				if step := len(got) / n; step > 1 && with[0] != first {
					got = slices.Collect(func(yield func(float32) bool) {
						for i := 0; i < len(got) && yield(got[i]); i += step {
						}
					})
				}
				var results []string
				for _, v := range got[:n] {
					text := fmt.Sprintf("%.4g", v)
					if v != v && math.Signbit(float64(v)) {
						text = "-NaN"
					}
					results = append(results, strings.NewReplacer("+", "", "Inf", "∞").Replace(text))
				}
				show(fmt.Sprint(name, " ", with[0]), results)
			}
		}
	}
}

// TestSpecialValues compares docs/special-values.md with what the backends give.
func TestSpecialValues(t *testing.T) {
	types := []ops.DataType{ops.BFloat16, ops.Float32}
	results := map[string][]string{} // by architecture, type and operation
	var operations []string
	onBackends(t, func(b *bench) {
		for _, dt := range types {
			special(b, dt, func(operation string, got []string) {
				key := fmt.Sprint(b.dev.Arch(), dt, operation)
				if results[key] == nil {
					results[key] = got
				}
				equal(b, results[key], got, key)
				if !slices.Contains(operations, operation) {
					operations = append(operations, operation)
				}
			})
		}
	})
	if len(results) != 4*len(operations) {
		t.Skip("not all subtests ran")
	}
	page := ""
	for _, dt := range types {
		page += fmt.Sprintf("\n## %v\n\n| | %s |\n|---%s|\n", dt, strings.Join(specialNames, " | "),
			strings.Repeat("|---", len(specialNames)))
		for _, operation := range operations {
			page += "| " + operation
			other := results[fmt.Sprint(chip.Blackhole, dt, operation)]
			for i, v := range results[fmt.Sprint(chip.Wormhole, dt, operation)] {
				if page += " | " + v; other[i] != v {
					page += " / " + other[i]
				}
			}
			page += " |\n"
		}
	}
	const path, begin = "../docs/special-values.md", "<!-- go test ./ops -run TestSpecialValues -update -->\n"
	have := value(os.ReadFile(path))(t)
	text, table, _ := strings.Cut(string(have), begin)
	if *updatePage {
		devtest.Must(t, os.WriteFile(path, []byte(text+begin+page), 0o644))
		return
	}
	equal(t, page, table, path)
}

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
						h := value(ops.NewHost([]int{len(v)}, to, convert[float32](v)))(b)
						equal(b, want, hostNumbers(h), what+" on the host")
					}
				}
			}
		}
	})
}

func TestValuesOutOfRange(t *testing.T) {
	v := []float32{-1, 300.5, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), -3e9}
	h := value(ops.NewHost([]int{len(v)}, ops.Float32, v))(t)
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
	h := b.toHost(t)
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
