package ops_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

// longIfStrict leaves the cards with every check to long and short runs: the checks take most of
// the time. Quick runs have them in TestStrict and its likes.
func longIfStrict(t *testing.T, card string) {
	t.Helper()
	if strings.HasPrefix(card, "strict") && !testing.Short() {
		effort.Long(t)
	}
}

// few leaves a card three rows or columns of cores.
var few = map[chip.Arch]sim.Option{
	chip.Wormhole:  sim.Harvesting(chip.Harvesting{Tensix: 0x3F8}),
	chip.Blackhole: sim.Harvesting(chip.Harvesting{Tensix: 0x3FF8}),
}

// onBackends has few cores, so that each computes several blocks. A long run has every check on
// Wormhole, a short one on Blackhole, and one of hours on both.
func onBackends(t *testing.T, f func(b *bench)) {
	for name, card := range map[string]func(testing.TB) kmd.Target{
		"wormhole":         func(testing.TB) kmd.Target { return sim.Wormhole(few[chip.Wormhole]) },
		"blackhole":        func(testing.TB) kmd.Target { return sim.Blackhole(few[chip.Blackhole]) },
		"strict wormhole":  func(testing.TB) kmd.Target { return sim.Wormhole(few[chip.Wormhole], sim.Strict(21)) },
		"strict blackhole": func(testing.TB) kmd.Target { return sim.Blackhole(few[chip.Blackhole], sim.Strict(22)) },
		"ttsim wormhole":   func(t testing.TB) kmd.Target { return ttsimtest.Card(t, ttsimtest.Wormhole) },
		"ttsim blackhole":  func(t testing.TB) kmd.Target { return ttsimtest.Card(t, ttsimtest.Blackhole) },
	} {
		t.Run(name, func(t *testing.T) {
			if other := map[bool]string{false: "strict blackhole", true: "strict wormhole"}[testing.Short()]; !effort.Hours &&
				name == other {
				t.Skip("a long run has every check on Wormhole, -short on Blackhole, -tags hours on both")
			}
			longIfStrict(t, name)
			f(open(t, card(t)))
		})
	}
}

func normal(dims [4]int, dt ops.DataType, seed uint64) *plain {
	r := rand.New(rand.NewPCG(seed, 1))
	return make4(dims, dt, func(_, _, _, _ int) float64 { return fit(dt, 0, float32(r.NormFloat64())) })
}

func (b *bench) put(p *plain, l ops.Layout, m ops.MemoryConfig) *ops.Tensor {
	b.Helper()
	return b.ok(b.ToDevice(b.ctx, b.host(p), l, m))
}

func (b *bench) host(p *plain) *ops.Host {
	b.Helper()
	v := make([]float32, len(p.v))
	for i := range v {
		v[i] = float32(p.v[i])
	}
	h, err := ops.NewHost(p.dims[:], p.dtype, v)
	b.must(err)
	return h
}

func (b *bench) get(t *ops.Tensor) []float64 {
	b.Helper()
	h, err := b.ToHost(b.ctx, t)
	b.must(err)
	var out []float64
	for _, v := range ops.Values[float32](h) {
		out = append(out, float64(v))
	}
	return out
}

