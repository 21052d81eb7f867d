// Package reference computes on the host, bit for bit, what the engines of a chip answer for the
// network of package convnet.
package reference

import (
	"encoding/binary"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

type matrix struct {
	rows, columns int
	v             []bf16.Number
}

func newMatrix(rows, columns int) matrix {
	return matrix{rows, columns, make([]bf16.Number, rows*columns)}
}

// at returns an element; outside of the matrix it is 0.
func (m *matrix) at(row, column int) bf16.Number {
	if row >= m.rows || column >= m.columns {
		return 0
	}
	return m.v[row*m.columns+column]
}

func (m *matrix) tile(row, column int) []byte {
	l1 := make([]byte, arith.BF16.TileBytes())
	for i := range arith.TileSide {
		for k := range arith.TileSide {
			binary.LittleEndian.PutUint16(l1[2*arith.FaceOrder(i, k):], uint16(m.at(row+i, column+k)))
		}
	}
	return l1
}

type engine struct{ arch arith.Arch }

// Scores returns the scores of images, as a chip of an architecture computes them.
func Scores(a chip.Arch, n *convnet.Network, images []digits.Image) []convnet.Scores {
	e := engine{arith.Wormhole}
	if a == chip.Blackhole {
		e.arch = arith.Blackhole
	}
	l := &n.Layers[0]
	x := matrix{len(images) * l.Height * l.Width, l.In, nil}
	for _, m := range images {
		p := convnet.Pixels(m)
		x.v = append(x.v, p[:]...)
	}
	for i := range n.Layers {
		x = e.layer(&n.Layers[i], x)
	}
	out := make([]convnet.Scores, len(images))
	for i := range out {
		copy(out[i][:], x.v[i*digits.Classes:])
	}
	return out
}

func (e engine) layer(l *convnet.Layer, x matrix) matrix {
	bias := matrix{1, l.Out, l.Bias}
	switch l.Kind {
	case convnet.Conv:
		return e.linear(under(l, x), weights(l), bias, l.ReLU)
	case convnet.Pool:
		return largest(l, x)
	}
	return e.linear(x, matrix{l.In, l.Out, l.Weights}, bias, l.ReLU)
}

// under returns a matrix with a row for each position of a layer's window: the elements under it,
// channel by channel of each.
func under(l *convnet.Layer, x matrix) matrix {
	high, wide := l.OutHeight(), l.OutWidth()
	images := x.rows / (l.Height * l.Width)
	out := matrix{images * high * wide, l.Kernel * l.Kernel * l.In, nil}
	for position := range out.rows {
		image, y, x0 := position/(high*wide), position/wide%high, position%wide
		for element := range l.Kernel * l.Kernel {
			i, k := y*l.Stride-l.Padding+element/l.Kernel, x0*l.Stride-l.Padding+element%l.Kernel
			if i < 0 || i >= l.Height || k < 0 || k >= l.Width {
				out.v = append(out.v, make([]bf16.Number, l.In)...)
				continue
			}
			row := (image*l.Height+i)*l.Width + k
			out.v = append(out.v, x.v[row*x.columns:][:l.In]...)
		}
	}
	return out
}

// weights returns the matrix that a convolution multiplies by: a row for each channel of each
// element of the window.
func weights(l *convnet.Layer) matrix {
	out := newMatrix(l.Kernel*l.Kernel*l.In, l.Out)
	for row := range out.rows {
		for o := range l.Out {
			out.v[row*l.Out+o] = l.Weights[(o*l.In+row%l.In)*l.Kernel*l.Kernel+row/l.In]
		}
	}
	return out
}

// largest returns the largest element of each channel under the window of a layer without padding.
// Subnormal numbers, which no sum of a layer before is, would be zero.
func largest(l *convnet.Layer, x matrix) matrix {
	all := under(l, x)
	out := newMatrix(all.rows, l.In)
	for row := range out.rows {
		v := all.v[row*all.columns:][:all.columns]
		for c := range l.In {
			most := v[c]
			for k := c; k < len(v); k += l.In {
				if v[k].Float() > most.Float() {
					most = v[k]
				}
			}
			out.v[row*l.In+c] = most
		}
	}
	return out
}

// linear returns x times w plus a bias for each row: one more step of the inner dimension, a tile
// with ones in its first column times the bias in the first row of a tile.
func (e engine) linear(x, w, bias matrix, relu bool) matrix {
	ones := newMatrix(arith.TileSide, arith.TileSide)
	for i := range ones.rows {
		ones.v[i*ones.columns] = bf16.Round(1.0)
	}
	left := e.unpack(&ones, 0, 0)
	out := newMatrix(x.rows, w.columns)
	for column := 0; column < w.columns; column += arith.TileSide {
		right := e.unpack(&bias, 0, column)
		var inner []*arith.SrcTile
		for k := 0; k < w.rows; k += arith.TileSide {
			inner = append(inner, e.unpack(&w, k, column))
		}
		for row := 0; row < x.rows; row += arith.TileSide {
			m := arith.Math{Arch: e.arch, A: arith.BF16, B: arith.BF16, Wide: true}
			var dst arith.DstTile
			for k, t := range inner {
				m.MatmulTile(&dst, e.unpack(&x, row, k*arith.TileSide), t, arith.HiFi4)
			}
			m.MatmulTile(&dst, left, right, arith.HiFi4)
			if relu {
				rectify(&dst)
			}
			out.pack(row, column, &dst)
		}
	}
	return out
}

func (e engine) unpack(m *matrix, row, column int) *arith.SrcTile {
	var t arith.SrcTile
	(&arith.Unpack{Arch: e.arch, In: arith.BF16, Out: arith.BF16}).Tile(&t, m.tile(row, column))
	return &t
}

// rectify replaces what is below zero in a tile of Dst by zero, as the vector unit does.
func rectify(dst *arith.DstTile) {
	for i := range dst.Hi {
		for k := range dst.Hi[i] {
			if v := arith.DecodeDst32(uint32(dst.Hi[i][k])<<16 | uint32(dst.Lo[i][k])); arith.TotalOrder(v) <= 0 {
				dst.Hi[i][k], dst.Lo[i][k] = 0, 0
			}
		}
	}
}

func (m *matrix) pack(row, column int, dst *arith.DstTile) {
	l1 := make([]byte, arith.BF16.TileBytes())
	(&arith.Pack{Mid: arith.BF16, Out: arith.BF16, Wide: true}).Tile(l1, dst)
	for i := range min(arith.TileSide, m.rows-row) {
		for k := range min(arith.TileSide, m.columns-column) {
			m.v[(row+i)*m.columns+column+k] = bf16.Number(binary.LittleEndian.Uint16(l1[2*arith.FaceOrder(i, k):]))
		}
	}
}
