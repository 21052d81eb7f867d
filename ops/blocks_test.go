package ops_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
)

// A product in blocks has the bits of the engines' arithmetic, as the simple form has, however it is cut.
func TestMatmulInBlocks(t *testing.T) {
	dram := ops.Interleaved(allocator.DRAM)
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b     [4]int
			from, to ops.DataType
			p        ops.MatmulProgram
		}{
			{[4]int{1, 1, 64, 64}, [4]int{1, 1, 64, 64}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 1, PerCoreN: 2}},
			{[4]int{1, 1, 160, 200}, [4]int{1, 1, 200, 100}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{}},
			// Three passes, of which the last has less, and parts of different sizes.
			{[4]int{1, 1, 160, 330}, [4]int{1, 1, 330, 300}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 3, PerCoreN: 5, InnerStep: 2, PassSteps: 2}},
			{[4]int{1, 1, 40, 330}, [4]int{1, 1, 330, 200}, ops.Float32, ops.Float32, ops.MatmulProgram{PerCoreM: 2, PerCoreN: 5, InnerStep: 3, PassSteps: 1}},
			// Several matrices: of one right one the left ones are one, of several a matrix comes after another.
			{[4]int{2, 2, 40, 70}, [4]int{1, 1, 70, 70}, ops.BFloat16, ops.Float32, ops.MatmulProgram{}},
			{[4]int{2, 1, 70, 160}, [4]int{2, 3, 160, 100}, ops.BFloat16, ops.BFloat16, ops.MatmulProgram{PerCoreM: 2, PerCoreN: 4, InnerStep: 2, PassSteps: 2}},
		} {
			c.p.Form = ops.MatmulBlocked
			x, y := normal(c.a, c.from, uint64(2*i)), normal(c.b, c.from, uint64(2*i+1))
			tx, ty := b.put(x, ops.Tile, dram), b.put(y, ops.Tile, dram)
			got := b.get(b.ok(b.Matmul(b.ctx, tx, ty, ops.WithDataType(c.to), ops.WithMatmulProgram(c.p))))
			if want := b.engines().matmul(x, y, c.to); !slices.Equal(got, want.v) {
				b.Errorf("%v times %v, %+v: %s", c.a, c.b, c.p, first(want.v, got))
			}
		}
	})
}

// first describes the first difference.
func first(want, got []float64) string {
	for i := range want {
		if want[i] != got[i] {
			return fmt.Sprintf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
	return cmp.Diff(len(want), len(got))
}
