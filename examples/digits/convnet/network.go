// Package convnet is a small convolutional neural network in bfloat16 that reads handwritten digits: its layers, the trained
// weights, and a [Model] that runs it on a device with the tensors and operations of package ops. Package reference computes on
// the host what a device answers, bit for bit.
package convnet

import (
	_ "embed" // the trained weights are part of the package
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/examples/digits"
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

// architecture returns the layers without weights.
func architecture() []Layer {
	linear := func(name string, in, out int, relu bool) Layer {
		return Layer{Name: name, Kind: Linear, Height: 1, Width: 1, In: in, Out: out, Kernel: 1, Stride: 1, ReLU: relu}
	}
	return []Layer{linear("linear1", digits.Pixels, 64, true), linear("linear2", 64, 32, true), linear("linear3", 32, digits.Classes, false)}
}

// Trained returns the network of the embedded weights.safetensors, trained on the first result of [digits.Split].
func Trained() (*Network, error) { return Decode(weightsFile) }

// Decode returns the network of a safetensors file with the weights and the bias of each layer, as [Network.Encode] makes it. The
// error wraps [ErrFormat] or [ErrShape].
func Decode(file []byte) (*Network, error) {
	tensors, err := decodeTensors(file)
	if err != nil {
		return nil, fmt.Errorf("convnet: decode: %w", err)
	}
	n := &Network{Layers: architecture()}
	for i := range n.Layers {
		l := &n.Layers[i]
		for _, part := range l.parts() {
			t, ok := tensors[part.name]
			if !ok || len(t) != part.size() {
				return nil, fmt.Errorf("convnet: decode: %w: %s has %d elements, want %v", ErrShape, part.name, len(t), part.shape)
			}
			*part.data = t
		}
	}
	return n, nil
}

// New returns the network with weights in float64, rounded to the nearest bfloat16, by the names of the tensors of the file:
// "conv1.weight", "conv1.bias" and so on. The error wraps [ErrShape].
func New(weights map[string][]float64) (*Network, error) {
	n := &Network{Layers: architecture()}
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
func (n *Network) Encode() []byte {
	var parts []part
	for i := range n.Layers {
		parts = append(parts, n.Layers[i].parts()...)
	}
	return encodeTensors(parts)
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
