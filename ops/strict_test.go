package ops_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

// onStrictCards runs a test with every seed, on cards with every check and every reordering that
// hardware may do.
func onStrictCards(t *testing.T, stream uint64, f func(t *testing.T, b *bench, r *rand.Rand)) {
	// Three rows or columns of cores, of which the queue takes one: more cores take time and test
	// nothing new.
	for _, c := range []struct {
		card    func(...sim.Option) *sim.Card
		harvest uint32
	}{{sim.Wormhole, 0x3F8}, {sim.Blackhole, 0x3FF8}} {
		t.Run(c.card().String(), func(t *testing.T) {
			seeds := effort.Of[uint64](1, 4, 1000)
			for seed := range seeds {
				if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					card := c.card(sim.Strict(seed), sim.Harvesting(chip.Harvesting{Tensix: c.harvest}))
					f(t, open(t, card), rand.New(rand.NewPCG(seed, stream)))
					if err := card.Chip().Fault(); err != nil {
						t.Error(err)
					}
				}) && !effort.Hours {
					return
				}
			}
		})
	}
}

func TestStrict(t *testing.T) {
	onStrictCards(t, 5, func(t *testing.T, b *bench, r *rand.Rand) {
		run := func(check func(room, *bench, *rapid.T, ...string), names []string) {
			bits := make([]byte, 8*1000) // what rapid draws from, some hundred numbers
			for i := range bits {
				bits[i] = byte(r.Uint32())
			}
			rapid.MakeFuzz(func(t *rapid.T) { check(room{side: 2, elements: 600}, b, t, names...) })(t, bits)
		}
		for _, names := range operations {
			run(room.check, names)
		}
		for _, names := range reals {
			run(room.checkReals, names)
		}
	})
}

var reals = [][]string{{"softmax"}, {"norm"}, {"divide"}, {"where"}, {"fold"}, {"typecast"}, {"convert"}, {"quantize"}, {"round"}}

func off(dt ops.DataType, got, want []float64, relative, absolute float64) string {
	for i, w := range want {
		tolerance := relative*math.Abs(w) + absolute
		if dt == ops.BFloat16 {
			tolerance += 0.5 * math.Exp2(math.Floor(math.Log2(math.Abs(w)))-7)
		}
		if !(math.Abs(got[i]-w) <= tolerance) && got[i] != w {
			return fmt.Sprintf("element %d is %v, want %v", i, got[i], w)
		}
	}
	return ""
}

