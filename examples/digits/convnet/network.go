// Package convnet is a small convolutional neural network in bfloat16 that reads handwritten digits: its layers, the trained
// weights, and a [Model] that runs it on a device with the tensors and operations of package ops. Package reference computes on
// the host what a device answers, bit for bit.
package convnet

import (
	"bytes"
	_ "embed" // the trained weights are part of the package
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/safetensors"
)

//go:embed weights.safetensors
var weightsFile []byte

// ErrShape is in errors about layers that don't fit each other.
var ErrShape = errors.New("the layers don't fit")

// Kind is what a layer does.
type Kind uint8

// The kinds of layers.
const (
	Conv   Kind = iota // a convolution of images
	Pool               // the largest element of each window of images
	Linear             // a product of matrices
)

// Layer is a layer of a network. Images have Height by Width positions of In channels; the rows of a linear layer are 1 by 1.
type Layer struct {
	Name          string
	Kind          Kind
	Height, Width int // of the images that the layer takes
	In, Out       int // channels
	Kernel        int // height and width of the window
	Stride        int
	Padding       int
	ReLU          bool

	// Weights are Out by In by Kernel by Kernel of a convolution, In by Out of a linear layer. Pools have none, and no Bias.
	Weights, Bias []BFloat16
}

// OutHeight returns the height of the images that the layer makes.
func (l *Layer) OutHeight() int { return (l.Height+2*l.Padding-l.Kernel)/l.Stride + 1 }

// OutWidth returns the width of the images that the layer makes.
func (l *Layer) OutWidth() int { return (l.Width+2*l.Padding-l.Kernel)/l.Stride + 1 }

// Network is a sequence of layers from the pixels of an image to ten scores.
type Network struct{ Layers []Layer }

// Architecture returns the layers without weights: a convolution, a pool, a convolution whose window is as large as its images, so
// that it makes a row of features of each, and a linear layer from these to the scores.
func Architecture() []Layer {
	const channels, features, window = 16, 32, 2
	return []Layer{
		{Name: "conv1", Kind: Conv, Height: digits.Height, Width: digits.Width, In: 1, Out: channels, Kernel: 3, Stride: 1, Padding: 1, ReLU: true},
		{Name: "pool1", Kind: Pool, Height: digits.Height, Width: digits.Width, In: channels, Out: channels, Kernel: window, Stride: window},
		{Name: "conv2", Kind: Conv, Height: digits.Height / window, Width: digits.Width / window, In: channels, Out: features, Kernel: digits.Height / window, Stride: 1, ReLU: true},
		{Name: "linear", Kind: Linear, Height: 1, Width: 1, In: features, Out: digits.Classes, Kernel: 1, Stride: 1},
	}
}

// Trained returns the network of the embedded weights.safetensors, trained on the first result of [digits.Split].
func Trained() (*Network, error) { return Decode(weightsFile) }

// Decode returns the network of a safetensors file with the weights and the bias of each layer, as [Network.Encode] makes it. The
// error wraps [ErrShape], or is one of package safetensors.
func Decode(file []byte) (*Network, error) {
	f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, fmt.Errorf("convnet: decode: %w", err)
	}
	n := &Network{Layers: Architecture()}
	for i := range n.Layers {
		for _, part := range n.Layers[i].parts() {
			t, err := f.Tensor(part.name)
			if err != nil {
				return nil, fmt.Errorf("convnet: decode: %w", err)
			}
			if !slices.Equal(t.Shape, part.shape) || t.DType != ops.BFloat16 {
				return nil, fmt.Errorf("convnet: decode: %w: %s is %v of %v, want %v of bfloat16", ErrShape, part.name, t.Shape, t.DType, part.shape)
			}
			for b := t.Data; len(b) > 0; b = b[2:] {
				*part.data = append(*part.data, BFloat16(binary.LittleEndian.Uint16(b)))
			}
		}
	}
	return n, nil
}

// New returns the network with weights in float64, rounded to the nearest bfloat16, by the names of the tensors of the file:
// "conv1.weight", "conv1.bias" and so on. The error wraps [ErrShape].
func New(weights map[string][]float64) (*Network, error) {
	n := &Network{Layers: Architecture()}
	for i := range n.Layers {
		for _, part := range n.Layers[i].parts() {
			v := weights[part.name]
			if len(v) != part.size() {
				return nil, fmt.Errorf("convnet: new network: %w: %s has %d elements, want %v", ErrShape, part.name, len(v), part.shape)
			}
			for _, x := range v {
				*part.data = append(*part.data, Round(x))
			}
		}
	}
	return n, nil
}

// Encode returns the weights as a safetensors file.
func (n *Network) Encode() ([]byte, error) {
	tensors := map[string]*ops.Host{}
	for i := range n.Layers {
		for _, part := range n.Layers[i].parts() {
			h := &ops.Host{Shape: part.shape, DType: ops.BFloat16}
			for _, v := range *part.data {
				h.Data = binary.LittleEndian.AppendUint16(h.Data, uint16(v))
			}
			tensors[part.name] = h
		}
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, nil); err != nil {
		return nil, fmt.Errorf("convnet: encode: %w", err)
	}
	return b.Bytes(), nil
}

// part is a tensor of a layer.
type part struct {
	name  string
	shape []int
	data  *[]BFloat16
}

func (p part) size() int {
	n := 1
	for _, d := range p.shape {
		n *= d
	}
	return n
}

// parts returns the layer's tensors: weights and bias.
func (l *Layer) parts() []part {
	shape := []int{l.In, l.Out}
	switch l.Kind {
	case Pool:
		return nil
	case Conv:
		shape = []int{l.Out, l.In, l.Kernel, l.Kernel}
	}
	return []part{{l.Name + ".weight", shape, &l.Weights}, {l.Name + ".bias", []int{l.Out}, &l.Bias}}
}
