package main

import (
	"math"

	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/examples/words/transformer"
)

const (
	width  = transformer.Width
	heads  = transformer.Heads * transformer.HeadWidth
	hidden = transformer.Hidden
	slots  = transformer.Slots
)

// sample is one word: the tokens that the model reads, and the tokens to predict.
type sample struct{ reads, says []uint8 }

func newSample(word string) (sample, error) {
	letters, err := words.Encode(word)
	return sample{append([]uint8{words.End}, letters...), append(letters[:len(letters):len(letters)], words.End)}, err
}

// pass computes the loss and the gradients of samples. Its rows are the tokens of all samples, one
// after another. Results depend only on the samples, bit for bit.
type pass struct {
	m         *model
	gradients [][]float32 // of each tensor, summed over tokens
	loss      float64     // summed over tokens
	rows      int

	samples []sample
	acts    [transformer.Layers]activations
	x       []float32 // residual stream after the last layer
	h, r    []float32 // x normalised; the factors
	scores  []float32 // logits; probabilities

	dx, dh, dw, left, right []float32 // derivatives, and room for transposes
	da, dq, dk, dv          []float32
}

// activations are a layer's results for the way back.
type activations struct {
	x, h, r, q, k, v, p, a []float32 // input, normalised, factors, queries, keys, values, probabilities, attention
	y, g, s, u             []float32 // residual stream in between, normalised, factors, hidden
}

func newPass(m *model) *pass {
	p := &pass{m: m}
	for _, t := range m.tensors {
		p.gradients = append(p.gradients, make([]float32, len(t.w)))
	}
	return p
}

// room returns a slice of n elements, in the memory of another one if it is large enough.
func room(v []float32, n int) []float32 {
	if cap(v) < n {
		return make([]float32, n, n+n/4)
	}
	return v[:n]
}

func (p *pass) size(samples []sample) {
	p.samples, p.rows = samples, 0
	for _, s := range samples {
		p.rows += len(s.reads)
	}
	n := p.rows
	for i := range p.acts {
		a := &p.acts[i]
		for _, v := range []*[]float32{&a.x, &a.h, &a.y, &a.g} {
			*v = room(*v, n*width)
		}
		for _, v := range []*[]float32{&a.q, &a.k, &a.v, &a.a} {
			*v = room(*v, n*heads)
		}
		a.r, a.s, a.u, a.p = room(a.r, n), room(a.s, n), room(a.u, n*hidden), room(a.p, n*transformer.Heads*transformer.Positions)
	}
	p.x, p.h, p.r, p.scores = room(p.x, n*width), room(p.h, n*width), room(p.r, n), room(p.scores, n*slots)
	p.dx, p.dh, p.dw = room(p.dx, n*width), room(p.dh, n*hidden), room(p.dw, n*hidden)
	for _, v := range []*[]float32{&p.da, &p.dq, &p.dk, &p.dv} {
		*v = room(*v, n*heads)
	}
	p.left, p.right = room(p.left, n*hidden), room(p.right, n*hidden)
}

// forward computes the probabilities of all tokens, and adds to the loss.
func (p *pass) forward(samples []sample) {
	p.size(samples)
	n, m := p.rows, p.m
	table, row := m.tensors[m.embedding].w, 0
	for _, s := range samples {
		for at, token := range s.reads {
			to, a, b := p.acts[0].x[row*width:][:width], table[int(token)*width:][:width], table[(slots+at)*width:][:width]
			for i := range to {
				to[i] = a[i] + b[i]
			}
			row++
		}
	}
	for i := range p.acts {
		a, l := &p.acts[i], m.layers[i]
		next := p.x
		if i+1 < len(p.acts) {
			next = p.acts[i+1].x
		}
		normalise(a.h, a.r, a.x)
		multiply(a.q, a.h, m.tensors[l.query].t, n, heads, width, false)
		multiply(a.k, a.h, m.tensors[l.key].t, n, heads, width, false)
		multiply(a.v, a.h, m.tensors[l.value].t, n, heads, width, false)
		p.attend(a)
		copy(a.y, a.x)
		multiply(a.y, a.a, m.tensors[l.project].t, n, width, heads, true)
		normalise(a.g, a.s, a.y)
		multiply(a.u, a.g, m.tensors[l.up].t, n, hidden, width, false)
		for k, v := range a.u {
			a.u[k] = max(v, 0)
		}
		copy(next, a.y)
		multiply(next, a.u, m.tensors[l.down].t, n, width, hidden, true)
	}
	normalise(p.h, p.r, p.x)
	multiply(p.scores, p.h, m.tensors[m.logits].t, n, slots, width, false)
	row = 0
	for _, s := range samples {
		for _, token := range s.says {
			v := p.scores[row*slots:][:words.Tokens]
			softmax(v)
			p.loss -= math.Log(float64(v[token])) // only reported
			row++
		}
	}
}

