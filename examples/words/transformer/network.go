// Package transformer is a small language model of letters in bfloat16, which invents English
// words: its layers, the trained weights, and a [Model] that runs it on a device with the
// operations of package ops and two kernels of its own. Package reference computes a device's
// answers on the host, bit for bit.
package transformer

import (
	_ "embed" // the trained weights are part of the package
	"fmt"

	"github.com/reprise-tt/reprise/examples/internal/bf16"
)

//go:embed weights.safetensors
var weightsFile []byte

// The dimensions of the network. A row of the embedding has Width elements: one for each of 32
// tokens, then one for each position of a word. There are no biases, and normalisations have no
// weights.
const (
	Layers    = 4
	Width     = 64  // of the residual stream
	Heads     = 4   // of attention
	HeadWidth = 16  // of queries, keys and values
	Hidden    = 128 // of a layer's perceptron, with relu
	Positions = 32  // of a word: the End before it, and up to 31 letters
	Slots     = 32  // rows for tokens in the embedding, and columns of logits; words.Tokens of them are used
)

// Epsilon is added to the mean of squares in normalisations.
const Epsilon = 1e-5

// Matrix is a matrix of bfloat16, row by row. Its rows are inputs, its columns outputs.
type Matrix struct {
	Rows, Columns int
	Data          []bf16.Number
}

// Layer has the weights of a layer.
type Layer struct {
	Query, Key, Value Matrix // Width by Heads x HeadWidth, head after head
	Project           Matrix // Heads x HeadWidth by Width
	Up, Down          Matrix // Width by Hidden, and Hidden by Width
}

// Network has the weights of the network.
type Network struct {
	Embedding Matrix // Slots + Positions by Width
	Layers    [Layers]Layer
	Logits    Matrix // Width by Slots
}

// parts returns all matrices of the network, and sets their shapes.
func (n *Network) parts() (all []bf16.Part) {
	add := func(name string, m *Matrix, rows, columns int) {
		m.Rows, m.Columns = rows, columns
		all = append(all, bf16.Part{Name: name, Shape: []int{rows, columns}, Data: &m.Data})
	}
	const heads = Heads * HeadWidth
	add("embedding", &n.Embedding, Slots+Positions, Width)
	for i := range n.Layers {
		l, name := &n.Layers[i], fmt.Sprintf("layers.%d.", i)
		add(name+"query", &l.Query, Width, heads)
		add(name+"key", &l.Key, Width, heads)
		add(name+"value", &l.Value, Width, heads)
		add(name+"project", &l.Project, heads, Width)
		add(name+"up", &l.Up, Width, Hidden)
		add(name+"down", &l.Down, Hidden, Width)
	}
	add("logits", &n.Logits, Width, Slots)
	return all
}

// Parameters returns the number of weights.
func (n *Network) Parameters() (count int) {
	for _, p := range n.parts() {
		count += len(*p.Data)
	}
	return count
}

// Trained returns the network of the embedded weights.safetensors, trained once, on the first
// result of words.Split, by a Go program that the repository's history has (examples/words/train).
func Trained() (*Network, error) {
	n := &Network{}
	if err := bf16.Decode(weightsFile, n.parts()); err != nil {
		return nil, fmt.Errorf("transformer: trained: %w", err)
	}
	return n, nil
}
