package operations

import (
	"context"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/ops"
)

func attentionCases(cs *table) {
	cs.add(func(t *opsRun) { splitHeads(t, ops.BFloat16, 4, 2, 64) }, "split heads")
	cs.add(func(t *opsRun) { splitHeads(t, ops.UInt32, 3, 3, 32) }, "split heads uint32")
	cs.add(decodeTrace, "decode with one trace")
	for _, dt := range floats {
		cs.add(func(t *opsRun) { rotary(t, dt, ops.AllRows) }, "rotary embedding %s", dt)
		cs.add(func(t *opsRun) { rotary(t, dt, 37) }, "rotary embedding at a position %s", dt)
	}
	for _, dt := range []ops.DataType{ops.UInt8, ops.BFloat16, ops.Float32} {
		cs.add(func(t *opsRun) { updateCache(t, dt) }, "update cache %s", dt)
		cs.add(func(t *opsRun) { fillCache(t, dt) }, "fill cache %s", dt)
	}
	for _, c := range []opsAttention{
		{dt: ops.BFloat16, q: index{1, 1, 32, 32}, k: index{1, 1, 32, 32}},
		{dt: ops.BFloat16, q: index{1, 2, 70, 64}, k: index{1, 1, 70, 64}, causal: true},
		{dt: ops.BFloat16, q: index{2, 2, 33, 64}, k: index{2, 2, 100, 64}, mask: true},
		{dt: ops.Float32, q: index{1, 2, 40, 40}, k: index{1, 2, 40, 40}, causal: true, mask: true},
		{dt: ops.BFloat16, q: index{2, 4, 1, 64}, k: index{2, 2, 96, 64}, causal: true, position: 40},
		{dt: ops.Float32, q: index{1, 2, 5, 64}, k: index{1, 1, 128, 64}, causal: true, position: 61},
		{dt: ops.BFloat16, q: index{1, 1, 33, 64}, k: index{1, 1, 300, 64}, causal: true, position: 262},
	} {
		cs.add(func(t *opsRun) { attention(t, c) }, "%s", c.name())
	}
}

func splitHeads(t *opsRun, dt ops.DataType, heads, kv, width int) {
	x := t.numbers(index{2, 1, 40, (heads + 2*kv) * width}, dt)
	h, err := t.d.SplitHeads(t.Ctx, t.tiles(x, dt), heads, kv)
	t.OK(err)
	first := 0
	for _, part := range []struct {
		t T
		n int
	}{{h.Q, heads}, {h.K, kv}, {h.V, kv}} {
		t.made = append(t.made, part.t)
		t.exactly(part.t, makeArray(index{2, part.n, 40, width},
			func(i index) float64 { return x.at(index{i[0], 0, i[2], (first+i[1])*width + i[3]}) }))
		first += part.n
	}
	together := t.run(D.ConcatHeads, h.Q)
	t.exactly(together, makeArray(index{2, 1, 40, heads * width}, x.at))
}

func (t *opsRun) angles(positions, width int, dt ops.DataType) (cos, sin array) {
	of := func(f func(float64) float64) array {
		return makeArray(index{1, 1, positions, width}, func(i index) float64 {
			v := f(float64(i[2]) * math.Pow(10000, -float64(i[3]%(width/2))/float64(width/2)))
			if dt == ops.BFloat16 {
				return cutBF16(v)
			}
			return float64(float32(v))
		})
	}
	return of(math.Cos), of(math.Sin)
}

func rotary(t *opsRun, dt ops.DataType, position int) {
	x, tx := t.random(index{2, 2, 40, 64}, dt)
	cos, sin := t.angles(50, 64, dt)
	tc, ts := t.tiles(cos, dt), t.tiles(sin, dt)
	got := t.run(D.RotaryEmbedding, tx, tc, ts, position)
	want := makeArray(x.dims, func(i index) float64 {
		j, angle := i, index{0, 0, i[2], i[3]}
		j[3] = (i[3] + 32) % 64
		if position != ops.AllRows {
			angle[2] = position
		}
		other := x.at(j)
		if i[3] < 32 {
			other = -other
		}
		return x.at(i)*cos.at(angle) + other*sin.at(angle)
	})
	t.rounded(got, want, dt, 1./(1<<20))
}

func updateCache(t *opsRun, dt ops.DataType) {
	want, cache := t.random(index{2, 2, 70, 64}, dt)
	for _, at := range []int{0, 15, 16, 47, 69} {
		row := t.numbers(index{2, 2, 1, 64}, dt)
		t.OK(t.d.UpdateCache(t.Ctx, cache, t.tiles(row, dt), at))
		want.fill(row, func(i index) index { return index{i[0], i[1], at, i[3]} })
	}
	t.exactly(cache, want)
}

