package ops_test

import (
	"context"
	"math"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

func (e engines) linear(a, b, bias *plain, f func(uint32) uint32) *plain {
	d := [4]int{max(a.dims[0], b.dims[0]), max(a.dims[1], b.dims[1]), a.dims[2], b.dims[3]}
	ones := make4([4]int{1, 1, 32, 32}, a.dtype, func(_, _, _, w int) float64 {
		if w == 0 {
			return 1
		}
		return 0
	})
	return e.tiles(d, a.dtype, func(dst *arith.DstTile, n, c, h, w int) {
		m := e.math(a.dtype)
		for k := 0; k < a.dims[3]; k += 32 {
			m.MatmulTile(dst, e.unpack(a, a.dims, n, c, h, k), e.unpack(b, b.dims, n, c, k, w), arith.HiFi4)
		}
		m.MatmulTile(dst, e.unpack(ones, ones.dims, 0, 0, 0, 0), e.unpack(bias, bias.dims, n, c, 0, w), arith.HiFi4)
		for i := range dst.Hi {
			for k := range dst.Hi[i] {
				v := arith.EncodeDst32(f(arith.DecodeDst32(uint32(dst.Hi[i][k])<<16 | uint32(dst.Lo[i][k]))))
				dst.Hi[i][k], dst.Lo[i][k] = uint16(v>>16), uint16(v)
			}
		}
	})
}

func TestLinear(t *testing.T) {
	relu := func(v uint32) uint32 {
		if arith.TotalOrder(v) > 0 {
			return v
		}
		return 0
	}
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b, bias [4]int
			dt         ops.DataType
			opts       []ops.OpOption
			f          func(uint32) uint32
		}{
			{[4]int{1, 1, 40, 70}, [4]int{1, 1, 70, 200}, [4]int{1, 1, 1, 200}, ops.BFloat16, nil, func(v uint32) uint32 { return v }},
			{[4]int{1, 2, 5, 64}, [4]int{1, 1, 64, 33}, [4]int{1, 2, 1, 33}, ops.BFloat16, []ops.OpOption{ops.WithActivation(ops.ReLU)}, relu},
			{[4]int{1, 1, 5, 64}, [4]int{1, 1, 64, 33}, [4]int{1, 1, 1, 33}, ops.Float32, []ops.OpOption{ops.WithActivation(ops.ReLU)}, relu},
		} {
			x, y, z := normal(c.a, c.dt, uint64(3*i)), normal(c.b, c.dt, uint64(3*i+1)), normal(c.bias, c.dt, uint64(3*i+2))
			got := b.get(b.ok(b.Linear(b.ctx, b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram), b.put(z, ops.Tile, dram), c.opts...)))
			equal(b, b.engines().linear(x, y, z, c.f).v, got, "%v times %v", c.a, c.b)
		}
	})
}

func TestFunctionsOfElements(t *testing.T) {
	onBackends(t, func(b *bench) {
		x := normal([4]int{1, 1, 33, 40}, ops.BFloat16, 1)
		positive := abs(x)
		halves := make4(x.dims, x.dtype, func(n, c, h, w int) float64 {
			if w%5 == 0 {
				return float64(h%8) - 3.5
			}
			return fit(x.dtype, 0, float32(3*x.at(n, c, h, w)))
		})
		for _, f := range []struct {
			name   string
			device func(context.Context, *ops.Tensor, ...ops.OpOption) (*ops.Tensor, error)
			exact  func(float64) float64
			in     *plain
		}{
			{"abs", b.Abs, math.Abs, x},
			{"ceil", b.Ceil, math.Ceil, halves},
			{"floor", b.Floor, math.Floor, halves},
			{"frac", b.Frac, func(v float64) float64 { return v - math.Trunc(v) }, halves},
			{"round", b.Round, math.RoundToEven, halves},
			{"trunc", b.Trunc, math.Trunc, halves},
			{"exp", b.Exp, math.Exp, x},
			{"gelu", b.Gelu, func(v float64) float64 { return v * math.Erfc(-v/math.Sqrt2) / 2 }, x},
			{"log", b.Device.Log, math.Log, positive},
			{"neg", b.Neg, func(v float64) float64 { return -v }, x},
			{"reciprocal", b.Reciprocal, func(v float64) float64 { return 1 / v }, x},
			{"rsqrt", b.Rsqrt, func(v float64) float64 { return 1 / math.Sqrt(v) }, positive},
			{"sigmoid", b.Sigmoid, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }, x},
			{"sign", b.Sign, func(v float64) float64 { return math.Copysign(1, v) }, x},
			{"silu", b.Silu, func(v float64) float64 { return v / (1 + math.Exp(-v)) }, x},
			{"sqrt", b.Sqrt, math.Sqrt, positive},
			{"square", b.Square, func(v float64) float64 { return v * v }, x},
			{"tanh", b.Tanh, math.Tanh, x},
		} {
			for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
				in := &plain{f.in.dims, dt, f.in.v}
				got := b.get(b.ok(f.device(b.ctx, b.put(in, ops.Tile, dram))))
				b.everywhere(f.name+" of "+dt.String(), got)
				for i, v := range in.v {
					want := f.exact(v)
					exponent := max(math.Floor(math.Log2(math.Abs(want))), -126)
					tolerance := 0.505 * math.Exp2(exponent-7)
					if dt == ops.Float32 {
						tolerance = 200 * math.Exp2(exponent-23)
					}
					if !(math.Abs(got[i]-want) <= tolerance) {
						b.Errorf("%s of %v as %v is %v, want %v", f.name, v, dt, got[i], want)
						break
					}
				}
			}
		}
	})
}

func abs(p *plain) *plain {
	return make4(p.dims, p.dtype, func(n, c, h, w int) float64 { return math.Abs(p.at(n, c, h, w)) })
}

func TestOnlyOnTheEngines(t *testing.T) {
	b := open(t, sim.Wormhole())
	tiles := b.zeros(dram, 32, 32)
	rows, ints := b.ok(b.ToLayout(b.ctx, tiles, ops.RowMajor)),
		b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{32, 32}, DType: ops.UInt32, Layout: ops.Tile, Memory: dram}))
	bias := b.zeros(dram, 2, 32)
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"rows":             {failure(b.Exp(b.ctx, rows)), ops.ErrMemory},
		"integers":         {failure(b.Exp(b.ctx, ints)), ops.ErrDataType},
		"into rows":        {failure(b.Exp(b.ctx, tiles, ops.Into(rows))), ops.ErrMemory},
		"linear of rows":   {failure(b.Linear(b.ctx, rows, tiles, nil)), ops.ErrMemory},
		"a bias of 2 rows": {failure(b.Linear(b.ctx, tiles, tiles, bias)), ops.ErrShape},
	})
}
