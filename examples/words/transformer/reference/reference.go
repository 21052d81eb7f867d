// Package reference computes on the host, bit for bit, the tokens that the model of package
// transformer makes on a device, and their logits.
package reference

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/examples/words/transformer"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// Model makes the tokens of a network as a chip does.
type Model struct {
	engine
	state  transformer.State
	scores [transformer.Slots]bf16.Number

	embedding, logits weights
	layers            [transformer.Layers]layer
	most, ones        right // a one in row 0 of each face; ones
}

type layer struct {
	query, key, value, project, up, down weights
	keys, values                         [transformer.Heads]cache
}

// cache is a head's rows of keys or values, with numbers in the first HeadWidth columns.
type cache [transformer.Positions][transformer.HeadWidth]bf16.Number

type weights struct {
	high, wide int
	tiles      []right
}

// row is a row of a matrix: a row of each of its tiles.
type row [][side]bf16.Number

// New returns a model before its first token. The error is one of transformer.Sampling.Start.
func New(a chip.Arch, n *transformer.Network, s transformer.Sampling) (*Model, error) {
	m := &Model{engine: engine{arith.Wormhole}}
	if a == chip.Blackhole {
		m.arch = arith.Blackhole
	}
	var err error
	if m.state, err = s.Start(); err != nil {
		return nil, err
	}
	m.embedding, m.logits = m.weights(&n.Embedding), m.weights(&n.Logits)
	for i := range m.layers {
		from, to := &n.Layers[i], &m.layers[i]
		to.query, to.key, to.value = m.heads(&from.Query), m.heads(&from.Key), m.heads(&from.Value)
		to.project, to.up, to.down = m.projection(&from.Project), m.weights(&from.Up), m.weights(&from.Down)
	}
	pattern := func(one func(row int) bool) right {
		return m.right(func(row, _ int) bf16.Number {
			if one(row) {
				return bf16.Round(1.0)
			}
			return 0
		})
	}
	m.most, m.ones = pattern(func(row int) bool { return row%face == 0 }), pattern(func(int) bool { return true })
	return m, nil
}

func (e engine) weights(m *transformer.Matrix) weights {
	return e.tiles(m.Rows/side, m.Columns/side, func(row, column int) bf16.Number { return m.Data[row*m.Columns+column] })
}

// heads returns the tiles of a matrix whose columns are heads; each head begins a tile.
func (e engine) heads(m *transformer.Matrix) weights {
	return e.tiles(m.Rows/side, transformer.Heads, func(row, column int) bf16.Number {
		if column%side >= transformer.HeadWidth {
			return 0
		}
		return m.Data[row*m.Columns+column/side*transformer.HeadWidth+column%side]
	})
}

func (e engine) projection(m *transformer.Matrix) weights {
	return e.tiles(transformer.Heads, m.Columns/side, func(row, column int) bf16.Number {
		if row%side >= transformer.HeadWidth {
			return 0
		}
		return m.Data[(row/side*transformer.HeadWidth+row%side)*m.Columns+column]
	})
}

func (e engine) tiles(high, wide int, at func(row, column int) bf16.Number) weights {
	w := weights{high: high, wide: wide}
	for y := range high {
		for x := range wide {
			w.tiles = append(w.tiles, e.right(func(row, column int) bf16.Number { return at(y*side+row, x*side+column) }))
		}
	}
	return w
}

// Step makes a token, and returns whether there was one left to make.
func (m *Model) Step() bool {
	if m.state.Left == 0 {
		return false
	}
	x := m.linear(m.input(), &m.embedding, nil, false)
	for i := range m.layers {
		l := &m.layers[i]
		h := m.normalise(x)
		q, k, v := m.linear(h, &l.query, nil, false), m.linear(h, &l.key, nil, false), m.linear(h, &l.value, nil, false)
		joined := make(row, transformer.Heads)
		for head := range joined {
			copy(l.keys[head][m.state.Position][:], k[head][:])
			copy(l.values[head][m.state.Position][:], v[head][:])
			joined[head] = m.attend(q[head], &l.keys[head], &l.values[head])
		}
		x = m.linear(joined, &l.project, x, false)
		hidden := m.linear(m.normalise(x), &l.up, nil, true)
		x = m.linear(hidden, &l.down, x, false)
	}
	m.scores = m.linear(m.normalise(x), &m.logits, nil, false)[0]
	m.sample()
	return true
}

