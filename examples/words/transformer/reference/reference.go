// Package reference computes on the host, bit for bit, the tokens that the model of package
// transformer makes on a device, and their logits.
package reference

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/examples/internal/engine"
	"github.com/reprise-tt/reprise/examples/words/transformer"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// Model makes the tokens of a network as a chip does.
type Model struct {
	lanes
	state  transformer.State
	scores [transformer.Slots]bf16.Number

	embedding, logits engine.Weights
	layers            [transformer.Layers]layer
	most, ones        engine.Right // a one in row 0 of each face; ones
}

type layer struct {
	query, key, value, project, up, down engine.Weights
	keys, values                         [transformer.Heads]cache
}

// cache is a head's rows of keys or values, with numbers in the first HeadWidth columns.
type cache [transformer.Positions][transformer.HeadWidth]bf16.Number

// New returns a model before its first token. The error is one of transformer.Sampling.Start.
func New(a chip.Arch, n *transformer.Network, s transformer.Sampling) (*Model, error) {
	m := &Model{lanes: lanes{engine.New(a)}}
	var err error
	if m.state, err = s.Start(); err != nil {
		return nil, err
	}
	m.embedding, m.logits = m.weights(&n.Embedding), m.weights(&n.Logits)
	for i := range m.layers {
		from, to := &n.Layers[i], &m.layers[i]
		to.query, to.key = m.padded(&from.Query, false, true), m.padded(&from.Key, false, true)
		to.value = m.padded(&from.Value, false, true)
		to.project, to.up, to.down = m.padded(&from.Project, true, false), m.weights(&from.Up), m.weights(&from.Down)
	}
	pattern := func(one func(row int) bool) engine.Right {
		return m.Right(func(row, _ int) bf16.Number {
			if one(row) {
				return bf16.Round(1.0)
			}
			return 0
		})
	}
	m.most, m.ones = pattern(func(row int) bool { return row%engine.Face == 0 }), pattern(func(int) bool { return true })
	return m, nil
}

func (e lanes) weights(m *transformer.Matrix) engine.Weights { return e.padded(m, false, false) }

// padded returns the tiles of a matrix whose rows or columns are heads; each head begins a tile.
func (e lanes) padded(m *transformer.Matrix, rows, columns bool) engine.Weights {
	high, wide := m.Rows/engine.Side, m.Columns/engine.Side
	if rows {
		high = transformer.Heads
	}
	if columns {
		wide = transformer.Heads
	}
	place := func(i int, heads bool) (int, bool) {
		if !heads {
			return i, true
		}
		return i/engine.Side*transformer.HeadWidth + i%engine.Side, i%engine.Side < transformer.HeadWidth
	}
	return e.Weights(high, wide, func(row, column int) bf16.Number {
		y, inside := place(row, rows)
		x, within := place(column, columns)
		if !inside || !within {
			return 0
		}
		return m.Data[y*m.Columns+x]
	})
}

// Step makes a token, and returns whether there was one left to make.
func (m *Model) Step() bool {
	if m.state.Left == 0 {
		return false
	}
	input := make(engine.Row, 2)
	input[0][m.state.Token], input[1][m.state.Position] = bf16.Round(1.0), bf16.Round(1.0)
	x := m.Linear(input, m.embedding, false)
	for i := range m.layers {
		l := &m.layers[i]
		h := m.normalise(x)
		q, k, v := m.Linear(h, l.query, false), m.Linear(h, l.key, false), m.Linear(h, l.value, false)
		joined := make(engine.Row, transformer.Heads)
		for head := range joined {
			copy(l.keys[head][m.state.Position][:], k[head][:])
			copy(l.values[head][m.state.Position][:], v[head][:])
			joined[head] = m.attend(q[head], &l.keys[head], &l.values[head])
		}
		x = m.Linear(joined, l.project, false, m.Addend(x))
		hidden := m.Linear(m.normalise(x), l.up, true)
		x = m.Linear(hidden, l.down, false, m.Addend(x))
	}
	m.scores = m.Linear(m.normalise(x), m.logits, false)[0]
	m.sample()
	return true
}