// The sum in Dst has a relative error of at most 2^-12 of the sum of absolute values, rounding to
// bfloat16 adds 2^-8 of the result, and cutting to TF32 2^-10 of each product.
func TestMatmulOnTheEngines(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b     [4]int
			m, n     ops.MemoryConfig
			from, to ops.DataType
		}{
			{[4]int{1, 1, 32, 32}, [4]int{1, 1, 32, 32}, dram, dram, ops.BFloat16, ops.BFloat16},
			{[4]int{1, 1, 96, 128}, [4]int{1, 1, 128, 200}, dram, l1, ops.BFloat16, ops.BFloat16},
			{[4]int{1, 2, 40, 70}, [4]int{1, 1, 70, 33}, l1, dram, ops.BFloat16, ops.Float32},
			{[4]int{2, 1, 5, 300}, [4]int{1, 3, 300, 7}, ops.Sharded(allocator.HeightSharded, 32, 320, chip.Grid(1, 2)), l1, ops.BFloat16,
				ops.BFloat16},
			{[4]int{1, 1, 64, 100}, [4]int{1, 1, 100, 40}, dram, dram, ops.Float32, ops.Float32},
			{[4]int{1, 1, 33, 32}, [4]int{1, 1, 32, 32}, dram, dram, ops.Float32, ops.BFloat16},
		} {
			x, y := normal(c.a, c.from, uint64(2*i)), normal(c.b, c.from, uint64(2*i+1))
			got := b.get(b.ok(b.Matmul(b.ctx, b.put(x, ops.Tile, c.m), b.put(y, ops.Tile, c.n), ops.WithDataType(c.to))))
			want := b.engines().matmul(x, y, c.to)
			if !slices.Equal(got, want.v) {
				b.Errorf("%v times %v: %s", c.a, c.b, cmp.Diff(want.v, got))
			}
			exact, worst := want.dims, 0.
			at := 0
			make4(exact, c.to, func(n, ch, h, w int) float64 {
				var sum, size float64
				for k := range c.a[3] {
					p := x.at(n, ch, h, k) * y.at(n, ch, k, w)
					sum, size = sum+p, size+math.Abs(p)
				}
				tolerance := size / (1 << 12)
				if c.from == ops.Float32 {
					tolerance += size / (1 << 10)
				}
				if c.to == ops.BFloat16 {
					tolerance += math.Abs(sum) / (1 << 8)
				}
				worst = max(worst, math.Abs(got[at]-sum)/tolerance)
				at++
				return 0
			})
			if worst > 1 {
				b.Errorf("%v times %v: %.2f of the tolerated error", c.a, c.b, worst)
			}
			b.Logf("%v times %v: %.2f of the tolerated error", c.a, c.b, worst)
		}
	})
}

func TestElementwiseOnTheEngines(t *testing.T) {
	shards := ops.Sharded(allocator.HeightSharded, 64, 64, chip.Grid(1, 2))
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b [4]int
			m    ops.MemoryConfig
			dt   ops.DataType
		}{
			{[4]int{1, 2, 40, 70}, [4]int{1, 2, 40, 70}, dram, ops.BFloat16},
			{[4]int{2, 1, 33, 7}, [4]int{1, 3, 1, 7}, l1, ops.BFloat16},
			{[4]int{1, 1, 33, 1}, [4]int{1, 1, 1, 35}, dram, ops.BFloat16},
			{[4]int{1, 1, 1, 1}, [4]int{1, 1, 33, 40}, dram, ops.BFloat16},
			{[4]int{1, 1, 128, 64}, [4]int{1, 1, 128, 64}, shards, ops.BFloat16},
			{[4]int{1, 1, 128, 64}, [4]int{1, 1, 128, 64}, shards, ops.Float32},
			{[4]int{1, 1, 70, 33}, [4]int{1, 1, 70, 1}, dram, ops.Float32},
			{[4]int{1, 1, 33, 34}, [4]int{1, 1, 1, 34}, l1, ops.Float32},
		} {
			x, y := normal(c.a, c.dt, uint64(2*i)), normal(c.b, c.dt, uint64(2*i+1))
			tx, ty := b.put(x, ops.Tile, c.m), b.put(y, ops.Tile, c.m)
			check := func(what string, got *ops.Tensor, want *plain) {
				b.Helper()
				equal(b, want.v, b.get(got), "%s of %v, %v and %v", what, c.dt, c.a, c.b)
			}
			for _, name := range []string{"add", "subtract", "multiply"} {
				f := b.binary(name, tx, ty)
				check(name, b.ok(f.device(b.ctx, tx, ty)), f.host(x, y))
				check(name+" to itself", b.ok(f.device(b.ctx, tx, tx)), f.host(x, x))
			}
			check("relu", b.ok(b.Relu(b.ctx, tx)), b.engines().relu(x))
		}
	})
}
