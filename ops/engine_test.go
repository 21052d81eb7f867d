package ops_test

import (
	"context"
	"encoding/binary"
	"fmt"
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
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

type engines struct{ arch arith.Arch }

func (b *bench) engines() engines {
	if b.dev.Arch() == chip.Wormhole {
		return engines{arith.Wormhole}
	}
	return engines{arith.Blackhole}
}

func source(t ops.DataType) (in, out arith.Format) {
	if t == ops.Float32 {
		return arith.FP32, arith.TF32
	}
	return arith.BF16, arith.BF16
}

func (e engines) math(t ops.DataType) arith.Math {
	_, f := source(t)
	return arith.Math{Arch: e.arch, A: f, B: f, Wide: true}
}

func tile(p *plain, dims [4]int, n, c, h, w int) []byte {
	size := p.dtype.Size()
	l1 := make([]byte, arith.TileData*size)
	for i := range min(32, dims[2]-h) {
		for k := range min(32, dims[3]-w) {
			v := math.Float32bits(float32(p.at(n, c, h+i, w+k)))
			if size == 2 && v&^(1<<31) > 0x7F800000 {
				v = 0x7FC00000 // as NewHost makes it
			}
			at := l1[size*arith.FaceOrder(i, k):]
			if size == 4 {
				binary.LittleEndian.PutUint32(at, v)
			} else {
				binary.LittleEndian.PutUint16(at, uint16(v>>16))
			}
		}
	}
	return l1
}

func (e engines) unpack(p *plain, dims [4]int, n, c, h, w int) *arith.SrcTile {
	in, out := source(p.dtype)
	var t arith.SrcTile
	(&arith.Unpack{Arch: e.arch, In: in, Out: out}).Tile(&t, tile(p, dims, n, c, h, w))
	return &t
}

func (e engines) pack(dst *arith.DstTile, to ops.DataType) [32][32]float64 {
	p := arith.Pack{Mid: arith.BF16, Out: arith.BF16, Wide: true}
	if to == ops.Float32 {
		p.Mid, p.Out = arith.FP32, arith.FP32
	}
	l1 := make([]byte, p.Out.TileBytes())
	p.Tile(l1, dst)
	var out [32][32]float64
	for i := range out {
		for k := range out[i] {
			at := arith.FaceOrder(i, k)
			if to == ops.Float32 {
				out[i][k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(l1[4*at:])))
			} else {
				out[i][k] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(l1[2*at:])) << 16))
			}
		}
	}
	return out
}

func (e engines) tiles(dims [4]int, to ops.DataType, f func(dst *arith.DstTile, n, c, h, w int)) *plain {
	done := map[[4]int][32][32]float64{}
	return make4(dims, to, func(n, c, h, w int) float64 {
		at := [4]int{n, c, h / 32, w / 32}
		t, ok := done[at]
		if !ok {
			var dst arith.DstTile
			f(&dst, n, c, h/32*32, w/32*32)
			t = e.pack(&dst, to)
			done[at] = t
		}
		return t[h%32][w%32]
	})
}

func (e engines) matmul(a, b *plain, to ops.DataType) *plain {
	d := [4]int{max(a.dims[0], b.dims[0]), max(a.dims[1], b.dims[1]), a.dims[2], b.dims[3]}
	return e.tiles(d, to, func(dst *arith.DstTile, n, c, h, w int) {
		for k := 0; k < a.dims[3]; k += 32 {
			e.math(a.dtype).MatmulTile(dst, e.unpack(a, a.dims, n, c, h, k), e.unpack(b, b.dims, n, c, k, w), arith.HiFi4)
		}
	})
}

