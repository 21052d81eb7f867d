package ops_test

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func permute(a *plain, order [4]int) *plain {
	d := [4]int{a.dims[order[0]], a.dims[order[1]], a.dims[order[2]], a.dims[order[3]]}
	return make4(d, a.dtype, func(n, c, h, w int) float64 {
		var at [4]int
		for i, x := range [4]int{n, c, h, w} {
			at[order[i]] = x
		}
		return a.at(at[0], at[1], at[2], at[3])
	})
}

func TestPermute(t *testing.T) {
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			dims   [4]int
			dt     ops.DataType
			layout ops.Layout
			memory ops.MemoryConfig
			order  []int
		}{
			{[4]int{1, 1, 64, 96}, ops.BFloat16, ops.Tile, dram, []int{0, 1, 3, 2}},
			{[4]int{1, 2, 40, 33}, ops.Float32, ops.Tile, l1, []int{0, 1, 3, 2}},
			{[4]int{1, 33, 2, 40}, ops.BFloat16, ops.Tile, dram, []int{0, 2, 1, 3}},
			{[4]int{2, 3, 32, 32}, ops.UInt16, ops.Tile, dram, []int{1, 0, 2, 3}},
			{[4]int{1, 1, 40, 70}, ops.BFloat16, ops.RowMajor, dram, []int{0, 1, 3, 2}},
			{[4]int{2, 3, 5, 7}, ops.UInt8, ops.RowMajor, l1, []int{2, 0, 1, 3}},
			{[4]int{2, 3, 5, 7}, ops.Int32, ops.RowMajor, dram, []int{3, 1, 0, 2}},
			{[4]int{3, 5, 4, 6}, ops.BFloat16, ops.Tile, dram, []int{2, 3, 0, 1}},
		} {
			x := normal(c.dims, c.dt, uint64(i))
			got := b.get(b.ok(b.Permute(b.ctx, b.put(x, c.layout, c.memory), c.order)))
			equal(b, permute(x, [4]int(c.order)).v, got, "%v by %v", c.dims, c.order)
		}
	})
}

func TestPermuteErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	a := b.tensor(dram, ops.UInt32, 3, 4)
	for _, dims := range [][]int{{0}, {0, 0}, {0, 2}, {-3, 0}, {0, 1, 2}} {
		if _, err := b.Permute(b.ctx, a, dims); !errors.Is(err, ops.ErrShape) {
			t.Errorf("%v: %v", dims, err)
		}
	}
	if _, err := b.Transpose(b.ctx, a, 0, 2); !errors.Is(err, ops.ErrShape) {
		t.Error(err)
	}
	b.holds(b.ok(b.Transpose(b.ctx, a, 0, -1)), 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11)
}