// State returns the state after the last step.
func (m *Model) State() transformer.State { return m.state }

// Scores returns the logits of the last step.
func (m *Model) Scores() [transformer.Slots]bf16.Number { return m.scores }

func (m *Model) input() row {
	x := make(row, 2)
	x[0][m.state.Token], x[1][m.state.Position] = bf16.Round(1.0), bf16.Round(1.0)
	return x
}

// linear returns x times w plus the row plus, which may be nil: one more step of the inner
// dimension, a one in the first column of a tile times plus in the first row of another.
func (m *Model) linear(x row, w *weights, plus row, relu bool) row {
	lefts := make([]left, len(x))
	for i := range x {
		lefts[i] = m.left(x[i])
	}
	out := make(row, w.wide)
	for column := range out {
		var s sums
		for k := range lefts {
			m.multiply(&s, &lefts[k], &w.tiles[k*w.wide+column])
		}
		if plus != nil {
			l, r := m.left([side]bf16.Number{bf16.Round(1.0)}), m.right(func(row, c int) bf16.Number {
				if row > 0 {
					return 0
				}
				return plus[column][c]
			})
			m.multiply(&s, &l, &r)
		}
		if relu {
			v := s.numbers()
			for i := range v {
				v[i] = greater(v[i], 0)
			}
			s = *inDst(v)
		}
		out[column] = s.pack()
	}
	return out
}

// normalise returns x divided by the root of its mean square: ops/kernels/compute/norm.cpp.
func (m *Model) normalise(x row) row {
	var sum [side]uint32
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
		lanes[i] = m.add(m.add(m.add(sum[2*i], sum[2*i+1]), sum[face+2*i]), sum[face+2*i+1])
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
	out := make(row, len(x))
	for k, t := range x {
		var v [side]uint32
		for i := range v {
			v[i] = m.mul(uint32(t[i])<<16, lanes[i%face/2])
		}
		out[k] = round(v)
	}
	return out
}

// attend returns a query's attention to the caches up to the position:
// ops/kernels/compute/attention.cpp.
func (m *Model) attend(query [side]bf16.Number, keys, values *cache) [side]bf16.Number {
	q := m.left(query)
	turned := m.right(func(row, column int) bf16.Number {
		if row >= transformer.HeadWidth {
			return 0
		}
		return keys[column][row]
	})
	var s sums
	m.multiply(&s, &q, &turned)
	scores := s.numbers()
	for i, v := range scores {
		v = m.mul(v, bits(1./4))
		mask := uint32(0)
		if i > int(m.state.Position) {
			mask = lowest
		}
		scores[i] = greater(m.add(v, mask), lowest)
	}
	top := m.greatest(scores)
	var probabilities [side]uint32
	for i, v := range scores {
		probabilities[i] = m.exp(m.sub(v, top[i]))
	}
	p := m.left(round(probabilities))
	var total, found sums
	m.multiply(&total, &p, &m.ones)
	rows := m.right(func(row, column int) bf16.Number {
		if column >= transformer.HeadWidth {
			return 0
		}
		return values[row][column]
	})
	m.multiply(&found, &p, &rows)
	divisors, out := total.numbers(), found.numbers()
	for i := range out {
		out[i] = m.mul(out[i], m.recip(divisors[i]))
	}
	return round(out)
}

// greatest returns the greatest of scores in all columns, as tf32 in the matrix unit.
func (m *Model) greatest(scores [side]uint32) [side]uint32 {
	top := uint32(lowest)
	for _, half := range m.cut(scores) {
		for _, v := range half {
			top = greater(top, v)
		}
	}
	math := m.math()
	math.B = arith.TF32
	var l left
	for f, r := range m.cut([side]uint32{top}) {
		math.DecodeB(&l[f], &r)
	}
	var s sums
	multiply(math, &s, &l, &m.most)
	return s.numbers()
}
