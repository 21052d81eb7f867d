package ops_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func angles(positions, width int, dt ops.DataType) (cos, sin *plain) {
	of := func(f func(float64) float64) *plain {
		return make4([4]int{1, 1, positions, width}, dt, func(_, _, p, w int) float64 {
			return fit(dt, 0, float32(f(float64(p)*math.Pow(10000, -float64(w%(width/2))/float64(width/2)))))
		})
	}
	return of(math.Cos), of(math.Sin)
}

func rotate(x, cos, sin *plain, at func(h int) int) *plain {
	half := x.dims[3] / 2
	return make4(x.dims, x.dtype, func(n, c, h, w int) float64 {
		other := x.at(n, c, h, w+half)
		if w < half {
			other = -other
		}
		return x.at(n, c, h, w)*cos.at(n, c, at(h), w) + other*sin.at(n, c, at(h), w)
	})
}

func (b *bench) within(what string, got []float64, want *plain, relative, absolute float64) {
	b.Helper()
	if len(got) != len(want.v) {
		b.Fatalf("%s: %d elements, want %d", what, len(got), len(want.v))
	}
	worst, at := 0., 0
	for i, v := range want.v {
		if e := math.Abs(got[i]-v) / (relative*math.Abs(v) + absolute); !(e <= worst) {
			worst, at = e, i
		}
	}
	if b.Logf("%s: %.2f of the tolerated error", what, worst); !(worst <= 1) {
		b.Errorf("%s: %.2f of the tolerated error: element %d of %v is %v, want %v", what, worst, at, want.dims, got[at], want.v[at])
	}
}

func TestRotaryEmbedding(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			x        [4]int
			dt       ops.DataType
			m        ops.MemoryConfig
			position int
		}{
			{[4]int{1, 2, 40, 64}, ops.BFloat16, dram, ops.AllRows},
			{[4]int{2, 2, 33, 128}, ops.BFloat16, l1, ops.AllRows},
			{[4]int{2, 1, 32, 64}, ops.Float32, dram, ops.AllRows},
			{[4]int{2, 3, 1, 64}, ops.BFloat16, dram, 37},
			{[4]int{1, 2, 5, 64}, ops.Float32, l1, 15},
		} {
			cos, sin := angles(50, c.x[3], c.dt)
			x := normal(c.x, c.dt, uint64(i))
			got := b.get(b.ok(b.RotaryEmbedding(b.ctx, b.put(x, ops.Tile, c.m), b.put(cos, ops.Tile, dram),
				b.put(sin, ops.Tile, dram), c.position)))
			what := fmt.Sprintf("rotary embedding of %v in %v at %d", c.x, c.dt, c.position)
			b.everywhere(what, got)
			relative := math.Exp2(-8)
			if c.dt == ops.Float32 {
				relative = 0
			}
			b.within(what, got, rotate(x, cos, sin, func(h int) int {
				if c.position == ops.AllRows {
					return h
				}
				return c.position
			}), relative, math.Exp2(-20))
		}
	})
}

func attend(q, k, v, mask *plain, scale float64, limit func(h int) int) (out, totals *plain) {
	group := q.dims[1] / k.dims[1]
	zeros := func(width int) *plain {
		return make4([4]int{q.dims[0], q.dims[1], q.dims[2], width}, q.dtype, func(_, _, _, _ int) float64 { return 0 })
	}
	out, totals = zeros(v.dims[3]), zeros(1)
	for row := range q.dims[0] * q.dims[1] * q.dims[2] {
		n, c, h := row/q.dims[2]/q.dims[1], row/q.dims[2]%q.dims[1], row%q.dims[2]
		p, greatest, all := make([]float64, limit(h)), math.Inf(-1), 0.
		for j := range p {
			for d := range q.dims[3] {
				p[j] += scale * q.at(n, c, h, d) * k.at(n, c/group, j, d)
			}
			if mask != nil {
				p[j] += mask.at(n, c, h, j)
			}
			greatest = max(greatest, p[j])
		}
		for j := range p {
			p[j] = math.Exp(p[j] - greatest)
			all += p[j]
		}
		for w := range v.dims[3] {
			var sum float64
			for j := range p {
				sum += p[j] * v.at(n, c/group, j, w)
			}
			out.put(n, c, h, w, sum/all)
		}
		totals.v[row] = all
	}
	return out, totals
}

