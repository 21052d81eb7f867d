package main

import (
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/internal/rng"
)

// stage is a layer of a network in float64.
type stage interface {
	forward(x []float64) []float64
	// derive takes the loss's derivatives by the output, adds to the gradients, and returns the
	// derivatives by the input.
	derive(dy []float64) []float64
	step(o *options, rate float64, batch int)
}

// convolution is a dense layer on the elements under a window, at each position. Weights are out
// rows of the window's rows, columns and channels.
type convolution struct {
	dense
	under    [][]int // of each position, the image's elements under the window; -1 outside
	channels int
}

// window returns, for each position of a layer's window, the elements under it.
func window(l *convnet.Layer) [][]int {
	var all [][]int
	for y := range l.OutHeight() {
		for x := range l.OutWidth() {
			var at []int
			for ky := range l.Kernel {
				for kx := range l.Kernel {
					i, k := y*l.Stride-l.Padding+ky, x*l.Stride-l.Padding+kx
					for c := range l.In {
						if i < 0 || i >= l.Height || k < 0 || k >= l.Width {
							at = append(at, -1)
						} else {
							at = append(at, (i*l.Width+k)*l.In+c)
						}
					}
				}
			}
			all = append(all, at)
		}
	}
	return all
}

func newConvolution(l *convnet.Layer, src *rng.Source) *convolution {
	c := &convolution{dense: *newDense(l.Kernel*l.Kernel*l.In, l.Out, l.ReLU, src), under: window(l), channels: l.In}
	c.y, c.dx = make([]float64, len(c.under)*l.Out), make([]float64, l.Height*l.Width*l.In)
	return c
}

// forward implements stage.
func (c *convolution) forward(x []float64) []float64 {
	c.x = x
	at := make([]float64, c.in)
	for p, under := range c.under {
		for i, k := range under {
			if at[i] = 0; k >= 0 {
				at[i] = x[k]
			}
		}
		for o := range c.out {
			acc := c.b[o]
			for i, w := range c.w[o*c.in : (o+1)*c.in] {
				acc += float64(w * at[i])
			}
			if c.relu && acc < 0 {
				acc = 0
			}
			c.y[p*c.out+o] = acc
		}
	}
	return c.y
}

// derive implements stage.
func (c *convolution) derive(dy []float64) []float64 {
	clear(c.dx)
	for p, under := range c.under {
		for o := range c.out {
			g := dy[p*c.out+o]
			if c.relu && c.y[p*c.out+o] <= 0 || g == 0 {
				continue
			}
			c.gb[o] += g
			row, grow := c.w[o*c.in:(o+1)*c.in], c.gw[o*c.in:(o+1)*c.in]
			for i, k := range under {
				if k >= 0 {
					grow[i] += float64(g * c.x[k])
					c.dx[k] += float64(g * row[i])
				}
			}
		}
	}
	return c.dx
}

// pool takes the largest element of each channel under a window.
type pool struct {
	under    [][]int
	channels int
	y, dx    []float64
	from     []int // input of each output
}

func newPool(l *convnet.Layer) *pool {
	p := &pool{under: window(l), channels: l.In}
	p.y, p.from, p.dx = make([]float64, len(p.under)*l.In), make([]int, len(p.under)*l.In), make([]float64, l.Height*l.Width*l.In)
	return p
}

// forward implements stage.
func (p *pool) forward(x []float64) []float64 {
	for i, under := range p.under {
		for c := range p.channels {
			most := under[c]
			for k := c; k < len(under); k += p.channels {
				if x[under[k]] > x[most] {
					most = under[k]
				}
			}
			p.from[i*p.channels+c], p.y[i*p.channels+c] = most, x[most]
		}
	}
	return p.y
}

// derive implements stage.
func (p *pool) derive(dy []float64) []float64 {
	clear(p.dx)
	for i, g := range dy {
		p.dx[p.from[i]] += g
	}
	return p.dx
}

// step implements stage: there is nothing to learn.
func (p *pool) step(*options, float64, int) {}

// newConvModel returns the network of package convnet in float64.
func newConvModel(src *rng.Source) *model {
	var stages []stage
	layers := convnet.Architecture()
	for i := range layers {
		switch l := &layers[i]; l.Kind {
		case convnet.Conv:
			stages = append(stages, newConvolution(l, src))
		case convnet.Pool:
			stages = append(stages, newPool(l))
		default:
			stages = append(stages, newDense(l.In, l.Out, l.ReLU, src))
		}
	}
	return &model{stages, make([]float64, layers[len(layers)-1].Out)}
}

// bfloat rounds the convolutional model to bfloat16.
func (m *model) bfloat() (*convnet.Network, error) {
	weights := map[string][]float64{}
	for i, l := range convnet.Architecture() {
		d := m.dense(i)
		if d == nil {
			continue
		}
		// Channels of a window are innermost here and outermost in the file. A linear layer is
		// transposed.
		w := make([]float64, len(d.w))
		for o := range d.out {
			for k := range d.in {
				at := o*d.in + k%l.In*(l.Kernel*l.Kernel) + k/l.In
				if l.Kind == convnet.Linear {
					at = k*d.out + o
				}
				w[at] = d.w[o*d.in+k]
			}
		}
		weights[l.Name+".weight"], weights[l.Name+".bias"] = w, d.b
	}
	return convnet.New(weights)
}
