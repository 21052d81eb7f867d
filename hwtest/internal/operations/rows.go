package operations

import (
	"context"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/ops"
)

func rowCases() []opsCase {
	var cs []opsCase
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
		name := fmt.Sprintf("matmul %s to %s %s times %s", typeName(c.from), typeName(c.to), dimsName(c.a), dimsName(c.b))
		cs = append(cs, opsCase{name, func(t *opsRun) { product(t, c.from, c.to, c.a, c.b) }})
	}
	for _, activation := range []ops.Activation{"", ops.ReLU, ops.GELU, ops.SiLU} {
		name := "linear with a bias"
		if activation != "" {
			name += " and " + string(activation)
		}
		cs = append(cs, opsCase{name, func(t *opsRun) { linear(t, activation) }})
	}
	for _, dt := range []ops.DataType{ops.BFloat16, ops.Float32} {
		for _, rows := range []bool{false, true} {
			for _, op := range []string{"sum", "mean", "max"} {
				along := "columns"
				if rows {
					along = "rows"
				}
				cs = append(cs, opsCase{fmt.Sprintf("%s of %s %s", op, along, typeName(dt)), func(t *opsRun) { reduction(t, op, rows, dt) }})
			}
		}
		cs = append(cs,
			opsCase{"softmax " + typeName(dt), func(t *opsRun) { softmax(t, dt, false) }},
			opsCase{"softmax " + typeName(dt) + " with a mask", func(t *opsRun) { softmax(t, dt, true) }},
			opsCase{"layer norm " + typeName(dt), func(t *opsRun) { norm(t, dt, true) }},
			opsCase{"rms norm " + typeName(dt), func(t *opsRun) { norm(t, dt, false) }},
			opsCase{"argmax " + typeName(dt), func(t *opsRun) { argmax(t, dt) }},
		)
	}
	return append(cs, opsCase{"argmax uint16", func(t *opsRun) { argmax(t, ops.UInt16) }})
}

// exactProduct returns a product of matrices, and the sums of the absolute values of its terms.
func exactProduct(x, y array) (sums, sizes array) {
	dims := index{max(x.dims[0], y.dims[0]), max(x.dims[1], y.dims[1]), x.dims[2], y.dims[3]}
	sizes = makeArray(dims, func(i index) float64 {
		s := 0.
		for k := range x.dims[3] {
			s += math.Abs(x.at(index{i[0], i[1], i[2], k}) * y.at(index{i[0], i[1], k, i[3]}))
		}
		return s
	})
	return makeArray(dims, func(i index) float64 {
		s := 0.
		for k := range x.dims[3] {
			s += x.at(index{i[0], i[1], i[2], k}) * y.at(index{i[0], i[1], k, i[3]})
		}
		return s
	}), sizes
}

// productError is what the documentation of Matmul says.
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
	x, y := t.numbers(a, from), t.numbers(b, from)
	tx, ty := t.tiles(x, from), t.tiles(y, from)
	got := t.run(func(c call) (*ops.Tensor, error) {
		return t.d.Matmul(c.ctx, tx, ty, append(c.opts, ops.WithDataType(to))...)
	})
	sums, sizes := exactProduct(x, y)
	t.near(got, sums, func(i index) float64 { return productError(from, to, sums.at(i), sizes.at(i)) })
}

func linear(t *opsRun, activation ops.Activation) {
	x, y, bias := t.numbers(index{1, 1, 40, 70}, ops.BFloat16), t.numbers(index{1, 1, 70, 90}, ops.BFloat16),
		t.numbers(index{1, 1, 1, 90}, ops.BFloat16)
	tx, ty, tb := t.tiles(x, ops.BFloat16), t.tiles(y, ops.BFloat16), t.tiles(bias, ops.BFloat16)
	got := t.run(func(c call) (*ops.Tensor, error) {
		return t.d.Linear(c.ctx, tx, ty, tb, append(c.opts, ops.WithActivation(activation))...)
	})
	sums, sizes := exactProduct(x, y)
	want := makeArray(sums.dims, func(i index) float64 {
		v := sums.at(i) + bias.at(i)
		for _, f := range functions() {
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
	x := t.numbers(index{1, 2, 45, 70}, dt)
	tx := t.tiles(x, dt)
	device, dim := map[string]func(*ops.Device, context.Context, *ops.Tensor, int, ...ops.OpOption) (*ops.Tensor, error){
		"sum": (*ops.Device).Sum, "mean": (*ops.Device).Mean, "max": (*ops.Device).Max,
	}[op], 3
	if rows {
		dim = 2
	}
	got := t.run(func(c call) (*ops.Tensor, error) {
		return device(t.d, c.ctx, tx, dim, c.opts...)
	})
	dims, sizes := x.dims, array{}
	n := dims[dim]
	dims[dim] = 1
	each := func(i index, f func(v float64)) {
		for k := range n {
			i[dim] = k
			f(x.at(i))
		}
	}
	sizes = makeArray(dims, func(i index) float64 {
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
	x := t.numbers(index{1, 2, 33, 70}, dt)
	tx := t.tiles(x, dt)
	mask, scale := array{}, float32(1)
	var tm *ops.Tensor
	if masked {
		scale = 0.125
		mask = makeArray(index{1, 1, 33, 70}, func(i index) float64 {
			if i[3] > i[2] {
				return math.Inf(-1)
			}
			return 0
		})
		tm = t.tiles(mask, dt)
	}
	got := t.run(func(c call) (*ops.Tensor, error) {
		if masked {
			return t.d.ScaleMaskSoftmax(c.ctx, tx, tm, scale, c.opts...)
		}
		return t.d.Softmax(c.ctx, tx, -1, c.opts...)
	})
	e := func(i index) float64 {
		v := x.at(i) * float64(scale)
		if masked {
			v += mask.at(i)
		}
		return math.Exp(v)
	}
	sums := makeArray(index{1, 2, 33, 1}, func(i index) float64 {
		s := 0.
		for w := range 70 {
			i[3] = w
			s += e(i)
		}
		return s
	})
	want := makeArray(x.dims, func(i index) float64 { return e(i) / sums.at(i) })
	t.near(got, want, func(i index) float64 { return rounding(dt)*want.at(i) + 1./(1<<30) })
}

func norm(t *opsRun, dt ops.DataType, layer bool) {
	const eps = 1e-5
	x, gamma, beta := t.numbers(index{1, 2, 33, 70}, dt), t.numbers(index{1, 1, 1, 70}, dt), t.numbers(index{1, 1, 1, 70}, dt)
	tx, tg, tb := t.tiles(x, dt), t.tiles(gamma, dt), t.tiles(beta, dt)
	got := t.run(func(c call) (*ops.Tensor, error) {
		if layer {
			return t.d.LayerNorm(c.ctx, tx, tg, tb, eps, c.opts...)
		}
		return t.d.RMSNorm(c.ctx, tx, tg, eps, c.opts...)
	})
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
		y := (x.at(i) - mean) / math.Sqrt(square+eps) * gamma.at(i)
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
	x := t.numbers(index{2, 1, 5, 90}, dt)
	tx := t.tiles(x, dt)
	got := t.run(func(c call) (*ops.Tensor, error) {
		return t.d.ArgMax(c.ctx, tx, true, c.opts...)
	})
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