// State returns the state after the last step.
func (m *Model) State() transformer.State { return m.state }

// Scores returns the logits of the last step.
func (m *Model) Scores() [transformer.Slots]bf16.Number { return m.scores }

// normalise returns x divided by the root of its mean square: ops/kernels/compute/norm.cpp.
func (m *Model) normalise(x engine.Row) engine.Row {
	var sum [engine.Side]uint32
	for _, t := range x {
		for i, v := range t {
			w := uint32(v) << 16
			sum[i] = m.mad(w, w, sum[i])
		}
	}
	// Lane i of eight has two columns of each face, one after another, then the sum of the lanes
	// before.
	var lanes [8]uint32
	for i := range lanes {
		lanes[i] = m.add(m.add(m.add(sum[2*i], sum[2*i+1]), sum[engine.Face+2*i]), sum[engine.Face+2*i+1])
	}
	for _, by := range []int{1, 2, 4} {
		before := lanes
		for i := range lanes {
			lanes[i] = m.add(before[i], before[(i+8-by)%8])
		}
	}
	share, epsilon := bits(1./transformer.Width), bits(transformer.Epsilon)
	for i, v := range lanes {
		lanes[i] = m.rsqrt(m.mad(v, share, epsilon))
	}
	out := make(engine.Row, len(x))
	for k, t := range x {
		var v [engine.Side]uint32
		for i := range v {
			v[i] = m.mul(uint32(t[i])<<16, lanes[i%engine.Face/2])
		}
		out[k] = engine.Round(v)
	}
	return out
}

// attend returns a query's attention to the caches up to the position:
// ops/kernels/compute/attention.cpp.
func (m *Model) attend(query [engine.Side]bf16.Number, keys, values *cache) [engine.Side]bf16.Number {
	q := m.Left(query)
	turned := m.Right(func(row, column int) bf16.Number {
		if row >= transformer.HeadWidth {
			return 0
		}
		return keys[column][row]
	})
	var s engine.Sums
	m.Multiply(&s, &q, &turned)
	scores := s.Numbers()
	for i, v := range scores {
		v = m.mul(v, bits(1./4))
		mask := uint32(0)
		if i > int(m.state.Position) {
			mask = lowest
		}
		scores[i] = greater(m.add(v, mask), lowest)
	}
	top := m.greatest(scores)
	var probabilities [engine.Side]uint32
	for i, v := range scores {
		probabilities[i] = m.exp(m.add(v, top[i]^1<<31))
	}
	p := m.Left(engine.Round(probabilities))
	var total, found engine.Sums
	m.Multiply(&total, &p, &m.ones)
	rows := m.Right(func(row, column int) bf16.Number {
		if column >= transformer.HeadWidth {
			return 0
		}
		return values[row][column]
	})
	m.Multiply(&found, &p, &rows)
	divisors, out := total.Numbers(), found.Numbers()
	for i := range out {
		out[i] = m.mul(out[i], m.recip(divisors[i]))
	}
	return engine.Round(out)
}

// greatest returns the greatest of scores in all columns, as tf32 in the matrix unit.
func (m *Model) greatest(scores [engine.Side]uint32) [engine.Side]uint32 {
	top := uint32(lowest)
	for _, half := range m.Cut(scores) {
		for _, v := range half {
			top = greater(top, v)
		}
	}
	math := m.Math()
	math.B = arith.TF32
	var l engine.Left
	for f, r := range m.Cut([engine.Side]uint32{top}) {
		math.DecodeRows(l[f:][:1], []arith.Row{r})
	}
	var s engine.Sums
	engine.Multiply(math, &s, &l, &m.most)
	return s.Numbers()
}