func fillCache(t *opsRun, dt ops.DataType) {
	want, rows := t.numbers(index{3, 2, 70, 40}, dt), t.numbers(index{1, 2, 45, 40}, dt)
	cache := t.tiles(want, dt)
	t.OK(t.d.FillCache(t.Ctx, cache, t.tiles(rows, dt), 1))
	want.fill(rows, func(i index) index { return index{1, i[1], i[2], i[3]} })
	t.exactly(cache, want)
}

type opsAttention struct {
	dt           ops.DataType
	q, k         index
	causal, mask bool
	position     int
}

func (c *opsAttention) name() string {
	s := fmt.Sprintf("attention %s %s to %s", short[c.dt], c.q, c.k)
	if c.causal {
		s += fmt.Sprintf(" from position %d", c.position)
	}
	if c.mask {
		s += " with a mask"
	}
	return s
}

func (c *opsAttention) exact(q, k, v, mask array) array {
	out := zeros(c.q[0], c.q[1], c.q[2], v.dims[3])
	group := c.q[1] / c.k[1]
	makeArray(index{c.q[0], c.q[1], c.q[2], 1}, func(i index) float64 {
		keys, sum := c.k[2], 0.
		if c.causal {
			keys = c.position + i[2] + 1
		}
		query, p := q.row(i), make([]float64, keys)
		for j := range p {
			key := k.row(index{i[0], i[1] / group, j, 0})
			score := total(len(key), func(d int) float64 { return query[d] * key[d] }) / math.Sqrt(float64(c.q[3]))
			if c.mask {
				score += mask.at(index{i[0], i[1], i[2], j})
			}
			p[j] = math.Exp(score)
			sum += p[j]
		}
		for w := range v.dims[3] {
			s := total(keys, func(j int) float64 { return p[j] * v.at(index{i[0], i[1] / group, j, w}) })
			out.set(index{i[0], i[1], i[2], w}, s/sum)
		}
		return 0
	})
	return out
}

func attention(t *opsRun, c opsAttention) {
	q, tq := t.random(c.q, c.dt)
	k, tk := t.random(c.k, c.dt)
	v, tv := t.random(c.k, c.dt)
	a, mask := ops.Attention{Causal: c.causal}, array{}
	if c.mask {
		mask, a.Mask = t.random(index{1, c.q[1], c.q[2], c.k[2]}, c.dt)
	}
	var got T
	if c.position > 0 {
		got = t.run(D.ScaledDotProductAttentionDecode, tq, tk, tv, c.position, a)
	} else {
		got = t.run(D.ScaledDotProductAttention, tq, tk, tv, a)
	}
	want := c.exact(q, k, v, mask)
	t.near(got, want, func(i index) float64 { return math.Abs(want.at(i))/(1<<8) + 1./(1<<7) })
}

// decodeTrace decodes a sequence with one trace: the result is the prefill's, bit for bit.
func decodeTrace(t *opsRun) {
	const dt, rows = ops.BFloat16, 35
	x := t.numbers(index{1, 1, rows, 64}, dt)
	keys, values := t.tiles(zeros(1, 1, 64, 64), dt), t.tiles(zeros(1, 1, 64, 64), dt)
	row := func(h int) array {
		return makeArray(index{1, 1, 1, 64}, func(i index) float64 { return x.at(index{0, 0, h, i[3]}) })
	}
	in := t.tiles(row(0), dt)
	at := ops.WithParam("position")
	out := t.result(t.d.ScaledDotProductAttentionDecode(t.Ctx, in, keys, values, 0, ops.Attention{}, at))
	step := func(ctx context.Context) error {
		for _, cache := range []T{keys, values} {
			if err := t.d.UpdateCache(ctx, cache, in, 0, at); err != nil {
				return err
			}
		}
		_, err := t.d.ScaledDotProductAttentionDecode(ctx, in, keys, values, 0, ops.Attention{}, at, ops.Into(out))
		return err
	}
	t.OK(step(t.Ctx))
	trace, err := t.d.Capture(t.Ctx, "decode", step)
	t.OK(err)
	var got []float64
	for h := range rows {
		t.OK(t.d.CopyHostToDevice(t.Ctx, t.host(row(h), dt), in))
		t.OK(trace.Set("position", uint32(h)))
		t.Replay(trace)
		got = append(got, t.values(out)...)
	}
	t.Release(trace)
	all := t.tiles(x, dt)
	prefill := t.result(t.d.ScaledDotProductAttention(t.Ctx, all, all, all, ops.Attention{Causal: true}))
	t.exactly(prefill, array{x.dims, got})
}

