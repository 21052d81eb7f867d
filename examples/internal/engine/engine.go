// Package engine computes on the host, bit for bit, products of bfloat16 as a chip's engines do.
//
// Rows of a product don't depend on each other, so it computes one row of tiles, not all 32.
package engine

import (
	"encoding/binary"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// Side is the height and width of a tile, Face of a face.
const (
	Side = arith.TileSide
	Face = Side / 2
)

// Engine is the engines of an architecture.
type Engine struct{ Arch arith.Arch }

// New returns the engines of an architecture.
func New(a chip.Arch) Engine {
	if a == chip.Blackhole {
		return Engine{arith.Blackhole}
	}
	return Engine{arith.Wormhole}
}

// Sums is a row of a tile in a Dst of 32 bits: the two rows of faces.
type Sums struct{ hi, lo [2]arith.DstRow }

// Numbers returns the sums in fp32.
func (s *Sums) Numbers() (v [Side]uint32) {
	for i := range v {
		v[i] = arith.DecodeDst32(uint32(s.hi[i/Face][i%Face])<<16 | uint32(s.lo[i/Face][i%Face]))
	}
	return v
}

// InDst returns numbers of fp32 as they are in Dst.
func InDst(v [Side]uint32) *Sums {
	s := &Sums{}
	for i, x := range v {
		u := arith.EncodeDst32(arith.FlushDenormal(x))
		s.hi[i/Face][i%Face], s.lo[i/Face][i%Face] = uint16(u>>16), uint16(u)
	}
	return s
}

// Pack rounds sums to bfloat16.
func (s *Sums) Pack() (v [Side]bf16.Number) {
	p := arith.Pack{Mid: arith.BF16, Out: arith.BF16, Wide: true}
	for f := range s.hi {
		var row arith.Row
		var l1 [2 * Face]byte
		p.Row(&row, &s.hi[f], &s.lo[f])
		p.Store(l1[:], row[:])
		for i := range Face {
			v[f*Face+i] = bf16.Number(binary.LittleEndian.Uint16(l1[2*i:]))
		}
	}
	return v
}

// Round rounds numbers of fp32 to bfloat16.
func Round(v [Side]uint32) [Side]bf16.Number { return InDst(v).Pack() }

// Right is a tile in SrcA, decoded: the right operand of products.
type Right [4]arith.MatrixA

// Left is a row of a tile in SrcB, decoded: the left operand.
type Left [2]arith.RowB

// source returns a row of a face as it is in SrcA or SrcB.
func (e Engine) source(v []bf16.Number) (row arith.Row) {
	var l1 [2 * Face]byte
	for i, x := range v[:Face] {
		binary.LittleEndian.PutUint16(l1[2*i:], uint16(x))
	}
	(&arith.Unpack{Arch: e.Arch, In: arith.BF16, Out: arith.BF16}).Elements(row[:], l1[:], 0, nil, 0)
	return row
}

// Cut returns a row of fp32 as tf32 in SrcA or SrcB.
func (e Engine) Cut(v [Side]uint32) (rows [2]arith.Row) {
	for f := range rows {
		var l1 [4 * Face]byte
		for i := range Face {
			binary.LittleEndian.PutUint32(l1[4*i:], v[f*Face+i])
		}
		(&arith.Unpack{Arch: e.Arch, In: arith.FP32, Out: arith.TF32}).Elements(rows[f][:], l1[:], 0, nil, 0)
	}
	return rows
}

// Math returns the matrix unit for operands in bfloat16.
func (e Engine) Math() arith.Math {
	return arith.Math{Arch: e.Arch, A: arith.BF16, B: arith.BF16, Wide: true}
}

// Left returns a row as a left operand.
func (e Engine) Left(v [Side]bf16.Number) (l Left) {
	for f := range l {
		row := e.source(v[f*Face:])
		e.Math().DecodeRows(l[f:][:1], []arith.Row{row})
	}
	return l
}

// Right returns a tile as a right operand.
func (e Engine) Right(at func(row, column int) bf16.Number) (t Right) {
	for i := range t {
		var rows [16]arith.Row
		for r := range rows {
			var v [Face]bf16.Number
			for c := range v {
				v[c] = at(i/2*Face+r, i%2*Face+c)
			}
			rows[r] = e.source(v[:])
		}
		e.Math().DecodeA(&t[i], &rows)
	}
	return t
}

// Multiply is the function for operands in bfloat16.
func (e Engine) Multiply(s *Sums, l *Left, r *Right) { Multiply(e.Math(), s, l, r) }

// Multiply adds a product to sums, in the order of arith.Math.MatmulTile.
func Multiply(m arith.Math, s *Sums, l *Left, r *Right) {
	for m.Phase = 0; m.Phase < uint8(arith.HiFi4); m.Phase++ {
		for k := range 2 {
			for column := range 2 {
				m.MulRows(s.hi[column:][:1], s.lo[column:][:1], &r[2*k+column], l[k:k+1])
			}
		}
	}
}

// Weights is a matrix of tiles as right operands, row by row.
type Weights struct {
	wide  int
	tiles []Right
}

// Weights returns a matrix of tiles by its elements.
func (e Engine) Weights(high, wide int, at func(row, column int) bf16.Number) Weights {
	w := Weights{wide: wide}
	for y := range high {
		for x := range wide {
			w.tiles = append(w.tiles, e.Right(func(row, column int) bf16.Number { return at(y*Side+row, x*Side+column) }))
		}
	}
	return w
}

// Row is a row of a matrix: a row of each of its tiles.
type Row [][Side]bf16.Number

// RowOf returns a row of numbers, with zeros after them.
func RowOf(v []bf16.Number) (r Row) {
	for part := range slices.Chunk(v, Side) {
		r = append(r, [Side]bf16.Number{})
		copy(r[len(r)-1][:], part)
	}
	return r
}

// Addend returns a row as [Engine.Linear] adds it: in the first row of tiles.
func (e Engine) Addend(r Row) Weights {
	return e.Weights(1, len(r), func(row, column int) bf16.Number {
		if row > 0 {
			return 0
		}
		return r[column/Side][column%Side]
	})
}

// Linear returns x times w plus addends: each is one more step of the inner dimension, a one in the
// first column of a tile times the addend.
func (e Engine) Linear(x Row, w Weights, relu bool, plus ...Weights) Row {
	one := e.Left([Side]bf16.Number{bf16.Round(1.0)})
	lefts := make([]Left, len(x))
	for i := range x {
		lefts[i] = e.Left(x[i])
	}
	out := make(Row, w.wide)
	for column := range out {
		var s Sums
		for k := range lefts {
			e.Multiply(&s, &lefts[k], &w.tiles[k*w.wide+column])
		}
		for _, p := range plus {
			e.Multiply(&s, &one, &p.tiles[column])
		}
		if relu {
			v := s.Numbers()
			for i := range v {
				if arith.TotalOrder(v[i]) < 0 {
					v[i] = 0
				}
			}
			s = *InDst(v)
		}
		out[column] = s.Pack()
	}
	return out
}
