package ops_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestQueueOfACall(t *testing.T) {
	b := openWith(t, sim.Blackhole(), []reprise.Option{reprise.WithQueues(2)})
	one := ops.OnQueue(b.ctx, 1)
	x, out := b.tensor(l1, ops.Int32, 2, 3), b.tensor(l1, ops.Int32, 2, 3)
	b.must(b.Wait(b.ctx))
	sum := b.ok(b.Add(one, x, x))
	data := make([]byte, 0, 24)
	h := &ops.Host{Data: data}
	r, err := b.StartToHost(one, sum, h)
	b.must(err)
	b.must(r.Wait(b.ctx))
	if h.DType != ops.Int32 || len(h.Shape) != 2 || &h.Data[0] != &data[:1][0] {
		t.Errorf("read as %v of %v, in other memory", h.Shape, h.DType)
	}
	b.holds(sum, 0, 2, 4, 6, 8, 10)
	b.ok(b.Add(one, x, sum, ops.Into(out)))
	tr, err := b.Capture(one, "on queue 1", func(ctx context.Context) error {
		return failure(b.Add(ctx, x, sum, ops.Into(out)))
	})
	b.must(err)
	b.must(tr.Replay(b.ctx))
	b.must(b.Wait(one))
	b.holds(out, 0, 3, 6, 9, 12, 15)

	for id := range map[int]bool{-1: true, 2: true} {
		ctx := ops.OnQueue(b.ctx, id)
		_, run := b.Add(ctx, x, x)
		_, read := b.StartToHost(ctx, x, h)
		_, capture := b.Capture(ctx, "t", func(context.Context) error { return nil })
		for _, err := range []error{run, read, capture, b.Wait(ctx)} {
			if !errors.Is(err, ops.ErrQueue) {
				t.Errorf("queue %d: %v", id, err)
			}
		}
	}
}

func TestCaptureLeavesOtherCallersAlone(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.tensor(l1, ops.Int32, 2, 3)
	mine, other := b.ok(b.Add(b.ctx, x, x)), b.ok(b.Add(b.ctx, x, x))
	b.ok(b.Multiply(b.ctx, x, x))
	tr, err := b.Capture(b.ctx, "t", func(ctx context.Context) error {
		_, err := b.Multiply(ctx, x, x, ops.Into(mine))
		done := make(chan error)
		go func() {
			_, err := b.Multiply(b.ctx, x, x, ops.Into(other))
			done <- err
		}()
		return errors.Join(err, <-done)
	})
	b.must(err)
	b.must(b.Wait(b.ctx))
	b.holds(other, 0, 1, 4, 9, 16, 25)
	b.holds(mine, 0, 2, 4, 6, 8, 10)
	b.must(tr.Replay(b.ctx))
	b.holds(mine, 0, 1, 4, 9, 16, 25)

	var inner error
	_, err = b.Capture(b.ctx, "outer", func(ctx context.Context) error {
		_, inner = b.Capture(ctx, "inner", func(ctx context.Context) error { return nil })
		return inner
	})
	if !errors.Is(err, reprise.ErrInCapture) || !errors.Is(inner, reprise.ErrInCapture) {
		t.Errorf("a capture in a capture: %v", err)
	}
}

func TestMissingQueue(t *testing.T) {
	b := open(t, sim.Blackhole(), ops.WithQueue(7))
	h, err := ops.NewHost([]int{1, 32}, ops.BFloat16, make([]float32, 32))
	b.must(err)
	if _, err := b.ToDevice(b.ctx, h, ops.Tile, dram); !errors.Is(err, ops.ErrQueue) {
		t.Error(err)
	}
	equal(t, "host tensor: [1 32] DataType::BFLOAT16, 64 bytes", fmt.Sprint(h))
}