func rowCases(cs *table) {
	for _, c := range []struct {
		from, to ops.DataType
		a, b     index
	}{
		{ops.BFloat16, ops.BFloat16, index{1, 1, 32, 32}, index{1, 1, 32, 32}},
		{ops.BFloat16, ops.BFloat16, index{1, 1, 96, 128}, index{1, 1, 128, 200}},
		{ops.BFloat16, ops.Float32, index{1, 2, 40, 70}, index{1, 1, 70, 33}},
		{ops.BFloat16, ops.BFloat16, index{2, 1, 5, 300}, index{1, 3, 300, 7}},
		{ops.BFloat16, ops.BFloat16, index{2, 2, 33, 64}, index{2, 2, 64, 40}},
		{ops.Float32, ops.Float32, index{1, 1, 64, 100}, index{1, 1, 100, 40}},
	} {
		cs.add(func(t *opsRun) { product(t, c.from, c.to, c.a, c.b) },
			"matmul %s to %s %s times %s", c.from, c.to, c.a, c.b)
	}
	for _, activation := range []ops.Activation{"", ops.ReLU, ops.GELU, ops.SiLU} {
		name := "linear with a bias"
		if activation != "" {
			name += " and " + string(activation)
		}
		cs.add(func(t *opsRun) { linear(t, activation) }, "%s", name)
	}
	for _, dt := range floats {
		for _, rows := range []bool{false, true} {
			for _, op := range []string{"sum", "mean", "max"} {
				along := "columns"
				if rows {
					along = "rows"
				}
				cs.add(func(t *opsRun) { reduction(t, op, rows, dt) }, "%s of %s %s", op, along, dt)
			}
		}
		cs.add(func(t *opsRun) { softmax(t, dt, false) }, "softmax %s", dt)
		cs.add(func(t *opsRun) { softmax(t, dt, true) }, "softmax %s with a mask", dt)
		cs.add(func(t *opsRun) { norm(t, dt, true) }, "layer norm %s", dt)
		cs.add(func(t *opsRun) { norm(t, dt, false) }, "rms norm %s", dt)
		cs.add(func(t *opsRun) { argmax(t, dt) }, "argmax %s", dt)
	}
	cs.add(func(t *opsRun) { argmax(t, ops.UInt16) }, "argmax uint16")
}

func exactProduct(x, y array) (sums, sizes array) {
	dims := index{max(x.dims[0], y.dims[0]), max(x.dims[1], y.dims[1]), x.dims[2], y.dims[3]}
	sum := func(of func(float64) float64) array {
		return makeArray(dims, func(i index) float64 {
			return total(x.dims[3], func(k int) float64 {
				return of(x.at(index{i[0], i[1], i[2], k}) * y.at(index{i[0], i[1], k, i[3]}))
			})
		})
	}
	return sum(func(v float64) float64 { return v }), sum(math.Abs)
}

func productError(from, to ops.DataType, sum, size float64) float64 {
	e := size / (1 << 11)
	if from == ops.Float32 {
		e += size / (1 << 10)
	}
	if to == ops.BFloat16 {
		e += math.Abs(sum) / (1 << 8)
	}
	return e
}

func product(t *opsRun, from, to ops.DataType, a, b index) {
	x, tx := t.random(a, from)
	y, ty := t.random(b, from)
	got := t.run(D.Matmul, tx, ty, ops.WithDataType(to))
	sums, sizes := exactProduct(x, y)
	t.near(got, sums, func(i index) float64 { return productError(from, to, sums.at(i), sizes.at(i)) })
}

func linear(t *opsRun, activation ops.Activation) {
	x, tx := t.random(index{1, 1, 40, 70}, ops.BFloat16)
	y, ty := t.random(index{1, 1, 70, 90}, ops.BFloat16)
	bias, tb := t.random(index{1, 1, 1, 90}, ops.BFloat16)
	got := t.run(D.Linear, tx, ty, tb, ops.WithActivation(activation))
	sums, sizes := exactProduct(x, y)
	want := makeArray(sums.dims, func(i index) float64 {
		v := sums.at(i) + bias.at(i)
		for _, f := range functions {
			if f.name == string(activation) {
				return f.exact(v)
			}
		}
		return v
	})
	t.near(got, want, func(i index) float64 {
		return 1.2*productError(ops.BFloat16, ops.Float32, 0, sizes.at(i)+math.Abs(bias.at(i))) + math.Abs(want.at(i))/(1<<8)
	})
}

