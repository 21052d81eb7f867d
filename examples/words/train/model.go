package main

import (
	"math"
	"strings"

	"github.com/reprise-tt/reprise/examples/internal/rng"
	"github.com/reprise-tt/reprise/examples/words/transformer"
)

// tensor is a matrix of weights in float32, its transpose, and what the optimiser keeps of it.
type tensor struct {
	name          string
	rows, columns int
	w, t          []float32 // row by row, column by column
	first, second []float32 // moments of the gradient
}

// layer is the tensors of a layer, by their numbers in the model.
type layer struct{ query, key, value, project, up, down int }

// model is the network of package transformer in float32.
type model struct {
	tensors           []*tensor
	embedding, logits int
	layers            [transformer.Layers]layer
}

// newModel returns a model with random weights.
func newModel(src *rng.Source) *model {
	m := &model{}
	numbers := map[string]int{}
	for i, p := range (&transformer.Network{}).Parts() {
		n := p.Rows * p.Columns
		t := &tensor{p.Name, p.Rows, p.Columns, make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)}
		numbers[t.name] = i
		// Uniform with a variance of one divided by the number of inputs. Additions to the residual
		// stream are smaller, so that all layers together add as much as one.
		limit := math.Sqrt(3 / float64(t.rows))
		switch {
		case t.name == "embedding":
			limit = 0.5
		case strings.HasSuffix(t.name, ".project"), strings.HasSuffix(t.name, ".down"):
			limit /= math.Sqrt(2 * transformer.Layers)
		}
		for k := range t.w {
			t.w[k] = float32(float64((float64(2*src.Float64()) - 1) * limit))
		}
		transpose(t.t, t.w, t.rows, t.columns)
		m.tensors = append(m.tensors, t)
	}
	m.embedding, m.logits = numbers["embedding"], numbers["logits"]
	for i := range m.layers {
		name := "layers." + string(rune('0'+i)) + "."
		m.layers[i] = layer{
			numbers[name+"query"], numbers[name+"key"], numbers[name+"value"], numbers[name+"project"], numbers[name+"up"], numbers[name+"down"],
		}
	}
	return m
}

// network returns the network in bfloat16.
func (m *model) network() (*transformer.Network, error) {
	weights := map[string][]float32{}
	for _, t := range m.tensors {
		weights[t.name] = t.w
	}
	return transformer.New(weights)
}

// fromNetwork returns the model with the weights of a network, for measuring it.
func fromNetwork(n *transformer.Network) *model {
	src := rng.Source(0)
	m := newModel(&src)
	for i, p := range n.Parts() {
		t := m.tensors[i]
		for k, v := range p.Data {
			t.w[k] = v.Float()
		}
		transpose(t.t, t.w, t.rows, t.columns)
	}
	return m
}

// step moves the weights against the gradients by Adam (Kingma and Ba, 2015) with weight decay
// (Loshchilov and Hutter, 2019); count is the number of steps, this one included.
func (m *model) step(gradients [][]float32, rate, decay float64, count int) {
	const keepFirst, keepSecond = 0.9, 0.98
	first, second := power(keepFirst, count), power(keepSecond, count)
	scale := float32(rate / (1 - first))
	unbias := float32(1 / (1 - second))
	shrink := float32(1 - float64(rate*decay))
	for i, t := range m.tensors {
		for k, g := range gradients[i] {
			t.first[k] = float32(keepFirst*t.first[k]) + float32((1-keepFirst)*g)
			t.second[k] = float32(keepSecond*t.second[k]) + float32((1-keepSecond)*float32(g*g))
			root := float32(math.Sqrt(float64(float32(t.second[k] * unbias))))
			t.w[k] = float32(t.w[k]*shrink) - float32(float32(scale*t.first[k])/(root+1e-8))
		}
		transpose(t.t, t.w, t.rows, t.columns)
	}
}

// power returns x to the power of n.
func power(x float64, n int) float64 {
	p := 1.0
	for range n {
		p = float64(p * x)
	}
	return p
}