func (e engines) pairwise(a, b *plain, matrix func(m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile),
	vector func(x, y uint32) uint32) *plain {
	var d [4]int
	for i := range d {
		d[i] = max(a.dims[i], b.dims[i])
	}
	if a.dtype == ops.BFloat16 {
		return e.tiles(d, a.dtype, func(dst *arith.DstTile, n, c, h, w int) {
			matrix(e.math(a.dtype), dst, e.unpack(a, d, n, c, h, w), e.unpack(b, d, n, c, h, w))
		})
	}
	return e.tiles(d, a.dtype, func(dst *arith.DstTile, n, c, h, w int) {
		e.vector(dst, func(x []uint32) uint32 { return vector(x[0], x[1]) }, tile(a, d, n, c, h, w), tile(b, d, n, c, h, w))
	})
}

func (e engines) vector(dst *arith.DstTile, f func(x []uint32) uint32, l1 ...[]byte) {
	x := make([]uint32, len(l1))
	for i := range arith.TileData {
		for k, t := range l1 {
			if len(t) == 4*arith.TileData {
				x[k] = binary.LittleEndian.Uint32(t[4*i:])
			} else {
				x[k] = uint32(binary.LittleEndian.Uint16(t[2*i:])) << 16
			}
		}
		v := arith.EncodeDst32(arith.FlushDenormal(f(x)))
		dst.Hi[i/16][i%16], dst.Lo[i/16][i%16] = uint16(v>>16), uint16(v)
	}
}

const fp32One, fp32Sign = 0x3F800000, 1 << 31

func (e engines) add(a, b *plain) *plain {
	return e.pairwise(a, b, func(m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile) { m.AddTile(dst, a, b, false) },
		func(x, y uint32) uint32 { return e.arch.FMA(x, fp32One, y) })
}

func (e engines) subtract(a, b *plain) *plain {
	return e.pairwise(a, b, func(m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile) { m.SubTile(dst, a, b, false) },
		func(x, y uint32) uint32 { return e.arch.FMA(x, fp32One, y^fp32Sign) })
}

func (e engines) multiply(a, b *plain) *plain {
	return e.pairwise(a, b, func(m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile) { m.MulTile(dst, a, b, arith.HiFi4) },
		func(x, y uint32) uint32 { return e.arch.FMA(x, y, 0) })
}

func (e engines) relu(a *plain) *plain {
	return e.tiles(a.dims, a.dtype, func(dst *arith.DstTile, n, c, h, w int) {
		e.vector(dst, func(x []uint32) uint32 {
			if arith.TotalOrder(x[0]) > 0 {
				return x[0]
			}
			return 0
		}, tile(a, a.dims, n, c, h, w))
	})
}

type binaryOperation struct {
	device func(context.Context, *ops.Tensor, *ops.Tensor, ...ops.OpOption) (*ops.Tensor, error)
	host   func(a, b *plain) *plain
}

func (b *bench) binary(name string, in ...*ops.Tensor) binaryOperation {
	e, on := b.engines(), floats(in...)
	choose := func(engine, other func(a, b *plain) *plain) func(a, b *plain) *plain {
		if on {
			return engine
		}
		return other
	}
	switch name {
	case "add":
		return binaryOperation{b.Add, choose(e.add, add)}
	case "subtract":
		return binaryOperation{b.Subtract, choose(e.subtract, subtract)}
	}
	return binaryOperation{b.Multiply, choose(e.multiply, multiply)}
}

// longIfStrict leaves the cards with every check to long runs: the checks take most of the time.
// Quick runs have them in TestStrict and its likes.
func longIfStrict(t *testing.T, card string) {
	t.Helper()
	if strings.HasPrefix(card, "strict") {
		effort.Long(t)
	}
}

// few leaves a card three rows or columns of cores.
var few = map[chip.Arch]sim.Option{
	chip.Wormhole:  sim.Harvesting(chip.Harvesting{Tensix: 0x3F8}),
	chip.Blackhole: sim.Harvesting(chip.Harvesting{Tensix: 0x3FF8}),
}

