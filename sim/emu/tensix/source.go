package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

// srcRows is the rows of a bank of SrcA or SrcB (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/SrcASrcB.md).
const srcRows = 64

type srcRow = arith.Row

// source is SrcA or SrcB: two banks, filled by the unpacker and freed by the matrix unit.
type source struct {
	rows    *[2][srcRows]srcRow // of registers
	valid   [2]bool
	unpack  uint32    // bank of the unpacker
	matrix  uint32    // bank of the matrix unit
	changes uint32    // of valid and matrix
	format  [2]uint32 // of what the unpacker left there; Blackhole computes by it

	decoded *[2]decoded // nil until a product needs it
}

// decoded caches rows for products: each fidelity phase uses a tile's rows again.
type decoded struct {
	a   [srcRows / 16]arith.MatrixA
	b   [srcRows]arith.RowB
	how [srcRows]decoding // by first row: of 16 of a, or 8 of b
}

// The zero decoding means no cached rows.
type decoding struct {
	done, int8 bool
	format     arith.Format
}

func (s *source) cache() *decoded {
	if s.decoded == nil {
		s.decoded = new([2]decoded)
	}
	return &s.decoded[s.matrix]
}

func (s *source) decodedA(m *arith.Math, row uint32) *arith.MatrixA {
	d := s.cache()
	v := &d.a[row/16]
	if how := (decoding{true, m.Int8, m.A}); d.how[row] != how {
		m.DecodeA(v, (*[16]srcRow)(s.bank()[row:]))
		d.how[row] = how
	}
	return v
}

func (s *source) decodedB(m *arith.Math, row uint32) []arith.RowB {
	d := s.cache()
	v := d.b[row:][:8]
	if how := (decoding{true, m.Int8, m.B}); d.how[row] != how {
		m.DecodeRows(v, s.bank()[row:][:8])
		d.how[row] = how
	}
	return v
}

func (s *source) change(bank uint32) *[srcRows]srcRow {
	if s.decoded != nil {
		clear(s.decoded[bank].how[:])
	}
	return &s.rows[bank]
}

func (s *source) unpackValid() bool { return s.valid[s.unpack] }

func (s *source) matrixValid() bool { return s.valid[s.matrix] }

func (s *source) bank() *[srcRows]srcRow { return &s.rows[s.matrix] }

// fill returns false if the bank was valid.
func (s *source) fill() bool {
	if s.valid[s.unpack] {
		return false
	}
	s.valid[s.unpack] = true
	s.unpack ^= 1
	s.changes++
	return true
}

// free returns false if the bank was not valid.
func (s *source) free() bool {
	if !s.valid[s.matrix] {
		return false
	}
	s.valid[s.matrix] = false
	s.matrix ^= 1
	s.changes++
	return true
}

// fillRows clears the unpacker's bank, or fills it with the identity of maximum.
func (s *source) fillRows(lowest bool) {
	const all = 0xFFFFE000
	rows := s.change(s.unpack)
	clear(rows[:])
	if !lowest {
		return
	}
	for i := range rows {
		for c := range rows[i] {
			rows[i][c] = all
		}
	}
}
