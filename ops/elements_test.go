package ops_test

import (
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
)

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
