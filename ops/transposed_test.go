package ops_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

// A product with transposed operands has the bits of one with operands that Transpose made, and leaves no memory allocated.
func TestTransposedOperands(t *testing.T) {
	dram := ops.Interleaved(allocator.DRAM)
	onBackends(t, func(b *bench) {
		for _, l := range []ops.Layout{ops.Tile, ops.RowMajor} {
			x, y := b.put(normal([4]int{1, 2, 40, 33}, ops.BFloat16, 1), l, dram), b.put(normal([4]int{1, 1, 33, 5}, ops.BFloat16, 2), l, dram)
			tx, ty := b.ok(b.Transpose(b.ctx, x, -1, -2)), b.ok(b.Transpose(b.ctx, y, 2, 3))
			want := b.get(b.ok(b.Matmul(b.ctx, x, y)))
			b.get(b.ok(b.Matmul(b.ctx, tx, ty, ops.WithTransposeA(), ops.WithTransposeB()))) // loads programs
			before := b.dev.Memory(allocator.DRAM).Allocated
			got := b.ok(b.Matmul(b.ctx, tx, ty, ops.WithTransposeA(), ops.WithTransposeB()))
			if d := cmp.Diff(want, b.get(got)); d != "" {
				b.Error(d)
			}
			b.must(b.Deallocate(got))
			if now := b.dev.Memory(allocator.DRAM).Allocated; now != before {
				b.Errorf("%d B are allocated, not %d", now, before)
			}
			if l != ops.Tile {
				continue
			}
			bias := b.put(normal([4]int{1, 1, 1, 5}, ops.BFloat16, 3), l, dram)
			want = b.get(b.ok(b.Linear(b.ctx, x, y, bias, ops.WithActivation(ops.ReLU))))
			if d := cmp.Diff(want, b.get(b.ok(b.Linear(b.ctx, x, ty, bias, ops.WithActivation(ops.ReLU), ops.WithTransposeB())))); d != "" {
				b.Error(d)
			}
		}
	})
}

func TestTransposedOperandsErrors(t *testing.T) {
	b := open(t, sim.Wormhole())
	dram := ops.Interleaved(allocator.DRAM)
	x, y := b.tensor(dram, ops.Float32, 3, 4), b.tensor(dram, ops.Float32, 4, 2)
	if _, err := b.Matmul(b.ctx, x, y, ops.WithTransposeB()); !errors.Is(err, ops.ErrShape) {
		t.Error(err)
	}
	into := b.ok(b.Matmul(b.ctx, x, y))
	_, err := b.Capture(b.ctx, "transposed", func(ctx context.Context) error {
		_, err := b.Matmul(ctx, x, y, ops.WithTransposeB(), ops.Into(into))
		return err
	})
	if err == nil {
		t.Error("a trace holds a product with a transposed copy")
	}
}
