package ops_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops"
)

// A model may have operations with several programs and results; all its memory is free afterwards.
func TestCaptureModel(t *testing.T) {
	onBackends(t, func(b *bench) {
		x := b.zeros(dram, 1, 1, 64, 64)
		calls := 0
		model := func(ctx context.Context) ([]*ops.Tensor, error) {
			calls++
			soft, err := b.Softmax(ctx, x, 3)
			if err != nil {
				return nil, err
			}
			values, indices, err := b.TopK(ctx, soft, 32)
			if err != nil {
				return nil, err
			}
			turned, err := b.Transpose(ctx, values, 2, 3)
			return []*ops.Tensor{turned, indices}, errors.Join(err, b.Deallocate(soft), b.Deallocate(values))
		}
		first, err := model(b.ctx) // programs and scratch memory stay
		b.must(err)
		for _, t := range append(first, b.ok(b.Relu(b.ctx, x))) {
			b.must(b.Deallocate(t))
		}
		before := devtest.Allocated(b.dev)
		m, err := b.CaptureModel(b.ctx, "model", model)
		b.must(err)
		for i := range 3 {
			v := make([]float32, 64*64)
			for k := range v {
				v[k] = float32((k*7 + i) % 64)
			}
			h, err := ops.NewHost([]int{1, 1, 64, 64}, ops.BFloat16, v)
			b.must(err)
			b.must(b.CopyHostToDevice(b.ctx, h, x))
			b.must(m.Replay(b.ctx))
			want, err := model(b.ctx)
			b.must(err)
			for k, w := range want {
				got, err := b.ToHost(b.ctx, m.Outputs()[k])
				b.must(err)
				wanted, err := b.ToHost(b.ctx, w)
				b.must(err)
				equal(b, wanted.Data, got.Data, fmt.Sprintf("result %d of replay %d", k, i))
				b.must(b.Deallocate(w))
			}
		}
		b.must(m.Release(b.ctx))
		calls = 0
		_, err = b.CaptureModel(b.ctx, "grows", func(ctx context.Context) ([]*ops.Tensor, error) {
			var errs []error
			for calls++; len(errs) < calls; {
				errs = append(errs, failure(b.Relu(ctx, x)))
			}
			return nil, errors.Join(errs...)
		})
		if !errors.Is(err, reprise.ErrInCapture) {
			b.Errorf("another operation in the second run: %v", err)
		}
		if d := cmp.Diff(before, devtest.Allocated(b.dev)); d != "" {
			b.Error("memory stays allocated: ", d)
		}
	})
}