func reduction(t *opsRun, op string, rows bool, dt ops.DataType) {
	x, tx := t.random(index{1, 2, 45, 70}, dt)
	device, dim := map[string]any{"sum": D.Sum, "mean": D.Mean, "max": D.Max}[op], 3
	if rows {
		dim = 2
	}
	got := t.run(device, tx, dim)
	dims := x.dims
	n := dims[dim]
	dims[dim] = 1
	each := func(i index, f func(v float64)) {
		for k := range n {
			i[dim] = k
			f(x.at(i))
		}
	}
	sizes := makeArray(dims, func(i index) float64 {
		s := 0.
		each(i, func(v float64) { s += math.Abs(v) })
		return s
	})
	want := makeArray(dims, func(i index) float64 {
		s, most := 0., math.Inf(-1)
		each(i, func(v float64) { s, most = s+v, max(most, v) })
		switch op {
		case "max":
			return most
		case "mean":
			return s / float64(n)
		}
		return s
	})
	t.near(got, want, func(i index) float64 {
		v := math.Abs(want.at(i))
		size := sizes.at(i)
		switch op {
		case "max": // of fp32 elements 11 bits are taken
			return v / (1 << 10)
		case "mean":
			size /= float64(n)
			v += size // the factor is rounded
		}
		e := size/(1<<11) + v/(1<<8)
		if dt == ops.Float32 {
			e = (size + v) / (1 << 10)
		}
		return e
	})
}

func softmax(t *opsRun, dt ops.DataType, masked bool) {
	x, tx := t.random(index{1, 2, 33, 70}, dt)
	mask, scale := array{}, float32(1)
	var got T
	if masked {
		scale = 0.125
		mask = makeArray(index{1, 1, 33, 70}, func(i index) float64 {
			if i[3] > i[2] {
				return math.Inf(-1)
			}
			return 0
		})
		got = t.run(D.ScaleMaskSoftmax, tx, t.tiles(mask, dt), scale)
	} else {
		got = t.run(D.Softmax, tx, -1)
	}
	e := func(i index) float64 {
		v := x.at(i) * float64(scale)
		if masked {
			v += mask.at(i)
		}
		return math.Exp(v)
	}
	sums := makeArray(index{1, 2, 33, 1}, func(i index) float64 {
		return total(70, func(w int) float64 {
			i[3] = w
			return e(i)
		})
	})
	want := makeArray(x.dims, func(i index) float64 { return e(i) / sums.at(i) })
	t.rounded(got, want, dt, 1./(1<<30))
}

func norm(t *opsRun, dt ops.DataType, layer bool) {
	const eps float32 = 1e-5
	x, tx := t.random(index{1, 2, 33, 70}, dt)
	gamma, tg := t.random(index{1, 1, 1, 70}, dt)
	beta, tb := t.random(index{1, 1, 1, 70}, dt)
	var got T
	if layer {
		got = t.run(D.LayerNorm, tx, tg, tb, eps)
	} else {
		got = t.run(D.RMSNorm, tx, tg, eps)
	}
	want := makeArray(x.dims, func(i index) float64 {
		row := x.row(i)
		mean, square := 0., 0.
		for _, v := range row {
			mean += v / float64(len(row))
		}
		if !layer {
			mean = 0
		}
		for _, v := range row {
			square += (v - mean) * (v - mean) / float64(len(row))
		}
		y := (x.at(i) - mean) / math.Sqrt(square+float64(eps)) * gamma.at(i)
		if layer {
			y += beta.at(i)
		}
		return y
	})
	t.near(got, want, func(i index) float64 {
		e := rounding(dt)*math.Abs(want.at(i)) + math.Abs(gamma.at(i))/(1<<17)
		if layer {
			e += math.Abs(beta.at(i)) / (1 << 17)
		}
		return e
	})
}

func argmax(t *opsRun, dt ops.DataType) {
	x, tx := t.random(index{2, 1, 5, 90}, dt)
	got := t.run(D.ArgMax, tx, true)
	t.exactly(got, makeArray(index{2, 1, 5, 1}, func(i index) float64 {
		best, row := 0, x.row(i)
		for w, v := range row {
			if v > row[best] {
				best = w
			}
		}
		return float64(best)
	}))
}
