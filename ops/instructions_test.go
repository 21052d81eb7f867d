package ops_test

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

// The limits are 1.4 times what was measured, instructions of waiting, of the firmware and of other
// cores included.
func TestInstructionsOfMoves(t *testing.T) {
	card := sim.Blackhole(sim.Synchronous(), sim.Harvesting(chip.Harvesting{Tensix: 0x3FF8}))
	b := open(t, card)
	of := func(l ops.Layout, dims [4]int) *ops.Tensor { return b.put(normal(dims, ops.BFloat16, 1), l, dram) }
	heads, table := [4]int{1, 64, 16, 64}, of(ops.RowMajor, [4]int{1, 1, 100, 256})
	indices := b.tensor(dram, ops.UInt32, 1, 64)
	for _, l := range []ops.Layout{ops.RowMajor, ops.Tile} {
		a, h := of(l, [4]int{1, 1, 256, 256}), of(l, heads)
		for _, c := range []struct {
			name string
			most [2]float64 // of each layout
			f    func() (*ops.Tensor, error)
		}{
			{"transpose of the last two dimensions", [2]float64{13, 4.5}, func() (*ops.Tensor, error) { return b.Transpose(b.ctx, a, 2, 3) }},
			{"permute 0 2 1 3", [2]float64{7, 18}, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{0, 2, 1, 3}) }},
			{"permute 0 2 3 1", [2]float64{17, 21.5}, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{0, 2, 3, 1}) }},
			{"permute 1 0 2 3", [2]float64{7, 2}, func() (*ops.Tensor, error) { return b.Permute(b.ctx, h, []int{1, 0, 2, 3}) }},
			{"to the other layout", [2]float64{14.5, 7}, func() (*ops.Tensor, error) { return b.ToLayout(b.ctx, a, 1-l) }},
			{"slice of pages", [2]float64{3.5, 2}, func() (*ops.Tensor, error) {
				return b.Slice(b.ctx, a, []int{0, 0, 128, 0}, []int{1, 1, 256,
					256})
			}},
			{"slice", [2]float64{7.5, 43}, func() (*ops.Tensor, error) { return b.Slice(b.ctx, a, []int{0, 0, 1, 6}, []int{1, 1, 256, 256}) }},
			{"pad", [2]float64{6.5, 14}, func() (*ops.Tensor, error) { return b.Pad(b.ctx, a, [][2]int{{0, 0}, {0, 0}, {3, 0}, {0, 5}}, 1) }},
			{"reshape", [2]float64{6, 15.5}, func() (*ops.Tensor, error) { return b.Reshape(b.ctx, a, []int{1, 1, 128, 512}) }},
			{"concat along rows", [2]float64{1.5, 1}, func() (*ops.Tensor, error) { return b.Concat(b.ctx, []*ops.Tensor{a, a}, 2) }},
			{"repeat", [2]float64{2.5, 1}, func() (*ops.Tensor, error) { return b.Repeat(b.ctx, a, []int{1, 1, 2, 1}) }},
			{"embedding", [2]float64{5, 20.5}, func() (*ops.Tensor, error) { return b.Embedding(b.ctx, indices, table, ops.WithLayout(l)) }},
		} {
			n := 1
			for _, d := range b.ok(c.f()).Shape() { // the first time loads the program
				n *= d
			}
			b.must(b.Wait(b.ctx))
			before := card.Chip().Work()
			b.ok(c.f())
			b.must(b.Wait(b.ctx))
			each := float64(card.Chip().Work().Instructions-before.Instructions) / float64(n)
			b.Logf("%v, %s: %.2f instructions for an element", l, c.name, each)
			if most := c.most[l]; each > most {
				b.Errorf("%v, %s: %.2f instructions for an element, want at most %.2f", l, c.name, each, most)
			}
		}
	}
}
