package ops_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func embed(indices, table *plain) *plain {
	d := [4]int{indices.dims[1], indices.dims[2], indices.dims[3], table.dims[3]}
	return make4(d, table.dtype, func(n, c, h, w int) float64 {
		if i := indices.at(0, n, c, h); i >= 0 && i < float64(table.dims[2]) {
			return table.at(0, 0, int(i), w)
		}
		return 0
	})
}

func topK(a *plain, k int) (values, indices *plain) {
	d := a.dims
	d[3] = k
	var order []int
	at := func(n, c, h, w int) int {
		if w == 0 {
			order = nil
			for i := range a.dims[3] {
				order = append(order, i)
			}
			slices.SortStableFunc(order, func(i, k int) int {
				return cmp.Compare(ranked(a.at(n, c, h, k)), ranked(a.at(n, c, h, i)))
			})
		}
		return order[w]
	}
	values = make4(d, a.dtype, func(n, c, h, w int) float64 { return a.at(n, c, h, at(n, c, h, w)) })
	return values, make4(d, ops.UInt16, func(n, c, h, w int) float64 { return float64(at(n, c, h, w)) })
}

func (r room) embedding(b *bench, t *rapid.T, ta *ops.Tensor, a *plain, put func(string, *plain) *ops.Tensor) (*ops.Tensor, *plain) {
	dims := [4]int{1, rapid.IntRange(1, 2).Draw(t, "c"), rapid.IntRange(1, 3).Draw(t, "h"), rapid.IntRange(1, 40).Draw(t, "indices")}
	seed := rapid.Uint64().Draw(t, "index")
	i := make4(dims, rapid.SampledFrom(types[:4]).Draw(t, "type of indices"), func(_, _, _, _ int) float64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		return float64(seed >> 33 % uint64(a.dims[2]+1))
	})
	ti := put("indices", i)
	three, err := b.Reshape(b.ctx, ti, dims[1:])
	if err != nil {
		t.Fatal(err)
	}
	l, m := r.place(t, "to", [4]int{dims[1], dims[2], dims[3], a.dims[3]})
	got, err := b.Embedding(b.ctx, three, ta, ops.WithLayout(l), ops.WithMemoryConfig(m))
	if e := b.Deallocate(three); err != nil || e != nil {
		t.Fatal(err, e)
	}
	return got, embed(i, a)
}

func TestEmbeddingAndTopK(t *testing.T) {
	onBackends(t, func(b *bench) {
		table := normal([4]int{1, 1, 50, 40}, ops.BFloat16, 1)
		n := 0.
		chosen := make4([4]int{1, 1, 2, 40}, ops.UInt32, func(_, _, _, _ int) float64 { n += 7; return float64(int(n) % 51) })
		tt := b.put(table, ops.RowMajor, dram)
		ti := b.ok(b.Reshape(b.ctx, b.put(chosen, ops.RowMajor, dram), []int{2, 40}))
		want := embed(&plain{[4]int{1, 1, 2, 40}, ops.UInt32, chosen.v}, table)
		for _, l := range []ops.Layout{ops.RowMajor, ops.Tile} {
			got := b.ok(b.Embedding(b.ctx, ti, tt, ops.WithLayout(l)))
			if s := got.Spec(); !slices.Equal(s.Shape, []int{2, 40, 40}) || s.Layout != l {
				b.Errorf("%v", s)
			}
			equal(b, want.v, b.get(got))
			x := normal([4]int{1, 1, 33, 40}, ops.BFloat16, 2)
			values, indices, err := b.TopK(b.ctx, b.put(x, l, dram), 35)
			b.must(err)
			v, i := topK(x, 35)
			equal(b, v.v, b.get(values))
			equal(b, i.v, b.get(indices))
		}
	})
}

func TestTopKInTrace(t *testing.T) {
	b := open(t, sim.Wormhole())
	a := b.tensor(dram, ops.Int32, 2, 5)
	values, indices, err := b.TopK(b.ctx, a, 2)
	b.must(err)
	b.holds(values, 4, 3, 9, 8)
	v, i := b.ok(b.Empty(b.ctx, values.Spec())), b.ok(b.Empty(b.ctx, indices.Spec()))
	tr, err := b.Capture(b.ctx, "top", func(ctx context.Context) error {
		_, _, err := b.TopK(ctx, a, 2, ops.IntoEach(v, i))
		return err
	})
	b.must(err)
	b.must(tr.Replay(b.ctx))
	b.holds(v, 4, 3, 9, 8)
	b.holds(i, 4, 3, 4, 3)
	b.must(tr.Release(b.ctx))
	if _, _, err := b.TopK(b.ctx, a, 2, ops.IntoEach(v)); !errors.Is(err, ops.ErrShape) {
		t.Error(err)
	}
	for _, k := range []int{0, 6, -1} {
		if _, _, err := b.TopK(b.ctx, a, k); !errors.Is(err, ops.ErrShape) {
			t.Errorf("%d: %v", k, err)
		}
	}
}

func TestEmbeddingErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	table, indices := b.tensor(dram, ops.Float32, 3, 4), b.tensor(dram, ops.UInt32, 4)
	tiles := b.ok(b.Tilize(b.ctx, table))
	for _, c := range []struct {
		indices, table *ops.Tensor
		want           error
	}{
		{table, table, ops.ErrDataType},
		{b.tensor(dram, ops.UInt32, 1, 1, 1, 1, 1, 1, 1, 4), table, ops.ErrShape},
		{indices, b.tensor(dram, ops.UInt32, 2, 3, 4), ops.ErrShape},
		{indices, tiles, ops.ErrMemory},
	} {
		if _, err := b.Embedding(b.ctx, c.indices, c.table); !errors.Is(err, c.want) {
			t.Errorf("%v and %v: %v", c.indices.Spec(), c.table.Spec(), err)
		}
	}
}