// onBackends has few cores, so that each computes several blocks. A long run has every check on
// one architecture, which the test's name decides, and one of hours on both.
func onBackends(t *testing.T, f func(b *bench)) {
	test := t.Name()
	for name, card := range map[string]func(testing.TB) kmd.Target{
		"wormhole":         func(testing.TB) kmd.Target { return sim.Wormhole(few[chip.Wormhole]) },
		"blackhole":        func(testing.TB) kmd.Target { return sim.Blackhole(few[chip.Blackhole]) },
		"strict wormhole":  func(testing.TB) kmd.Target { return sim.Wormhole(few[chip.Wormhole], sim.Strict(21)) },
		"strict blackhole": func(testing.TB) kmd.Target { return sim.Blackhole(few[chip.Blackhole], sim.Strict(22)) },
		"ttsim wormhole":   func(t testing.TB) kmd.Target { return ttsimtest.Card(t, ttsimtest.Wormhole) },
		"ttsim blackhole":  func(t testing.TB) kmd.Target { return ttsimtest.Card(t, ttsimtest.Blackhole) },
	} {
		t.Run(name, func(t *testing.T) {
			if !effort.Hours && name == []string{"strict wormhole", "strict blackhole"}[len(test)%2] {
				t.Skip("a long run has every check on one architecture, -tags hours on both")
			}
			longIfStrict(t, name)
			if i := slices.Index([]string{"wormhole", "blackhole"}, name); i >= 0 {
				effort.OneOf(t, test, i, 2)
			}
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
	h := value(ops.NewHost(p.dims[:], p.dtype, v))(b)
	return h
}

func (b *bench) get(t *ops.Tensor) []float64 {
	b.Helper()
	h := b.toHost(t)
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

func TestRowsOnTheEngines(t *testing.T) {
	narrow := ops.Sharded(allocator.WidthSharded, 3, 1250, chip.Grid(1, 2))
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b   [4]int
			la, lb ops.Layout
			m      ops.MemoryConfig
			dt     ops.DataType
		}{
			{[4]int{1, 1, 3, 2500}, [4]int{1, 1, 3, 2500}, ops.RowMajor, ops.RowMajor, dram, ops.BFloat16},
			{[4]int{1, 1, 3, 2500}, [4]int{1, 1, 1, 2500}, ops.RowMajor, ops.RowMajor, narrow, ops.BFloat16},
			{[4]int{1, 2, 3, 1040}, [4]int{1, 1, 3, 1}, ops.RowMajor, ops.RowMajor, l1, ops.Float32},
			{[4]int{2, 1, 33, 41}, [4]int{1, 1, 33, 41}, ops.RowMajor, ops.Tile, dram, ops.BFloat16},
			{[4]int{1, 1, 40, 50}, [4]int{1, 1, 1, 50}, ops.Tile, ops.RowMajor, dram, ops.Float32},
		} {
			x, y := normal(c.a, c.dt, uint64(2*i)), normal(c.b, c.dt, uint64(2*i+1))
			tx, ty := b.put(x, c.la, c.m), b.put(y, c.lb, dram)
			check := func(what string, got *ops.Tensor, want *plain) {
				b.Helper()
				equal(b, want.v, b.get(got), "%s of %v, %v and %v", what, c.dt, c.a, c.b)
			}
			for _, name := range []string{"add", "subtract", "multiply"} {
				f := b.binary(name, tx, ty)
				check(name, b.ok(f.device(b.ctx, tx, ty)), f.host(x, y))
			}
			check("relu", b.ok(b.Relu(b.ctx, tx)), b.engines().relu(x))
		}
		for i, c := range []struct {
			a, b     [4]int
			la, lb   ops.Layout
			m        ops.MemoryConfig // of the result
			from, to ops.DataType
		}{
			{[4]int{1, 1, 33, 70}, [4]int{1, 1, 70, 200}, ops.RowMajor, ops.RowMajor, dram, ops.BFloat16, ops.BFloat16},
			{[4]int{2, 1, 5, 40}, [4]int{1, 3, 40, 50}, ops.RowMajor, ops.Tile, l1, ops.Float32, ops.Float32},
			{[4]int{1, 1, 40, 33}, [4]int{1, 1, 33, 50}, ops.Tile, ops.RowMajor, dram, ops.BFloat16, ops.Float32},
			{[4]int{1, 1, 35, 20}, [4]int{1, 1, 20, 50}, ops.RowMajor, ops.RowMajor, ops.Sharded(allocator.WidthSharded, 35, 25, chip.Grid(1, 2)),
				ops.Float32, ops.BFloat16},
		} {
			x, y := normal(c.a, c.from, uint64(20+2*i)), normal(c.b, c.from, uint64(21+2*i))
			got := b.get(b.ok(b.Matmul(b.ctx, b.put(x, c.la, dram), b.put(y, c.lb, l1), ops.WithDataType(c.to), ops.WithMemoryConfig(c.m))))
			equal(b, b.engines().matmul(x, y, c.to).v, got, "%v times %v", c.a, c.b)
		}
	})
}

func TestTransposedOperands(t *testing.T) {
	effort.Long(t)
	auto, simple := ops.MatmulProgram{}, ops.MatmulProgram{Form: ops.MatmulSimple}
	passes := ops.MatmulProgram{Form: ops.MatmulBlocked, PerCoreM: 3, PerCoreN: 5, InnerStep: 2, PassSteps: 2}
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b       [4]int // of the product
			from, to   ops.DataType
			right      ops.DataType
			layout     ops.Layout
			memory     ops.MemoryConfig
			bias       bool
			activation ops.Activation
			p          ops.MatmulProgram
		}{
			{[4]int{1, 2, 40, 70}, [4]int{1, 1, 70, 200}, ops.BFloat16, ops.BFloat16, ops.BFloat16, ops.Tile, dram, true, ops.ReLU, simple},
			{[4]int{2, 2, 40, 330}, [4]int{2, 1, 330, 5}, ops.Float32, ops.Float32, ops.Float32, ops.Tile, l1, false, "", simple},
			{[4]int{1, 1, 160, 330}, [4]int{1, 1, 330, 300}, ops.BFloat16, ops.BFloat16, ops.BFloat16, ops.Tile, dram, true, ops.GELU, passes},
			{[4]int{1, 2, 70, 330}, [4]int{1, 2, 330, 300}, ops.Float32, ops.Float32, ops.Float32, ops.Tile, dram, true, ops.SiLU, passes},
			{[4]int{1, 2, 70, 100}, [4]int{1, 1, 100, 130}, ops.Float32, ops.BFloat16, ops.Float32, ops.Tile, dram, false, "",
				ops.MatmulProgram{Form: ops.MatmulBlocked}},
			{[4]int{1, 1, 70, 100}, [4]int{1, 1, 100, 130}, ops.BFloat16, ops.Float32, ops.BFloat16, ops.Tile, dram, false, "",
				ops.MatmulProgram{Form: ops.MatmulBlocked, PerCoreM: 2, PerCoreN: 3, InnerStep: 1, PassSteps: 1}},
			// Some cores have no block in the last turn.
			{[4]int{1, 1, 700, 70}, [4]int{1, 1, 70, 330}, ops.BFloat16, ops.BFloat16, ops.BFloat16, ops.Tile, dram, false, "",
				ops.MatmulProgram{Form: ops.MatmulBlocked, PerCoreM: 1, PerCoreN: 1, InnerStep: 1, PassSteps: 2}},
			{[4]int{1, 3, 40, 70}, [4]int{1, 1, 70, 130}, ops.BFloat16, ops.BFloat16, ops.BFloat8B, ops.Tile, dram, false, "", auto},
			{[4]int{1, 1, 40, 100}, [4]int{1, 1, 100, 70}, ops.Float32, ops.Float32, ops.BFloat8B, ops.Tile, dram, true, ops.ReLU, passes},
			{[4]int{1, 2, 40, 140}, [4]int{1, 1, 140, 5}, ops.BFloat16, ops.BFloat16, ops.BFloat16, ops.RowMajor, dram, false, "", auto},
			{[4]int{1, 2, 9, 40}, [4]int{1, 2, 40, 20}, ops.UInt16, ops.UInt32, ops.UInt16, ops.RowMajor, dram, false, "", auto},
			{[4]int{1, 1, 5, 40}, [4]int{1, 1, 40, 34}, ops.Int32, ops.Int32, ops.Int32, ops.Tile, l1, false, "", auto},
		} {
			x, y := normal(c.a, c.from, uint64(2*i)), normal(c.b, c.right, uint64(2*i+1))
			if !c.from.Float() {
				x, y = smallNumbers(c.a, c.from), smallNumbers(c.b, c.right)
			}
			if c.right == ops.BFloat8B { // numbers that are the same in all blocks
				y = make4(c.b, ops.BFloat8B, func(_, _, h, w int) float64 { return float64((h*7+w*3)%63-31) / 4 })
			}
			in := [2][2]*ops.Tensor{} // operands, and what is transposed to them
			for k, p := range []*plain{x, y} {
				for turned, order := range [][4]int{{0, 1, 2, 3}, {0, 1, 3, 2}} {
					in[k][turned] = b.put(permute(p, order), c.layout, c.memory)
				}
			}
			opts := []ops.OpOption{ops.WithMatmulProgram(c.p), ops.WithDataType(c.to), ops.WithActivation(c.activation)}
			var bias *ops.Tensor
			if c.bias {
				bias = b.put(normal([4]int{1, 1, 1, c.b[3]}, c.from, 99), c.layout, c.memory)
			}
			product := func(ctx context.Context, a, right int, more ...ops.OpOption) (*ops.Tensor, error) {
				more = append(slices.Clone(opts), more...)
				if a == 1 {
					more = append(more, ops.WithTransposeA())
				}
				if right == 1 {
					more = append(more, ops.WithTransposeB())
				}
				if bias == nil && c.activation == "" {
					return b.Matmul(ctx, in[0][a], in[1][right], more...)
				}
				return b.Linear(ctx, in[0][a], in[1][right], bias, more...)
			}
			want := b.get(b.ok(product(b.ctx, 0, 0)))
			for _, turned := range [][2]int{{0, 1}, {1, 0}, {1, 1}} {
				name := fmt.Sprintf("%d: %v times %v, transposed %v", i, c.a, c.b, turned)
				out := b.ok(product(b.ctx, turned[0], turned[1]))
				if got := b.get(out); !slices.Equal(got, want) {
					b.Errorf("%s: %s", name, first(want, got))
				}
				into := b.ok(b.Multiply(b.ctx, out, out))
				tr := b.capture("transposed", func(ctx context.Context) error {
					_, err := product(ctx, turned[0], turned[1], ops.Into(into))
					return err
				})
				b.must(tr.Replay(b.ctx))
				if got := b.get(into); !slices.Equal(got, want) {
					b.Errorf("%s, replayed: %s", name, first(want, got))
				}
				b.must(tr.Release(b.ctx))
				b.must(b.Deallocate(out))
				b.must(b.Deallocate(into))
			}
			for _, t := range []*ops.Tensor{in[0][0], in[0][1], in[1][0], in[1][1]} {
				b.must(b.Deallocate(t))
			}
		}
	})
}

func smallNumbers(dims [4]int, dt ops.DataType) *plain {
	return make4(dims, dt, func(n, c, h, w int) float64 { return float64((n*31 + c*17 + h*7 + w*3) % 61) })
}

func TestTransposedOperandsErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, y := b.tensor(dram, ops.Float32, 3, 4), b.tensor(dram, ops.Float32, 4, 2)
	for _, o := range []ops.OpOption{ops.WithTransposeA(), ops.WithTransposeB()} {
		fails(t, failure(b.Matmul(b.ctx, x, y, o)), ops.ErrShape)
	}
	row := b.tensor(dram, ops.Float32, 4)
	fails(t, failure(b.Matmul(b.ctx, x, row, ops.WithTransposeB())), ops.ErrShape)
}
