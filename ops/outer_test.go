package ops_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestDivide(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b [4]int
			dt   ops.DataType
			l    ops.Layout
		}{
			{[4]int{1, 2, 40, 70}, [4]int{1, 2, 40, 70}, ops.BFloat16, ops.Tile},
			{[4]int{2, 1, 33, 7}, [4]int{1, 3, 1, 7}, ops.BFloat16, ops.Tile},
			{[4]int{1, 1, 33, 1}, [4]int{1, 1, 1, 35}, ops.Float32, ops.Tile},
			{[4]int{1, 1, 1, 1}, [4]int{1, 1, 33, 40}, ops.Float32, ops.RowMajor},
		} {
			x, y := normal(c.a, c.dt, uint64(2*i)), normal(c.b, c.dt, uint64(2*i+1))
			put := func(p *plain) *ops.Tensor { return b.put(p, c.l, dram) }
			what := fmt.Sprintf("%v %v by %v", c.dt, c.a, c.b)
			got := b.get(b.ok(b.Divide(b.ctx, put(x), put(y))))
			var d [4]int
			for i := range d {
				d[i] = max(c.a[i], c.b[i])
			}
			want := make4(d, c.dt, func(n, ch, h, w int) float64 { return x.at(n, ch, h, w) / y.at(n, ch, h, w) })
			b.everywhere(what, got)
			b.near(what, c.dt, got, want.v, 0x1p-21, 0)
		}
	})
}

func TestWhere(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			condition, a, b [4]int
			dt              ops.DataType
		}{
			{[4]int{1, 2, 40, 70}, [4]int{1, 2, 40, 70}, [4]int{1, 2, 40, 70}, ops.BFloat16},
			{[4]int{1, 1, 33, 1}, [4]int{2, 1, 33, 40}, [4]int{1, 1, 1, 1}, ops.Float32},
			{[4]int{1, 1, 33, 5}, [4]int{1, 1, 1, 5}, [4]int{1, 3, 33, 1}, ops.BFloat16},
		} {
			condition := make4(c.condition, c.dt, func(n, c, h, w int) float64 { return float64((n+c+2*h+3*w)%5 - 2) })
			x, y := normal(c.a, c.dt, uint64(2*i)), normal(c.b, c.dt, uint64(2*i+1))
			put := func(p *plain) *ops.Tensor { return b.put(p, ops.Tile, l1) }
			got := b.get(b.ok(b.Where(b.ctx, put(condition), put(x), put(y))))
			var d [4]int
			for i := range d {
				d[i] = max(c.condition[i], c.a[i], c.b[i])
			}
			want := make4(d, c.dt, func(n, c, h, w int) float64 {
				if condition.at(n, c, h, w) != 0 {
					return x.at(n, c, h, w)
				}
				return y.at(n, c, h, w)
			})
			equal(b, want.v, got, "where %v of %v and %v", c.condition, c.a, c.b)
		}
	})
}

func TestRand(t *testing.T) {
	onBackends(t, func(b *bench) {
		for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
			s := ops.Spec{Shape: []int{2, 40, 70}, DType: dt, Layout: ops.Tile, Memory: dram}
			first := b.get(b.ok(b.Rand(b.ctx, s, -1, 3, 5)))
			b.everywhere("random "+dt.String(), first[:1120]) // of the first tiles, whatever the grid
			entries := b.ProgramCacheEntries()
			second := b.get(b.ok(b.Rand(b.ctx, s, -1, 3, 6)))
			if !slices.Equal(first, b.get(b.ok(b.Rand(b.ctx, s, -1, 3, 5)))) {
				b.Error("numbers don't depend on the seed alone")
			}
			tiles := map[string]int{} // by part of a row
			for i, v := range [][]float64{first, second} {
				for at := 0; at < len(v); at += 70 {
					for _, column := range []int{0, 32} {
						tiles[fmt.Sprint(v[at+column:][:16])] |= 1 << i
					}
				}
			}
			for part, seeds := range tiles {
				if seeds == 3 {
					b.Errorf("two seeds give %s", part)
				}
			}
			if b.ProgramCacheEntries() != entries {
				b.Error("another seed is another program")
			}
			sum, square := 0., 0.
			for _, v := range first {
				if v < -1 || v > 3 {
					b.Fatalf("%v isn't from -1 to 3", v)
				}
				sum, square = sum+v, square+(v-1)*(v-1)
			}
			n := float64(len(first))
			if mean, variance := sum/n, square/n; math.Abs(mean-1) > 0.1 || math.Abs(variance-16./12) > 0.1 {
				b.Errorf("mean %v and variance %v, want 1 and 1.33", mean, variance)
			}
		}
	})
}

