package ops_test

import (
	"testing"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestCost(t *testing.T) {
	card := sim.Blackhole(sim.Harvesting(chip.Harvesting{Tensix: 0x3FF8}))
	b := open(t, card)
	dram := ops.Interleaved(allocator.DRAM)
	for _, l := range []ops.Layout{ops.RowMajor, ops.Tile} {
		a := b.put(normal([4]int{1, 1, 256, 256}, ops.BFloat16, 1), l, dram)
		h := b.put(normal([4]int{1, 64, 16, 64}, ops.BFloat16, 1), l, dram)
		table := b.put(normal([4]int{1, 1, 100, 256}, ops.BFloat16, 1), ops.RowMajor, dram)
		idx := b.tensor(dram, ops.UInt32, 1, 64)
		for _, c := range []struct {
			name     string
			elements int
			f        func() (*ops.Tensor, error)
		}{
			{"transpose", 65536, func() (*ops.Tensor, error) { return b.Transpose(b.ctx, a, 2, 3) }},
			{"permute 0213", 65536, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{0, 2, 1, 3}) }},
			{"permute 0231", 65536, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{0, 2, 3, 1}) }},
			{"permute 1023", 65536, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{1, 0, 2, 3}) }},
			{"other layout", 65536, func() (*ops.Tensor, error) { return b.ToLayout(b.ctx, a, 1-l) }},
			{"slice pages", 32768, func() (*ops.Tensor, error) { return b.Slice(b.ctx, a, []int{0, 0, 128, 0}, []int{1, 1, 256, 256}) }},
			{"slice", 64000, func() (*ops.Tensor, error) { return b.Slice(b.ctx, a, []int{0, 0, 1, 6}, []int{1, 1, 256, 256}) }},
			{"pad", 65536, func() (*ops.Tensor, error) { return b.Pad(b.ctx, a, [][2]int{{0, 0}, {0, 0}, {3, 0}, {0, 5}}, 1) }},
			{"reshape", 65536, func() (*ops.Tensor, error) { return b.Reshape(b.ctx, a, []int{1, 1, 128, 512}) }},
			{"concat 2", 2 * 65536, func() (*ops.Tensor, error) { return b.Concat(b.ctx, []*ops.Tensor{a, a}, 2) }},
			{"concat 3", 2 * 65536, func() (*ops.Tensor, error) { return b.Concat(b.ctx, []*ops.Tensor{a, a}, 3) }},
			{"repeat 3", 2 * 65536, func() (*ops.Tensor, error) { return b.Repeat(b.ctx, a, []int{1, 1, 1, 2}) }},
			{"argmax", 65536, func() (*ops.Tensor, error) { return b.ArgMax(b.ctx, a, true) }},
			{"top 32", 65536, func() (*ops.Tensor, error) { v, i, err := b.TopK(b.ctx, a, 32); b.must(b.Deallocate(i)); return v, err }},
			{"embedding", 64 * 256, func() (*ops.Tensor, error) { return b.Embedding(b.ctx, idx, table, ops.WithLayout(l)) }},
		} {
			b.must(b.Deallocate(b.ok(c.f())))
			b.must(b.Wait(b.ctx))
			before := card.Chip().Work()
			b.must(b.Deallocate(b.ok(c.f())))
			b.must(b.Wait(b.ctx))
			n := card.Chip().Work().Instructions - before.Instructions
			b.Logf("%v %s: %d instructions, %.2f an element", l, c.name, n, float64(n)/float64(c.elements))
		}
	}
}
