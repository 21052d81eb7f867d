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
		h, err := ops.NewHost([]int{n, 2}, dt, v)
		b.must(err)
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
				h, err := b.ToHost(b.ctx, out[0].Interface().(*ops.Tensor))
				b.must(err)
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
	have, err := os.ReadFile(path)
	devtest.Must(t, err)
	text, table, _ := strings.Cut(string(have), begin)
	if *updatePage {
		devtest.Must(t, os.WriteFile(path, []byte(text+begin+page), 0o644))
		return
	}
	equal(t, page, table, path)
}
