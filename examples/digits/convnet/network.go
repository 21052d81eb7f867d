// Package convnet is a small convolutional neural network in bfloat16 that reads handwritten
// digits: its layers, the trained weights, and a [Model] that runs it on a device with the tensors
// and operations of package ops. Package reference computes on the host what a device answers, bit
// for bit.
package convnet

import (
	_ "embed" // the trained weights are part of the package
	"fmt"

	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
)

//go:embed weights.safetensors
var weightsFile []byte

// Kind is what a layer does.
type Kind uint8

const (
	Conv   Kind = iota // a convolution of images
	Pool               // the largest element of each window of images
	Linear             // a product of matrices
)

// Layer is a layer of a network. Images have Height by Width positions of In channels, 1 by 1 of a
// linear layer.
type Layer struct {
	Name          string
	Kind          Kind
	Height, Width int // of the images that the layer takes
	In, Out       int // channels
	Kernel        int // height and width of the window
	Stride        int
	Padding       int
	ReLU          bool

	// Weights are Out by In by Kernel by Kernel of a convolution, In by Out of a linear layer.
	// Pools have none, and no Bias.
	Weights, Bias []bf16.Number
}

// OutHeight returns the height of the images that the layer makes.
func (l *Layer) OutHeight() int { return (l.Height+2*l.Padding-l.Kernel)/l.Stride + 1 }

// OutWidth returns the width of the images that the layer makes.
func (l *Layer) OutWidth() int { return (l.Width+2*l.Padding-l.Kernel)/l.Stride + 1 }

// Network is a sequence of layers from the pixels of an image to ten scores.
type Network struct{ Layers []Layer }

// architecture returns the layers without weights. The window of the second convolution is as large
// as its images, so that it makes a row of features of each.
func architecture() []Layer {
	const channels, features, window = 16, 32, 2
	return []Layer{
		{Name: "conv1", Kind: Conv, Height: digits.Height, Width: digits.Width, In: 1, Out: channels, Kernel: 3, Stride: 1, Padding: 1,
			ReLU: true},
		{Name: "pool1", Kind: Pool, Height: digits.Height, Width: digits.Width, In: channels, Out: channels, Kernel: window, Stride: window},
		{Name: "conv2", Kind: Conv, Height: digits.Height / window, Width: digits.Width / window, In: channels, Out: features,
			Kernel: digits.Height / window, Stride: 1, ReLU: true},
		{Name: "linear", Kind: Linear, Height: 1, Width: 1, In: features, Out: digits.Classes, Kernel: 1, Stride: 1},
	}
}

// Trained returns the network of the embedded weights.safetensors, trained once, on the first
// result of [digits.Split], by a Go program that the repository's history has
// (examples/digits/train).
func Trained() (*Network, error) {
	n := &Network{Layers: architecture()}
	if err := bf16.Decode(weightsFile, n.parts()); err != nil {
		return nil, fmt.Errorf("convnet: trained: %w", err)
	}
	return n, nil
}

func (n *Network) parts() (all []bf16.Part) {
	for i := range n.Layers {
		l := &n.Layers[i]
		shape := []int{l.In, l.Out}
		switch l.Kind {
		case Pool:
			continue
		case Conv:
			shape = []int{l.Out, l.In, l.Kernel, l.Kernel}
		}
		all = append(all, bf16.Part{Name: l.Name + ".weight", Shape: shape, Data: &l.Weights},
			bf16.Part{Name: l.Name + ".bias", Shape: []int{l.Out}, Data: &l.Bias})
	}
	return all
}

// Pixels returns the network's input for an image: ink from 0 to 1, which bfloat16 has exactly.
func Pixels(m digits.Image) [digits.Pixels]bf16.Number {
	var out [digits.Pixels]bf16.Number
	for i, p := range m.Pixels {
		out[i] = bf16.Round(float32(p) / digits.MaxPixel)
	}
	return out
}

// Scores are the network's answer for an image, one for each digit.
type Scores [digits.Classes]bf16.Number

// Best returns the digit with the largest score, the lowest one of several.
func (s Scores) Best() uint8 {
	best := 0
	for i, v := range s {
		if v.Float() > s[best].Float() {
			best = i
		}
	}
	return uint8(best)
}
