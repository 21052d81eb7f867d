package ops_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func (p *plain) put(n, c, h, w int, v float64) {
	d := p.dims
	p.v[((n*d[1]+c)*d[2]+h)*d[3]+w] = v
}

func counted(dims [4]int, dt ops.DataType, from int) *plain {
	i := from
	return make4(dims, dt, func(_, _, _, _ int) float64 { i++; return float64(i % 251) })
}

func TestCaches(t *testing.T) {
	onBackends(t, func(b *bench) {
		for _, c := range []struct {
			cache    [4]int
			m        ops.MemoryConfig
			dt       ops.DataType
			users    bool // rows of users, as in TT-NN
			position []int
		}{
			{[4]int{1, 2, 64, 64}, dram, ops.BFloat16, false, []int{0, 15, 16, 31, 32, 63}},
			{[4]int{3, 2, 40, 32}, l1, ops.Float32, false, []int{7, 39}},
			{[4]int{3, 2, 40, 50}, dram, ops.BFloat16, true, []int{17}},
			{[4]int{1, 1, 96, 32}, dram, ops.UInt8, true, []int{33}},
			{[4]int{1, 2, 64, 64}, ops.Sharded(allocator.HeightSharded, 64, 64, chip.Grid(1, 2)), ops.BFloat16, false, []int{40}},
		} {
			what := fmt.Sprintf("cache of %v in %v", c.cache, c.dt)
			want := counted(c.cache, c.dt, 0)
			cache := b.put(want, ops.Tile, c.m)
			shape := [4]int{c.cache[0], c.cache[1], 1, c.cache[3]}
			if c.users {
				shape = [4]int{1, c.cache[1], c.cache[0], c.cache[3]}
			}
			for i, at := range c.position {
				in := counted(shape, c.dt, 1000*i+17)
				b.must(b.UpdateCache(b.ctx, cache, b.put(in, ops.Tile, dram), at))
				for n := range c.cache[0] {
					for h := range c.cache[1] {
						for w := range c.cache[3] {
							if c.users {
								want.put(n, h, at, w, in.at(0, h, n, w))
							} else {
								want.put(n, h, at, w, in.at(n, h, 0, w))
							}
						}
					}
				}
			}
			equal(b, want.v, b.get(cache), "%s, updated", what)
			rows := counted([4]int{1, c.cache[1], 35, c.cache[3]}, c.dt, 99)
			batch := c.cache[0] - 1
			b.must(b.FillCache(b.ctx, cache, b.put(rows, ops.Tile, l1), batch))
			for h := range c.cache[1] {
				for r := range 35 {
					for w := range c.cache[3] {
						want.put(batch, h, r, w, rows.at(0, h, r, w))
					}
				}
			}
			equal(b, want.v, b.get(cache), "%s, filled", what)
		}
	})
}

func TestCacheInATrace(t *testing.T) {
	b := open(t, sim.Wormhole(few[chip.Wormhole], sim.Strict(5)))
	want := counted([4]int{2, 1, 64, 32}, ops.BFloat16, 0)
	cache := b.put(want, ops.Tile, dram)
	in := counted([4]int{2, 1, 1, 32}, ops.BFloat16, 100)
	row := b.put(in, ops.Tile, dram)
	b.must(b.UpdateCache(b.ctx, cache, row, 0, ops.WithParam("position"))) // loads the program
	tr, err := b.Capture(b.ctx, "update", func(ctx context.Context) error {
		return b.UpdateCache(ctx, cache, row, 0, ops.WithParam("position"))
	})
	b.must(err)
	for _, at := range []int{0, 5, 40} {
		b.must(tr.Set("position", uint32(at)))
		b.must(tr.Replay(b.ctx))
		for n := range 2 {
			for w := range 32 {
				want.put(n, 0, at, w, in.at(n, 0, 0, w))
			}
		}
	}
	b.must(tr.Set("position", 64)) // beyond the end
	b.must(tr.Replay(b.ctx))
	equal(t, want.v, b.get(cache))
	b.must(tr.Release(b.ctx))
}