func (p *pass) learn(samples []sample) {
	p.forward(samples)
	n, m, row := p.rows, p.m, 0
	for _, s := range samples {
		for _, token := range s.says {
			v := p.scores[row*slots:][:slots]
			v[token]--
			clear(v[words.Tokens:])
			row++
		}
	}
	dx, dh := p.dx, p.dh[:n*width]
	p.weights(m.logits, p.h, p.scores)
	multiply(dh, p.scores, m.tensors[m.logits].w, n, width, slots, false)
	clear(dx)
	normaliseBack(dx, dh, p.h, p.r)
	for i := len(p.acts) - 1; i >= 0; i-- {
		a, l := &p.acts[i], m.layers[i]
		p.weights(l.down, a.u, dx)
		du := p.dw[:n*hidden]
		multiply(du, dx, m.tensors[l.down].w, n, hidden, width, false)
		for k, v := range a.u {
			if v <= 0 {
				du[k] = 0
			}
		}
		p.weights(l.up, a.g, du)
		multiply(dh, du, m.tensors[l.up].w, n, width, hidden, false)
		normaliseBack(dx, dh, a.g, a.s)
		p.weights(l.project, a.a, dx)
		multiply(p.da, dx, m.tensors[l.project].w, n, heads, width, false)
		p.attendBack(a)
		p.weights(l.query, a.h, p.dq)
		p.weights(l.key, a.h, p.dk)
		p.weights(l.value, a.h, p.dv)
		multiply(dh, p.dq, m.tensors[l.query].w, n, width, heads, false)
		multiply(dh, p.dk, m.tensors[l.key].w, n, width, heads, true)
		multiply(dh, p.dv, m.tensors[l.value].w, n, width, heads, true)
		normaliseBack(dx, dh, a.h, a.r)
	}
	table, row := p.gradients[m.embedding], 0
	for _, s := range samples {
		for at, token := range s.reads {
			for i, v := range dx[row*width:][:width] {
				table[int(token)*width+i] += v
				table[(slots+at)*width+i] += v
			}
			row++
		}
	}
}

// weights adds the transpose of x times dy to a tensor's gradient.
func (p *pass) weights(number int, x, dy []float32) {
	t := p.m.tensors[number]
	left, right := p.left[:p.rows*t.rows], p.right[:p.rows*t.columns]
	transpose(left, x, p.rows, t.rows)
	transpose(right, dy, p.rows, t.columns)
	multiply(p.gradients[number], left, right, t.rows, t.columns, p.rows, true)
}

// normalise divides rows by the root of their mean square.
func normalise(h, r, x []float32) {
	for i := range r {
		in, out := x[i*width:][:width], h[i*width:][:width]
		sum := float32(0)
		for _, v := range in {
			sum += float32(v * v)
		}
		r[i] = float32(1 / math.Sqrt(float64(sum/width)+transformer.Epsilon))
		for k, v := range in {
			out[k] = float32(v * r[i])
		}
	}
}

// normaliseBack adds the derivatives by the input to dx; dh are those by the result h.
func normaliseBack(dx, dh, h, r []float32) {
	for i, f := range r {
		d, g, v := dx[i*width:][:width], dh[i*width:][:width], h[i*width:][:width]
		dot := float32(0)
		for k := range g {
			dot += float32(g[k] * v[k])
		}
		dot /= width
		for k := range g {
			d[k] += float32(f * (g[k] - float32(v[k]*dot)))
		}
	}
}

// scale is the factor of scores: one divided by the root of a head's width, a power of 4.
const scale = 1.0 / 4

// attend lets each token attend to those up to itself in its word.
func (p *pass) attend(a *activations) {
	p.each(func(head, from, row int, probabilities []float32) {
		q := a.q[row*heads+head:][:transformer.HeadWidth]
		for j := range probabilities {
			sum, k := float32(0), a.k[(from+j)*heads+head:][:len(q)]
			for i, v := range q {
				sum += float32(v * k[i])
			}
			probabilities[j] = sum * scale
		}
		softmax(probabilities)
		out := a.a[row*heads+head:][:transformer.HeadWidth]
		clear(out)
		for j, f := range probabilities {
			v := a.v[(from+j)*heads+head:][:len(out)]
			for i := range out {
				out[i] += float32(f * v[i])
			}
		}
	}, a)
}

// attendBack computes the derivatives by queries, keys and values from those by the result.
func (p *pass) attendBack(a *activations) {
	clear(p.dq)
	clear(p.dk)
	clear(p.dv)
	var ds [transformer.Positions]float32
	p.each(func(head, from, row int, probabilities []float32) {
		da := p.da[row*heads+head:][:transformer.HeadWidth]
		sum := float32(0)
		for j, f := range probabilities {
			at := (from+j)*heads + head
			v, dv, d := a.v[at:][:len(da)], p.dv[at:][:len(da)], float32(0)
			for i, g := range da {
				d += float32(g * v[i])
				dv[i] += float32(f * g)
			}
			ds[j] = d
			sum += float32(f * d)
		}
		q, dq := a.q[row*heads+head:][:len(da)], p.dq[row*heads+head:][:len(da)]
		for j, f := range probabilities {
			at := (from+j)*heads + head
			g := float32(float32(f*(ds[j]-sum)) * scale)
			k, dk := a.k[at:][:len(da)], p.dk[at:][:len(da)]
			for i := range dq {
				dq[i] += float32(g * k[i])
				dk[i] += float32(g * q[i])
			}
		}
	}, a)
}

// each calls f for each head of each row, with the head's column, the word's first row, and the
// probabilities of the rows from there to itself.
func (p *pass) each(f func(head, from, row int, probabilities []float32), a *activations) {
	from := 0
	for _, s := range p.samples {
		for at := range s.reads {
			for head := range transformer.Heads {
				row := from + at
				f(head*transformer.HeadWidth, from, row, a.p[(row*transformer.Heads+head)*transformer.Positions:][:at+1])
			}
		}
		from += len(s.reads)
	}
}
