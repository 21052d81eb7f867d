package ops_test

import (
	"context"
	"testing"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func BenchmarkHost(b *testing.B) {
	d := open(b, sim.Blackhole())
	tensor := func(shape ...int) *ops.Tensor {
		t, err := d.Empty(d.ctx, ops.Spec{Shape: shape, DType: ops.BFloat16, Layout: ops.Tile, Memory: dram})
		d.must(err)
		return t
	}
	x, y, out := tensor(1, 1, 32, 32), tensor(1, 1, 32, 32), tensor(1, 1, 32, 32)
	for _, op := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"add", func(ctx context.Context) error { _, err := d.Add(ctx, x, y, ops.Into(out)); return err }},
		{"matmul", func(ctx context.Context) error { _, err := d.Matmul(ctx, x, y, ops.Into(out)); return err }},
		{"softmax", func(ctx context.Context) error { _, err := d.Softmax(ctx, x, -1, ops.Into(out)); return err }},
	} {
		d.must(op.run(d.ctx))
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			t, err := d.Capture(d.ctx, "t", func(ctx context.Context) error {
				for b.Loop() {
					if err := op.run(ctx); err != nil {
						return err
					}
				}
				return nil
			})
			d.must(err)
			d.must(t.Release(d.ctx))
		})
	}
}