func (r room) checkReals(b *bench, t *rapid.T, names ...string) {
	ok, keep, release := kept(b, t)
	defer release()
	dt := rapid.SampledFrom([]ops.DataType{ops.BFloat16, ops.Float32}).Draw(t, "type")
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "numbers"), 2))
	draw := func(name string, dims [4]int) (*plain, *ops.Tensor) {
		p := make4(dims, dt, func(_, _, _, _ int) float64 { return fit(dt, 0, float32(3*random.NormFloat64())) })
		return p, keep(b.ToDevice(b.ctx, host(t, p), ops.Tile, r.memory(t, name, dims, ops.Tile)))
	}
	smaller := func(name string, d [4]int, last int) [4]int {
		for i := range last {
			if rapid.Bool().Draw(t, fmt.Sprint(name, " repeats ", i)) {
				d[i] = 1
			}
		}
		return d
	}
	get := func(x *ops.Tensor) []float64 {
		return convert[float64](ops.Values[float32](must(t)(b.ToHost(b.ctx, keep(x, nil)))))
	}
	run := func(x *ops.Tensor, err error) []float64 { t.Helper(); ok(err); return get(x) }
	same := func(got, want []float64, relative, absolute float64) {
		t.Helper()
		if s := off(dt, got, want, relative, absolute); s != "" {
			t.Fatal(s)
		}
	}

	dims := r.dims(t, "a")
	a, ta := draw("a", dims)
	switch op := rapid.SampledFrom(names).Draw(t, "op"); op {
	case "softmax":
		if rapid.Bool().Draw(t, "plain") {
			same(run(b.Softmax(b.ctx, ta, -1)), softmax(a, nil, 1).v, 0x1p-18, 0x1p-126)
			return
		}
		mask, tm := draw("mask", smaller("mask", dims, 3))
		same(run(b.ScaleMaskSoftmax(b.ctx, ta, tm, 0.7)), softmax(a, mask, float64(float32(0.7))).v, 0x1p-17, 0x1p-126)
	case "norm":
		row := [4]int{1, 1, 1, dims[3]}
		var gamma, beta *plain
		var tg, tb *ops.Tensor
		if rapid.Bool().Draw(t, "with gamma") {
			gamma, tg = draw("gamma", row)
		}
		if rapid.Bool().Draw(t, "mean stays") {
			same(run(b.RMSNorm(b.ctx, ta, tg, 1)), normalised(a, gamma, nil, 1, true).v, 0x1p-18, 0x1p-126)
			return
		}
		if rapid.Bool().Draw(t, "with beta") {
			beta, tb = draw("beta", row)
		}
		same(run(b.LayerNorm(b.ctx, ta, tg, tb, 1)), normalised(a, gamma, beta, 1, false).v, 0x1p-18, 0x1p-15)
	case "divide":
		y, ty := draw("b", smaller("b", dims, 4))
		same(run(b.Divide(b.ctx, ta, ty)), make4(dims, dt, func(n, c, h, w int) float64 { return a.at(n, c, h, w) / y.at(n, c, h, w) }).v,
			0x1p-21, 0)
	case "where":
		for i := range a.v {
			if i%3 == 0 {
				a.v[i] = 0
			}
		}
		condition := keep(b.ToDevice(b.ctx, host(t, a), ops.Tile, r.memory(t, "condition", dims, ops.Tile)))
		x, tx := draw("x", smaller("x", dims, 4))
		y, ty := draw("y", smaller("y", dims, 4))
		want := make4(dims, dt, func(n, c, h, w int) float64 {
			if a.at(n, c, h, w) != 0 {
				return x.at(n, c, h, w)
			}
			return y.at(n, c, h, w)
		})
		if got := run(b.Where(b.ctx, condition, tx, ty)); !slices.Equal(got, want.v) {
			t.Fatal(got, want.v)
		}
	case "fold":
		dim := rapid.IntRange(0, 1).Draw(t, "dim")
		d := dims
		d[dim] = 1
		sum := func(n, c, h, w int, f func(float64) float64) (s float64) {
			at := [4]int{n, c, h, w}
			for at[dim] = range dims[dim] {
				s += f(a.at(at[0], at[1], at[2], at[3]))
			}
			return s
		}
		most := slices.Max(make4(d, dt, func(n, c, h, w int) float64 { return sum(n, c, h, w, math.Abs) }).v)
		want := make4(d, dt, func(n, c, h, w int) float64 { return sum(n, c, h, w, func(v float64) float64 { return v }) })
		same(run(b.Sum(b.ctx, ta, dim)), want.v, 0x1p-20, most*0x1p-20)
	case "typecast", "convert": // by the engines, by RISC-V cores
		to := rapid.SampledFrom([]ops.DataType{ops.BFloat16, ops.Float32, ops.Int32}).Draw(t, "to")
		if op == "convert" {
			to = rapid.SampledFrom([]ops.DataType{ops.UInt8, ops.UInt16, ops.UInt32}).Draw(t, "to")
		}
		if to == dt {
			return
		}
		var want []float64
		for _, v := range a.v {
			want = append(want, converted(v, dt, to, op == "typecast"))
		}
		tc := keep(b.Typecast(b.ctx, ta, to))
		if got := numbers(b, tc); !slices.Equal(got, want) {
			t.Fatalf("%v to %v: %v, want %v", dt, to, got, want)
		}
	case "quantize":
		q := keep(b.Quantize(b.ctx, ta, 0.0625, 3))
		for i, v := range numbers(b, q) {
			if exact := min(max(a.v[i]/0.0625+3, -127), 127); !(math.Abs(v-exact) <= 0.5) {
				t.Fatalf("%v is quantised to %v, want %v", a.v[i], v, exact)
			}
		}
		var want []float64
		for _, v := range numbers(b, q) {
			want = append(want, (v-3)*0.0625)
		}
		same(run(b.Dequantize(b.ctx, q, 0.0625, 3, ops.WithDataType(dt))), want, 0x1p-23, 0)
	default:
		var want []float64
		for _, v := range a.v {
			want = append(want, math.Floor(v))
		}
		if got := run(b.Floor(b.ctx, ta)); !slices.Equal(got, want) {
			t.Fatal(got, want)
		}
	}
}