func TestHeads(t *testing.T) {
	onBackends(t, func(b *bench) {
		for _, c := range []struct {
			batches, rows, heads, kv, width int
			dt                              ops.DataType
			m                               ops.MemoryConfig
		}{
			{1, 32, 2, 2, 32, ops.BFloat16, dram},
			{2, 40, 4, 2, 64, ops.BFloat16, l1},
			{3, 1, 3, 1, 32, ops.Float32, dram},
			{1, 33, 2, 1, 32, ops.UInt16, dram},
		} {
			all := c.heads + 2*c.kv
			x := counted([4]int{c.batches, 1, c.rows, all * c.width}, c.dt, 0)
			got, err := b.SplitHeads(b.ctx, b.put(x, ops.Tile, c.m), c.heads, c.kv)
			b.must(err)
			first := 0
			for i, one := range []struct {
				t *ops.Tensor
				n int
			}{{got.Q, c.heads}, {got.K, c.kv}, {got.V, c.kv}} {
				want := make4([4]int{c.batches, one.n, c.rows, c.width}, c.dt,
					func(n, h, r, w int) float64 { return x.at(n, 0, r, (first+h)*c.width+w) })
				equal(b, want.v, b.get(one.t), "%+v, part %d", c, i)
				equal(b, want.dims[:], one.t.Shape(), "%+v, part %d", c, i)
				first += one.n
			}
			together := make4([4]int{c.batches, 1, c.rows, c.heads * c.width}, c.dt, func(n, _, r, w int) float64 {
				return x.at(n, 0, r, w)
			})
			equal(b, together.v, b.get(b.ok(b.ConcatHeads(b.ctx, got.Q))), "%+v, together", c)
		}
	})
}

func TestAttentionRefuses(t *testing.T) {
	b := open(t, sim.Blackhole())
	cache, row := b.zeros(dram, 2, 2, 64, 64), b.zeros(dram, 2, 2, 1, 64)
	rows := b.ok(b.ToLayout(b.ctx, row, ops.RowMajor))
	other := b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{2, 2, 1, 64}, DType: ops.Float32, Layout: ops.Tile, Memory: dram}))
	angles, narrow := b.zeros(dram, 1, 1, 64, 64), b.zeros(dram, 2, 2, 1, 32)
	qkv := b.zeros(dram, 2, 1, 32, 256)
	rotary := func(x, cos, sin *ops.Tensor, at int, opts ...ops.OpOption) error {
		return failure(b.RotaryEmbedding(b.ctx, x, cos, sin, at, opts...))
	}
	attend := func(q, k, v *ops.Tensor, a ops.Attention, opts ...ops.OpOption) error {
		return failure(b.ScaledDotProductAttention(b.ctx, q, k, v, a, opts...))
	}
	split := func(heads, kv int, opts ...ops.OpOption) error {
		_, err := b.SplitHeads(b.ctx, qkv, heads, kv, opts...)
		return err
	}
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	b.refused(before, map[string]refusal{
		"a position beyond":                       {b.UpdateCache(b.ctx, cache, row, 64), ops.ErrShape},
		"a row too narrow":                        {b.UpdateCache(b.ctx, cache, narrow, 0), ops.ErrShape},
		"a cache of another type":                 {b.UpdateCache(b.ctx, cache, other, 0), ops.ErrDataType},
		"a cache of rows":                         {b.UpdateCache(b.ctx, cache, rows, 0), ops.ErrMemory},
		"two batches":                             {b.FillCache(b.ctx, cache, row, 0), ops.ErrShape},
		"a batch beyond":                          {b.FillCache(b.ctx, cache, angles, 2), ops.ErrShape},
		"turning half a tile":                     {rotary(narrow, narrow, narrow, 0), ops.ErrShape},
		"angles of another width":                 {rotary(row, narrow, narrow, 0), ops.ErrShape},
		"no angle":                                {rotary(row, angles, angles, 64), ops.ErrShape},
		"too few angles":                          {rotary(cache, row, row, ops.AllRows), ops.ErrShape},
		"angles of another type":                  {rotary(row, other, other, 0), ops.ErrDataType},
		"a parameter of all rows":                 {rotary(row, angles, angles, ops.AllRows, ops.WithParam("p")), ops.ErrNoParam},
		"3 heads":                                 {split(3, 3), ops.ErrShape},
		"no heads":                                {split(0, 4), ops.ErrShape},
		"heads into two":                          {split(4, 2, ops.IntoEach(row, cache)), ops.ErrShape},
		"other keys":                              {attend(row, narrow, narrow, ops.Attention{}), ops.ErrShape},
		"too few keys":                            {attend(cache, row, row, ops.Attention{Causal: true}), ops.ErrShape},
		"a mask too small":                        {attend(row, cache, cache, ops.Attention{Mask: narrow}), ops.ErrShape},
		"queries of another type":                 {attend(other, cache, cache, ops.Attention{}), ops.ErrDataType},
		"queries in rows":                         {attend(rows, cache, cache, ops.Attention{}), ops.ErrMemory},
		"a parameter of a prefill":                {attend(row, cache, cache, ops.Attention{}, ops.WithParam("p")), ops.ErrNoParam},
		"a parameter of an operation without one": {failure(b.Exp(b.ctx, row, ops.WithParam("p"))), ops.ErrNoParam},
	})
}