// The bounds are for values whose standard deviation is 1.
func TestAttention(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			q, k     [4]int
			width    int // of values
			dt       ops.DataType
			m        ops.MemoryConfig
			causal   bool
			mask     []int
			position int // of decoding, or -1
		}{
			{[4]int{1, 1, 32, 32}, [4]int{1, 1, 32, 32}, 32, ops.BFloat16, dram, false, nil, -1},
			{[4]int{1, 2, 70, 64}, [4]int{1, 1, 70, 64}, 64, ops.BFloat16, l1, true, nil, -1},
			{[4]int{2, 2, 33, 64}, [4]int{2, 2, 100, 64}, 160, ops.BFloat16, dram, false, []int{1, 2}, -1},
			{[4]int{1, 2, 40, 40}, [4]int{1, 2, 40, 40}, 33, ops.Float32, dram, true, []int{1, 1}, -1},
			{[4]int{2, 4, 1, 64}, [4]int{2, 2, 96, 64}, 64, ops.BFloat16, dram, true, nil, 40},
			{[4]int{1, 2, 5, 64}, [4]int{1, 1, 128, 64}, 64, ops.Float32, dram, true, nil, 61},
			{[4]int{1, 1, 40, 64}, [4]int{1, 1, 700, 64}, 160, ops.BFloat16, dram, false, nil, -1},      // several chunks of keys
			{[4]int{1, 1, 3, 32}, [4]int{1, 1, 600, 32}, 32, ops.Float32, dram, true, []int{1, 1}, 520}, // the same
		} {
			q, k := normal(c.q, c.dt, uint64(4*i)), normal(c.k, c.dt, uint64(4*i+1))
			v := normal([4]int{c.k[0], c.k[1], c.k[2], c.width}, c.dt, uint64(4*i+2))
			var mask *plain
			a := ops.Attention{Causal: c.causal}
			if c.mask != nil {
				mask = normal([4]int{c.mask[0], c.mask[1], c.q[2], c.k[2]}, c.dt, uint64(4*i+3))
				if c.k[2] > 500 { // the second row doesn't attend to the first chunk
					for j := range 300 {
						mask.put(0, 0, 1, j, math.Inf(-1))
					}
				}
				a.Mask = b.put(mask, ops.Tile, dram)
			}
			tq, tk, tv := b.put(q, ops.Tile, c.m), b.put(k, ops.Tile, dram), b.put(v, ops.Tile, c.m)
			var got []float64
			if c.position < 0 {
				got = b.get(b.ok(b.ScaledDotProductAttention(b.ctx, tq, tk, tv, a)))
			} else {
				got = b.get(b.ok(b.ScaledDotProductAttentionDecode(b.ctx, tq, tk, tv, c.position, a)))
			}
			what := fmt.Sprintf("attention of %v to %v in %v", c.q, c.k, c.dt)
			b.everywhere(what, got)
			want, _ := attend(q, k, v, mask, float64(float32(1/math.Sqrt(float64(c.q[3])))), func(h int) int {
				if !c.causal {
					return c.k[2]
				}
				return max(c.position, 0) + h + 1
			})
			relative := math.Exp2(-8)
			if c.dt == ops.Float32 {
				relative = 0
			}
			b.within(what, got, want, relative, math.Exp2(-7))
		}
	})
}

func TestAttentionInATrace(t *testing.T) {
	effort.Long(t)
	b := open(t, sim.Blackhole(sim.Strict(9)))
	zeros := make4([4]int{1, 1, 64, 64}, ops.BFloat16, func(_, _, _, _ int) float64 { return 0 })
	keys, values := b.put(zeros, ops.Tile, dram), b.put(zeros, ops.Tile, dram)
	cos, sin := angles(64, 64, ops.BFloat16)
	tc, ts := b.put(cos, ops.Tile, dram), b.put(sin, ops.Tile, dram)
	x := normal([4]int{1, 1, 40, 64}, ops.BFloat16, 1)
	row := func(h int) *plain {
		return make4([4]int{1, 1, 1, 64}, ops.BFloat16, func(_, _, _, w int) float64 { return x.at(0, 0, h, w) })
	}
	in := b.put(row(0), ops.Tile, dram)
	at := ops.WithParam("position")
	turned := b.ok(b.RotaryEmbedding(b.ctx, in, tc, ts, 0, at))
	out := b.ok(b.ScaledDotProductAttentionDecode(b.ctx, turned, keys, values, 0, ops.Attention{}, at))
	step := func(ctx context.Context) error {
		if _, err := b.RotaryEmbedding(ctx, in, tc, ts, 0, at, ops.Into(turned)); err != nil {
			return err
		}
		if err := b.UpdateCache(ctx, keys, turned, 0, at); err != nil {
			return err
		}
		if err := b.UpdateCache(ctx, values, in, 0, at); err != nil {
			return err
		}
		_, err := b.ScaledDotProductAttentionDecode(ctx, turned, keys, values, 0, ops.Attention{}, at, ops.Into(out))
		return err
	}
	b.must(step(b.ctx))
	tr, err := b.Capture(b.ctx, "decode", step)
	b.must(err)
	var last []float64
	for h := range 40 {
		next := row(h)
		v := make([]float32, len(next.v))
		for i := range v {
			v[i] = float32(next.v[i])
		}
		host, err := ops.NewHost(next.dims[:], ops.BFloat16, v)
		b.must(err)
		b.must(b.CopyHostToDevice(b.ctx, host, in))
		b.must(tr.Set("position", uint32(h)))
		b.must(tr.Replay(b.ctx))
		last = b.get(out)
	}
	b.must(tr.Release(b.ctx))
	// The prefill of all rows ends with the same row, bit for bit.
	all := b.put(x, ops.Tile, dram)
	q := b.ok(b.RotaryEmbedding(b.ctx, all, tc, ts, ops.AllRows))
	prefill := b.get(b.ok(b.ScaledDotProductAttention(b.ctx, q, q, all, ops.Attention{Causal: true})))
	equal(t, prefill[39*64:], last)
}
