package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/ops"
)

type reference struct {
	w            map[string]*plain
	keys, values [][]float64
}

func newReference(w weights) *reference {
	r := &reference{w: map[string]*plain{}}
	for name, h := range w {
		v := ops.Values[float32](h)
		r.w[name] = make4([4]int{1, 1, h.Shape[0], h.Shape[1]}, ops.BFloat16,
			func(_, _, row, column int) float64 { return float64(v[row*h.Shape[1]+column]) })
	}
	return r
}

func (r *reference) linear(x []float64, name string) []float64 {
	m := r.w[name]
	out := make([]float64, m.dims[3])
	for i, v := range x {
		for k := range out {
			out[k] += v * m.at(0, 0, i, k)
		}
	}
	return out
}

func rmsNorm(x []float64) []float64 {
	sum, out := 0., make([]float64, len(x))
	for _, v := range x {
		sum += v * v
	}
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))+1e-5)
	}
	return out
}

func (r *reference) turn(x []float64, at int) []float64 {
	p := &plain{[4]int{1, 1, 1, headWidth}, ops.BFloat16, x}
	return rotate(p, r.w["cos"], r.w["sin"], func(int) int { return at }).v
}

func (r *reference) attend(x []float64, at int) []float64 {
	qkv := r.linear(x, "qkv")
	head := func(i int) []float64 { return qkv[i*headWidth : (i+1)*headWidth] }
	r.keys, r.values = append(r.keys, r.turn(head(heads), at)), append(r.values, head(heads+kvHeads))
	var out []float64
	for h := range heads {
		q := r.turn(head(h), at)
		sum, row := 0., make([]float64, headWidth)
		for i, k := range r.keys {
			score := 0.
			for d := range q {
				score += q[d] * k[d]
			}
			p := math.Exp(score / math.Sqrt(headWidth))
			sum += p
			for d, v := range r.values[i] {
				row[d] += p * v
			}
		}
		for d := range row {
			out = append(out, row[d]/sum)
		}
	}
	return out
}

func (r *reference) step(x []float64, at int) []float64 {
	sum := func(a, b []float64) []float64 {
		out := make([]float64, len(a))
		for i := range a {
			out[i] = a[i] + b[i]
		}
		return out
	}
	x = sum(x, r.linear(r.attend(rmsNorm(x), at), "project"))
	h := rmsNorm(x)
	gate, up := r.linear(h, "gate"), r.linear(h, "up")
	for i, g := range gate {
		up[i] *= g / (1 + math.Exp(-g))
	}
	return sum(x, r.linear(up, "down"))
}

func TestTransformerBlock(t *testing.T) {
	effort.Long(t)
	onBackends(t, func(b *bench) {
		w := randomWeights(7)
		model, err := newBlock(b.ctx, b.Device, w)
		b.must(err)
		trace, out, err := model.capture(b.ctx)
		b.must(err)
		exact := newReference(w)
		for at := range 5 {
			x := normal([4]int{1, 1, 1, width}, ops.BFloat16, uint64(at))
			v := make([]float32, width)
			for i := range v {
				v[i] = float32(x.v[i])
			}
			h, err := ops.NewHost(x.dims[:], ops.BFloat16, v)
			b.must(err)
			b.must(b.CopyHostToDevice(b.ctx, h, model.in))
			b.must(trace.Set("position", uint32(at)))
			b.must(trace.Replay(b.ctx))
			got := b.get(out)
			what := fmt.Sprintf("block at position %d", at)
			b.everywhere(what, got)
			b.within(what, got, &plain{x.dims, ops.BFloat16, exact.step(x.v, at)}, 0, math.Exp2(-5))
		}
		b.must(trace.Release(b.ctx))
	})
}