func TestElementsRefused(t *testing.T) {
	b := open(t, sim.Wormhole())
	tiles, other := b.zeros(dram, 32, 32), b.zeros(dram, 5, 32)
	rows := b.ok(b.ToLayout(b.ctx, tiles, ops.RowMajor))
	ints := b.ok(b.Typecast(b.ctx, tiles, ops.Int32))
	bytes := b.ok(b.Typecast(b.ctx, tiles, ops.UInt8))
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"quotients of integers":   {failure(b.Divide(b.ctx, ints, ints)), ops.ErrDataType},
		"an unknown type":         {failure(b.Typecast(b.ctx, tiles, 77)), ops.ErrDataType},
		"blocks":                  {failure(b.Typecast(b.ctx, tiles, ops.BFloat8B)), ops.ErrDataType},
		"quantised integers":      {failure(b.Quantize(b.ctx, ints, 1, 0)), ops.ErrDataType},
		"quantised rows":          {failure(b.Quantize(b.ctx, rows, 1, 0)), ops.ErrMemory},
		"a scale of 0":            {failure(b.Quantize(b.ctx, tiles, 0, 0)), ops.ErrShape},
		"a large zero point":      {failure(b.Dequantize(b.ctx, ints, 1, 1<<24+1)), ops.ErrShape},
		"dequantised floats":      {failure(b.Dequantize(b.ctx, tiles, 1, 0)), ops.ErrDataType},
		"dequantised bytes":       {failure(b.Dequantize(b.ctx, bytes, 1, 0)), ops.ErrDataType},
		"dequantised to integers": {failure(b.Dequantize(b.ctx, ints, 1, 0, ops.WithDataType(ops.Int32))), ops.ErrDataType},
		"requantised to scale 0":  {failure(b.Requantize(b.ctx, ints, 1, 0, 0, 0)), ops.ErrShape},
		"where of other heights":  {failure(b.Where(b.ctx, tiles, other, tiles)), ops.ErrShape},
		"where of rows":           {failure(b.Where(b.ctx, tiles, rows, tiles)), ops.ErrMemory},
		"random integers":         {failure(b.Rand(b.ctx, ints.Spec(), 0, 1, 0)), ops.ErrDataType},
		"random rows":             {failure(b.Rand(b.ctx, rows.Spec(), 0, 1, 0)), ops.ErrMemory},
		"no range":                {failure(b.Rand(b.ctx, tiles.Spec(), 1, 0, 0)), ops.ErrShape},
		"no such dimension":       {failure(b.Sum(b.ctx, tiles, -3)), ops.ErrShape},
	})
}

func TestActivations(t *testing.T) {
	onBackends(t, func(b *bench) {
		for activation, f := range map[ops.Activation]func(float64) float64{
			ops.GELU: func(v float64) float64 { return v * math.Erfc(-v/math.Sqrt2) / 2 },
			ops.SiLU: func(v float64) float64 { return v / (1 + math.Exp(-v)) },
		} {
			for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
				x, y, z := normal([4]int{1, 2, 40, 70}, dt, 1), normal([4]int{1, 1, 70, 40}, dt, 2), normal([4]int{1, 1, 1, 40}, dt, 3)
				put := func(p *plain) *ops.Tensor { return b.put(p, ops.Tile, dram) }
				got, at := b.get(b.ok(b.Linear(b.ctx, put(x), put(y), put(z), ops.WithActivation(activation)))), 0
				what := fmt.Sprintf("linear with %s of %v", activation, dt)
				b.everywhere(what, got)
				make4([4]int{1, 2, 40, 40}, dt, func(n, c, h, w int) float64 {
					sum := z.at(0, 0, 0, w)
					size := math.Abs(sum)
					for k := range 70 {
						p := x.at(n, c, h, k) * y.at(0, 0, k, w)
						sum, size = sum+p, size+math.Abs(p)
					}
					tolerance := 1.2 * size / (1 << 12) // their slopes are at most 1.13
					if dt == ops.Float32 {
						tolerance += 1.2 * size / (1 << 10)
					} else {
						tolerance += math.Abs(f(sum)) / (1 << 8)
					}
					if e := math.Abs(got[at]-f(sum)) / tolerance; !(e <= 1) {
						b.Fatalf("%s: %v, want %v: %.2f of the tolerated error", what, got[at], f(sum), e)
					}
					at++
					return 0
				})
			}
		}
	})
}
