package ops_test

import (
	"context"
	"fmt"
	"log"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

// A linear layer on the engines: the product of the input and the weights plus a bias, without its
// negative elements. It is recorded as a trace, which is replayed for each input; the first call
// loads its program and allocates the result.
func ExampleDevice_Linear() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	d := ops.New(dev)
	defer d.Release(ctx)

	host := func(shape []int, v ...float32) *ops.Host {
		h, err := ops.NewHost(shape, ops.BFloat16, v)
		check(err)
		return h
	}
	send := func(h *ops.Host) *ops.Tensor {
		t, err := d.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM))
		check(err)
		return t
	}
	x := send(host([]int{1, 3}, 0, 0, 0))
	weights, bias := send(host([]int{3, 2}, 0.5, -1, 1, 0, 2, -1)), send(host([]int{1, 2}, 0.25, 1))
	y, err := d.Linear(ctx, x, weights, bias, ops.WithActivation(ops.ReLU))
	check(err)
	layer, err := d.Capture(ctx, "layer", func(ctx context.Context) error {
		_, err := d.Linear(ctx, x, weights, bias, ops.WithActivation(ops.ReLU), ops.Into(y))
		return err
	})
	check(err)
	defer layer.Release(ctx)

	for _, input := range [][]float32{{1, 2, 3}, {-1, 0, -1}, {0.5, 0.25, 0}} {
		check(d.CopyHostToDevice(ctx, host([]int{1, 3}, input...), x))
		check(layer.Replay(ctx))
		h, err := d.ToHost(ctx, y)
		check(err)
		fmt.Println(ops.Values[float32](h))
	}
	// Output:
	// [8.75 0]
	// [0 3]
	// [0.75 0.5]
}
