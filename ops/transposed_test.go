package ops_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestTransposedOperands(t *testing.T) {
	effort.Long(t)
	auto, simple := ops.MatmulProgram{}, ops.MatmulProgram{Form: ops.MatmulSimple}
	passes := ops.MatmulProgram{Form: ops.MatmulBlocked, PerCoreM: 3, PerCoreN: 5, InnerStep: 2, PassSteps: 2}
	onBackends(t, func(b *bench) {
		for i, c := range []struct {
			a, b       [4]int // of the product
			from, to   ops.DataType
			right      ops.DataType
			layout     ops.Layout
			memory     ops.MemoryConfig
			bias       bool
			activation ops.Activation
			p          ops.MatmulProgram
		}{
			{[4]int{1, 2, 40, 70}, [4]int{1, 1, 70, 200}, ops.BFloat16, ops.BFloat16, ops.BFloat16, ops.Tile, dram, true, ops.ReLU, simple},
			{[4]int{2, 2, 40, 330}, [4]int{2, 1, 330, 5}, ops.Float32, ops.Float32, ops.Float32, ops.Tile, l1, false, "", simple},
			{[4]int{1, 1, 160, 330}, [4]int{1, 1, 330, 300}, ops.BFloat16, ops.BFloat16, ops.BFloat16, ops.Tile, dram, true, ops.GELU, passes},
			{[4]int{1, 2, 70, 330}, [4]int{1, 2, 330, 300}, ops.Float32, ops.Float32, ops.Float32, ops.Tile, dram, true, ops.SiLU, passes},
			{[4]int{1, 2, 70, 100}, [4]int{1, 1, 100, 130}, ops.Float32, ops.BFloat16, ops.Float32, ops.Tile, dram, false, "",
				ops.MatmulProgram{Form: ops.MatmulBlocked}},
			{[4]int{1, 1, 70, 100}, [4]int{1, 1, 100, 130}, ops.BFloat16, ops.Float32, ops.BFloat16, ops.Tile, dram, false, "",
				ops.MatmulProgram{Form: ops.MatmulBlocked, PerCoreM: 2, PerCoreN: 3, InnerStep: 1, PassSteps: 1}},
			// Some cores have no block in the last turn.
			{[4]int{1, 1, 700, 70}, [4]int{1, 1, 70, 330}, ops.BFloat16, ops.BFloat16, ops.BFloat16, ops.Tile, dram, false, "",
				ops.MatmulProgram{Form: ops.MatmulBlocked, PerCoreM: 1, PerCoreN: 1, InnerStep: 1, PassSteps: 2}},
			{[4]int{1, 3, 40, 70}, [4]int{1, 1, 70, 130}, ops.BFloat16, ops.BFloat16, ops.BFloat8B, ops.Tile, dram, false, "", auto},
			{[4]int{1, 1, 40, 100}, [4]int{1, 1, 100, 70}, ops.Float32, ops.Float32, ops.BFloat8B, ops.Tile, dram, true, ops.ReLU, passes},
			{[4]int{1, 2, 40, 140}, [4]int{1, 1, 140, 5}, ops.BFloat16, ops.BFloat16, ops.BFloat16, ops.RowMajor, dram, false, "", auto},
			{[4]int{1, 2, 9, 40}, [4]int{1, 2, 40, 20}, ops.UInt16, ops.UInt32, ops.UInt16, ops.RowMajor, dram, false, "", auto},
			{[4]int{1, 1, 5, 40}, [4]int{1, 1, 40, 34}, ops.Int32, ops.Int32, ops.Int32, ops.Tile, l1, false, "", auto},
		} {
			x, y := normal(c.a, c.from, uint64(2*i)), normal(c.b, c.right, uint64(2*i+1))
			if !c.from.Float() {
				x, y = smallNumbers(c.a, c.from), smallNumbers(c.b, c.right)
			}
			if c.right == ops.BFloat8B { // numbers that are the same in all blocks
				y = make4(c.b, ops.BFloat8B, func(_, _, h, w int) float64 { return float64((h*7+w*3)%63-31) / 4 })
			}
			in := [2][2]*ops.Tensor{} // operands, and what is transposed to them
			for k, p := range []*plain{x, y} {
				for turned, order := range [][4]int{{0, 1, 2, 3}, {0, 1, 3, 2}} {
					in[k][turned] = b.put(permute(p, order), c.layout, c.memory)
				}
			}
			opts := []ops.OpOption{ops.WithMatmulProgram(c.p), ops.WithDataType(c.to), ops.WithActivation(c.activation)}
			var bias *ops.Tensor
			if c.bias {
				bias = b.put(normal([4]int{1, 1, 1, c.b[3]}, c.from, 99), c.layout, c.memory)
			}
			product := func(ctx context.Context, a, right int, more ...ops.OpOption) (*ops.Tensor, error) {
				more = append(slices.Clone(opts), more...)
				if a == 1 {
					more = append(more, ops.WithTransposeA())
				}
				if right == 1 {
					more = append(more, ops.WithTransposeB())
				}
				if bias == nil && c.activation == "" {
					return b.Matmul(ctx, in[0][a], in[1][right], more...)
				}
				return b.Linear(ctx, in[0][a], in[1][right], bias, more...)
			}
			want := b.get(b.ok(product(b.ctx, 0, 0)))
			for _, turned := range [][2]int{{0, 1}, {1, 0}, {1, 1}} {
				name := fmt.Sprintf("%d: %v times %v, transposed %v", i, c.a, c.b, turned)
				out := b.ok(product(b.ctx, turned[0], turned[1]))
				if got := b.get(out); !slices.Equal(got, want) {
					b.Errorf("%s: %s", name, first(want, got))
				}
				into := b.ok(b.Multiply(b.ctx, out, out))
				tr, err := b.Capture(b.ctx, "transposed", func(ctx context.Context) error {
					_, err := product(ctx, turned[0], turned[1], ops.Into(into))
					return err
				})
				b.must(err)
				b.must(tr.Replay(b.ctx))
				if got := b.get(into); !slices.Equal(got, want) {
					b.Errorf("%s, replayed: %s", name, first(want, got))
				}
				b.must(tr.Release(b.ctx))
				b.must(b.Deallocate(out))
				b.must(b.Deallocate(into))
			}
			for _, t := range []*ops.Tensor{in[0][0], in[0][1], in[1][0], in[1][1]} {
				b.must(b.Deallocate(t))
			}
		}
	})
}

func smallNumbers(dims [4]int, dt ops.DataType) *plain {
	return make4(dims, dt, func(n, c, h, w int) float64 { return float64((n*31 + c*17 + h*7 + w*3) % 61) })
}

func TestTransposedOperandsErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, y := b.tensor(dram, ops.Float32, 3, 4), b.tensor(dram, ops.Float32, 4, 2)
	for _, o := range []ops.OpOption{ops.WithTransposeA(), ops.WithTransposeB()} {
		if _, err := b.Matmul(b.ctx, x, y, o); !errors.Is(err, ops.ErrShape) {
			t.Error(err)
		}
	}
	row := b.tensor(dram, ops.Float32, 4)
	if _, err := b.Matmul(b.ctx, x, row, ops.WithTransposeB()); !errors.Is(err, ops.ErrShape) {
		t.Error(err)
	}
}