func TestRowsAndElementsInTracesAndGraphs(t *testing.T) {
	effort.Long(t)
	b := open(t, sim.Blackhole(sim.Strict(6)))
	dims := [4]int{2, 1, 40, 70}
	x := b.put(normal(dims, ops.BFloat16, 1), ops.Tile, dram)
	mask := b.put(normal([4]int{1, 1, 1, 70}, ops.BFloat16, 2), ops.Tile, dram)
	spec := x.Spec()
	steps := []struct {
		name, class string
		run         func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error)
	}{
		{"ttnn::layer_norm", "LayerNormDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.LayerNorm(ctx, in, mask, nil, 1e-5, opts...)
		}},
		{"ttnn::scale_mask_softmax", "SoftmaxDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor,
			error) {
			return b.ScaleMaskSoftmax(ctx, in, mask, 2, opts...)
		}},
		{"ttnn::divide", "BinaryNgDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Divide(ctx, in, mask, opts...)
		}},
		{"ttnn::where", "TernaryDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Where(ctx, mask, in, mask, opts...)
		}},
		{"ttnn::rms_norm", "LayerNormDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.RMSNorm(ctx, in, mask, 0, opts...)
		}},
		{"ttnn::quantize", "BinaryNgDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Quantize(ctx, in, 0.01, 1, opts...)
		}},
		{"ttnn::typecast", "TypecastDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Typecast(ctx, in, ops.BFloat16, opts...)
		}},
		{"ttnn::mean", "ReduceDeviceOperation", func(ctx context.Context, in *ops.Tensor, opts ...ops.OpOption) (*ops.Tensor, error) {
			return b.Mean(ctx, in, 0, opts...)
		}},
	}
	// chain runs the steps, into tensors if there are some, and returns the results.
	chain := func(ctx context.Context, in *ops.Tensor, into ...*ops.Tensor) []*ops.Tensor {
		var out []*ops.Tensor
		for i, s := range steps {
			var opts []ops.OpOption
			if into != nil {
				opts = append(opts, ops.Into(into[i]))
			}
			in = b.ok(s.run(ctx, in, opts...))
			out = append(out, in)
		}
		return out
	}
	for name, mode := range modes {
		c := b.BeginCapture(graph.Config{Mode: mode})
		in := b.ok(b.Empty(b.ctx, spec))
		if mode == graph.Normal {
			in = x
		}
		chain(b.ctx, in)
		b.ok(b.Rand(b.ctx, spec, 0, 1, 3))
		report := b.report(c)
		have := map[string]bool{}
		for _, n := range only(report.Graph, graph.FunctionStart) {
			have[n.Params["name"]] = true
		}
		for _, s := range steps {
			if !have[s.name] || !have[s.class] {
				t.Errorf("%s: %s or %s isn't in the graph", name, s.name, s.class)
			}
		}
		if !have["ttnn::rand"] || !have["UniformDeviceOperation"] {
			t.Errorf("%s: ttnn::rand isn't in the graph", name)
		}
	}

	outs := chain(b.ctx, x)
	tr := b.capture("rows and elements", func(ctx context.Context) error { chain(ctx, x, outs...); return nil })
	next := b.put(normal(dims, ops.BFloat16, 3), ops.Tile, dram)
	h := b.toHost(next)
	b.must(b.CopyHostToDevice(b.ctx, h, x))
	b.must(tr.Replay(b.ctx))
	got := b.get(outs[len(outs)-1])
	want := chain(b.ctx, next)
	equal(t, b.get(want[len(want)-1]), got, "replayed")
	b.must(tr.Release(b.ctx))
}
