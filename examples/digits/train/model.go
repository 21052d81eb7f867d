package main

import (
	"math"
	"slices"

	"github.com/reprise-tt/reprise/examples/internal/rng"
)

// Every product below is written float64(a*b): the conversion rounds, so that no compiler may fuse
// the product with an addition ("Floating-point operators" in the Go specification). Fusing would
// change the weights.

// dense is one layer in float64, with the state of its optimiser.
type dense struct {
	in, out  int
	relu     bool
	w, b     []float64 // w is out rows of in
	gw, gb   []float64 // gradients of the batch
	vw, vb   []float64 // momentum
	x, y, dx []float64 // of the sample in flight: input, output and the loss's derivatives by the input
}

func newDense(in, out int, relu bool, src *rng.Source) *dense {
	d := &dense{
		in: in, out: out, relu: relu,
		w: make([]float64, in*out), b: make([]float64, out),
		gw: make([]float64, in*out), gb: make([]float64, out),
		vw: make([]float64, in*out), vb: make([]float64, out),
		y: make([]float64, out), dx: make([]float64, in),
	}
	// Uniform with the variance that preserves activations' size through rectifiers (He et al.,
	// 2015).
	limit := math.Sqrt(6 / float64(in))
	for i := range d.w {
		d.w[i] = float64((float64(2*src.Float64()) - 1) * limit)
	}
	return d
}

// forward implements stage.
func (d *dense) forward(x []float64) []float64 {
	d.x = x
	for o := range d.y {
		acc := d.b[o]
		for i, w := range d.w[o*d.in : (o+1)*d.in] {
			acc += float64(w * x[i])
		}
		if d.relu && acc < 0 {
			acc = 0
		}
		d.y[o] = acc
	}
	return d.y
}

// derive implements stage.
func (d *dense) derive(dy []float64) []float64 {
	clear(d.dx)
	for o, g := range dy {
		if d.relu && d.y[o] <= 0 || g == 0 {
			continue
		}
		d.gb[o] += g
		row, grow := d.w[o*d.in:(o+1)*d.in], d.gw[o*d.in:(o+1)*d.in]
		for i, x := range d.x {
			grow[i] += float64(g * x)
			d.dx[i] += float64(g * row[i])
		}
	}
	return d.dx
}

// step implements stage: it moves the parameters against the batch's mean gradient, with momentum
// and weight decay, and clears it.
func (d *dense) step(o *options, rate float64, batch int) {
	update := func(p, g, v []float64, decay float64) {
		for i := range p {
			grad := float64(g[i]/float64(batch)) + float64(decay*p[i])
			v[i] = float64(o.momentum*v[i]) - float64(rate*grad)
			p[i] += v[i]
			g[i] = 0
		}
	}
	update(d.w, d.gw, d.vw, o.decay)
	update(d.b, d.gb, d.vb, 0)
}

// model is a whole network in float64.
type model struct {
	stages []stage
	loss   []float64 // derivatives by the scores
}

// newModel returns a network of dense layers.
func newModel(src *rng.Source, sizes ...int) *model {
	m := &model{loss: make([]float64, sizes[len(sizes)-1])}
	for i := range len(sizes) - 1 {
		m.stages = append(m.stages, newDense(sizes[i], sizes[i+1], i < len(sizes)-2, src))
	}
	return m
}

func (m *model) forward(x []float64) []float64 {
	for _, s := range m.stages {
		x = s.forward(x)
	}
	return x
}

// learn adds the gradients of one sample under softmax and cross entropy.
func (m *model) learn(x []float64, label uint8) {
	softmax(m.loss, m.forward(x))
	m.loss[label]--
	dy := m.loss
	for _, s := range slices.Backward(m.stages) {
		dy = s.derive(dy)
	}
}

// dense returns the weights of a layer, or nil if it has none.
func (m *model) dense(i int) *dense {
	switch s := m.stages[i].(type) {
	case *convolution:
		return &s.dense
	case *dense:
		return s
	}
	return nil
}

// softmax writes the probabilities of scores to dst.
func softmax(dst, scores []float64) {
	top := scores[0]
	for _, s := range scores {
		top = max(top, s)
	}
	sum := 0.0
	for i, s := range scores {
		dst[i] = exp(s - top)
		sum += dst[i]
	}
	for i := range dst {
		dst[i] /= sum
	}
}

// exp is e to the power of x for x <= 0, within a few units in the last place. The standard
// library's differs between architectures.
func exp(x float64) float64 {
	if x < -700 {
		return 0
	}
	k := math.Floor(float64(x*math.Log2E) + 0.5)
	r := x - float64(k*math.Ln2)
	sum := 1.0
	for n := 14; n >= 1; n-- { // Horner's scheme of the power series; |r| < 0.35
		sum = 1 + float64(sum*r)/float64(n)
	}
	return math.Ldexp(sum, int(k))
}
