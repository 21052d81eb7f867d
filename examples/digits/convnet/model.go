package convnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/ops"
)

// Model is a network on a device, for a fixed number of images. Its tensors are in DRAM, in tiles
// of bfloat16.
type Model struct {
	dev    *ops.Device
	net    *Network
	images int
	input  *ops.Tensor
	layers []layer
}

type layer struct{ weights, bias, out *ops.Tensor }

// InputSpec returns the spec of the input: a row for each position, image after image.
func (n *Network) InputSpec(images int) ops.Spec {
	l := &n.Layers[0]
	return tiles(images*l.Height*l.Width, l.In)
}

func tiles(rows, columns int) ops.Spec {
	return ops.Spec{Shape: []int{1, 1, rows, columns}, DType: ops.BFloat16, Layout: ops.Tile, Memory: ops.Interleaved(allocator.DRAM)}
}

// Load allocates the tensors, and writes the weights. The input is a tensor of [Network.InputSpec],
// which the caller deallocates. After an error nothing stays allocated.
func Load(ctx context.Context, d *ops.Device, n *Network, images int, input *ops.Tensor) (*Model, error) {
	m := &Model{dev: d, net: n, images: images, input: input}
	for i := range n.Layers {
		l, err := m.load(ctx, &n.Layers[i])
		m.layers = append(m.layers, l)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("convnet: load %s: %w", n.Layers[i].Name, err), m.Close(ctx))
		}
	}
	return m, nil
}

func (m *Model) load(ctx context.Context, l *Layer) (out layer, err error) {
	toDevice := func(h *ops.Host) (*ops.Tensor, error) {
		return m.dev.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.DRAM))
	}
	if l.Kind != Pool {
		weights := bf16.Host(l.Weights, 1, 1, l.In, l.Out)
		if l.Kind == Conv {
			if weights, err = ops.Conv2dWeights(bf16.Host(l.Weights, l.Out, l.In, l.Kernel, l.Kernel), 1); err != nil {
				return out, err
			}
		}
		if out.weights, err = toDevice(weights); err != nil {
			return out, err
		}
		if out.bias, err = toDevice(bf16.Host(l.Bias, 1, 1, 1, l.Out)); err != nil {
			return out, err
		}
	}
	out.out, err = m.dev.Empty(ctx, tiles(m.images*l.OutHeight()*l.OutWidth(), l.Out))
	return out, err
}

// Run runs the network on the input, or records it in a function that ops.Device.Capture calls.
func (m *Model) Run(ctx context.Context) error {
	x := m.input
	for i, t := range m.layers {
		if err := m.run(ctx, &m.net.Layers[i], t, x); err != nil {
			return fmt.Errorf("convnet: run %s: %w", m.net.Layers[i].Name, err)
		}
		x = t.out
	}
	return nil
}

func (m *Model) run(ctx context.Context, l *Layer, t layer, x *ops.Tensor) error {
	opts := []ops.OpOption{ops.Into(t.out)}
	if l.ReLU {
		opts = append(opts, ops.WithActivation(ops.ReLU))
	}
	square := func(n int) [2]int { return [2]int{n, n} }
	var err error
	switch l.Kind {
	case Conv:
		_, err = m.dev.Conv2d(ctx, x, t.weights, t.bias, ops.Conv2dConfig{
			Batch: m.images, Height: l.Height, Width: l.Width, In: l.In, Out: l.Out,
			Kernel: square(l.Kernel), Stride: square(l.Stride), Padding: square(l.Padding),
		}, opts...)
	case Pool:
		_, err = m.dev.MaxPool2d(ctx, x, ops.Pool2dConfig{
			Batch: m.images, Height: l.Height, Width: l.Width, Channels: l.In, Kernel: square(l.Kernel), Stride: square(l.Stride),
			Padding: square(l.Padding),
		}, opts...)
	default:
		_, err = m.dev.Linear(ctx, x, t.weights, t.bias, opts...)
	}
	return err
}

// Record records a run, as a function for reprise.Queue.Capture. The programs must have run before.
func (m *Model) Record(ctx context.Context, r *reprise.Recorder) error {
	return m.dev.Record(ctx, r, m.Run)
}

// Results returns the result of each layer; the last one is the scores.
func (m *Model) Results() []*ops.Tensor {
	var all []*ops.Tensor
	for _, l := range m.layers {
		all = append(all, l.out)
	}
	return all
}

// Close deallocates the weights and the results. A second Close does nothing.
func (m *Model) Close(context.Context) error {
	var errs []error
	for _, l := range m.layers {
		for _, t := range []*ops.Tensor{l.weights, l.bias, l.out} {
			if t != nil {
				errs = append(errs, m.dev.Deallocate(t))
			}
		}
	}
	m.layers = nil
	return errors.Join(errs...)
}

// EncodeImages returns the content of the input's buffer for images, with zeros for the rest of
// room.
func (n *Network) EncodeImages(images []digits.Image, room int) ([]byte, error) {
	s := n.InputSpec(room)
	v := make([]bf16.Number, 0, room*digits.Pixels)
	for _, m := range images {
		p := Pixels(m)
		v = append(v, p[:]...)
	}
	return s.Encode(bf16.Host(append(v, make([]bf16.Number, room*digits.Pixels-len(v))...), s.Shape...))
}

// DecodeScores returns the scores in the content of the buffer of scores.
func (n *Network) DecodeScores(pages []byte, images int) ([]Scores, error) {
	l := &n.Layers[len(n.Layers)-1]
	h, err := tiles(images*l.OutHeight()*l.OutWidth(), l.Out).Decode(pages)
	if err != nil {
		return nil, err
	}
	out := make([]Scores, images)
	_, err = binary.Decode(h.Data, binary.LittleEndian, out)
	return out, err
}
