package ops_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

// Add two tensors on a device. The second one has a single row, which is repeated.
func Example() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	d := ops.New(dev)
	defer d.Release(ctx)

	send := func(shape []int, v ...float32) *ops.Tensor {
		h, err := ops.NewHost(shape, ops.BFloat16, v)
		check(err)
		t, err := d.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.L1))
		check(err)
		return t
	}
	a, b := send([]int{2, 3}, 1, 2, 3, 4, 5, 6), send([]int{1, 3}, 0.5, 0.25, -8)
	sum, err := d.Add(ctx, a, b)
	check(err)
	h, err := d.ToHost(ctx, sum)
	check(err)
	fmt.Println(h.Shape, ops.Values[float32](h))
	// Output: [2 3] [1.5 2.25 -5 4.5 5.25 -2]
}

// A function of tensors becomes a trace, without a word about memory.
func ExampleDevice_CaptureModel() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	d := ops.New(dev)
	defer d.Release(ctx)

	host := func(v float32) *ops.Host {
		h, err := ops.NewHost([]int{1, 2}, ops.BFloat16, []float32{v, -v})
		check(err)
		return h
	}
	input, err := d.ToDevice(ctx, host(0), ops.Tile, ops.Interleaved(allocator.L1))
	check(err)
	model, err := d.CaptureModel(ctx, "model", func(ctx context.Context) ([]*ops.Tensor, error) {
		positive, err := d.Relu(ctx, input)
		if err != nil {
			return nil, err
		}
		sum, err := d.Add(ctx, input, positive)
		return []*ops.Tensor{sum}, err
	})
	check(err)
	for i := range 3 {
		check(errors.Join(d.CopyHostToDevice(ctx, host(float32(i)), input), model.Replay(ctx)))
		h, err := d.ToHost(ctx, model.Outputs()[0])
		check(err)
		fmt.Println(ops.Values[float32](h))
	}
	check(model.Release(ctx))
	// Output:
	// [0 0]
	// [2 -1]
	// [4 -2]
}

// Without dispatch nothing reaches the device, and tensors may be larger than its memory. The graph
// has the memory that each operation would take.
func ExampleDevice_BeginCapture() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	d := ops.New(dev)

	c := d.BeginCapture(graph.Config{Mode: graph.NoDispatch})
	a, err := d.Empty(ctx, ops.Spec{Shape: []int{64, 1, 8192, 8192}, DType: ops.BFloat16, Layout: ops.Tile,
		Memory: ops.Interleaved(allocator.L1)})
	check(err)
	_, err = d.Matmul(ctx, a, a)
	check(err)
	r, err := c.End()
	check(err)
	fmt.Println(graph.CallTrace(r.Graph))
	fmt.Println(graph.PeakL1(r.Graph)>>30, "GiB")
	// Output:
	// [ttnn::empty tt::tt_metal::create_device_tensor ttnn::matmul ttnn::prim::matmul MatmulDeviceOperation tt::tt_metal::create_device_tensor]
	// 16 GiB
}

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
