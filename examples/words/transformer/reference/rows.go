package reference

import (
	"encoding/binary"

	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// Only row 0 of tiles matters, and rows don't depend on each other: only this row is computed.

const (
	side = arith.TileSide
	face = side / 2
)

type engine struct{ arch arith.Arch }

// sums is a row of a tile in a Dst of 32 bits: the two rows of faces.
type sums struct{ hi, lo [2]arith.DstRow }

func (s *sums) numbers() (v [side]uint32) {
	for i := range v {
		v[i] = arith.DecodeDst32(uint32(s.hi[i/face][i%face])<<16 | uint32(s.lo[i/face][i%face]))
	}
	return v
}

func inDst(v [side]uint32) *sums {
	s := &sums{}
	for i, x := range v {
		u := arith.EncodeDst32(arith.FlushDenormal(x))
		s.hi[i/face][i%face], s.lo[i/face][i%face] = uint16(u>>16), uint16(u)
	}
	return s
}

func (s *sums) pack() (v [side]bf16.Number) {
	p := arith.Pack{Mid: arith.BF16, Out: arith.BF16, Wide: true}
	for f := range s.hi {
		var row arith.Row
		var l1 [2 * face]byte
		p.Row(&row, &s.hi[f], &s.lo[f])
		p.Store(l1[:], row[:])
		for i := range face {
			v[f*face+i] = bf16.Number(binary.LittleEndian.Uint16(l1[2*i:]))
		}
	}
	return v
}

func round(v [side]uint32) [side]bf16.Number { return inDst(v).pack() }

// right is a tile in SrcA, decoded: the right operand of products.
type right [4]arith.MatrixA

// left is a row of a tile in SrcB, decoded: the left operand.
type left [2]arith.RowB

// source returns a row of a face as it is in SrcA or SrcB.
func (e engine) source(v []bf16.Number) (row arith.Row) {
	var l1 [2 * face]byte
	for i, x := range v[:face] {
		binary.LittleEndian.PutUint16(l1[2*i:], uint16(x))
	}
	(&arith.Unpack{Arch: e.arch, In: arith.BF16, Out: arith.BF16}).Elements(row[:], l1[:], 0, nil, 0)
	return row
}

// cut returns a row of fp32 as tf32 in SrcA or SrcB.
func (e engine) cut(v [side]uint32) (rows [2]arith.Row) {
	for f := range rows {
		var l1 [4 * face]byte
		for i := range face {
			binary.LittleEndian.PutUint32(l1[4*i:], v[f*face+i])
		}
		(&arith.Unpack{Arch: e.arch, In: arith.FP32, Out: arith.TF32}).Elements(rows[f][:], l1[:], 0, nil, 0)
	}
	return rows
}

func (e engine) math() arith.Math {
	return arith.Math{Arch: e.arch, A: arith.BF16, B: arith.BF16, Wide: true}
}

func (e engine) left(v [side]bf16.Number) (l left) {
	for f := range l {
		row := e.source(v[f*face:])
		e.math().DecodeB(&l[f], &row)
	}
	return l
}

func (e engine) right(at func(row, column int) bf16.Number) (t right) {
	for i := range t {
		var rows [16]arith.Row
		for r := range rows {
			var v [face]bf16.Number
			for c := range v {
				v[c] = at(i/2*face+r, i%2*face+c)
			}
			rows[r] = e.source(v[:])
		}
		e.math().DecodeA(&t[i], &rows)
	}
	return t
}

func (e engine) multiply(s *sums, l *left, r *right) { multiply(e.math(), s, l, r) }

// multiply adds a product to sums, in the order of arith.Math.MatmulTile.
func multiply(m arith.Math, s *sums, l *left, r *right) {
	for m.Phase = 0; m.Phase < uint8(arith.HiFi4); m.Phase++ {
		for k := range 2 {
			for column := range 2 {
				m.MulRow(&s.hi[column], &s.lo[column], &r[2*k+column], &l[k])
			}
		}
	}
}
