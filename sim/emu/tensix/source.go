package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

// srcRows is how many rows of 16 data a bank of SrcA or SrcB has
// (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/SrcASrcB.md).
const srcRows = 64

// srcRow is a row. A datum has 19 bits, at the top of a word: sign, exponent of 8 bits, mantissa of
// 10.
type srcRow = arith.Row

// source is SrcA or SrcB: two banks. The unpacker fills one and makes it valid, the matrix unit
// uses it and frees it.
type source struct {
	rows    *[2][srcRows]srcRow // of registers
	valid   [2]bool
	unpack  uint32    // bank of the unpacker
	matrix  uint32    // bank of the matrix unit
	changes uint32    // of valid and matrix
	format  [2]uint32 // of what the unpacker left there; Blackhole computes by it

	decoded *[2]decoded // nil until a product needs it
}

// decoded holds rows of a bank as products take them. A tile's rows are used many times, in each
// fidelity phase again.
type decoded struct {
	a   [srcRows / 16]arith.MatrixA
	b   [srcRows]arith.RowB
	how [srcRows]decoding // by first row: of 16 of a, or 8 of b
}

// decoding is how rows were decoded; its zero value is that they weren't.
type decoding struct {
	done, int8 bool
	format     arith.Format
}

// cache returns the rows of the matrix unit's bank that are decoded.
func (s *source) cache() *decoded {
	if s.decoded == nil {
		s.decoded = new([2]decoded)
	}
	return &s.decoded[s.matrix]
}

// decodedA returns 16 rows of the matrix unit's bank of SrcA, decoded.
func (s *source) decodedA(m *arith.Math, row uint32) *arith.MatrixA {
	d := s.cache()
	v := &d.a[row/16]
	if how := (decoding{true, m.Int8, m.A}); d.how[row] != how {
		m.DecodeA(v, (*[16]srcRow)(s.bank()[row:]))
		d.how[row] = how
	}
	return v
}

// decodedB returns 8 rows of the matrix unit's bank of SrcB, decoded.
func (s *source) decodedB(m *arith.Math, row uint32) []arith.RowB {
	d := s.cache()
	v := d.b[row:][:8]
	if how := (decoding{true, m.Int8, m.B}); d.how[row] != how {
		m.DecodeRows(v, s.bank()[row:][:8])
		d.how[row] = how
	}
	return v
}

// change returns the rows of a bank, to be changed.
func (s *source) change(bank uint32) *[srcRows]srcRow {
	if s.decoded != nil {
		clear(s.decoded[bank].how[:])
	}
	return &s.rows[bank]
}

// unpackValid reports whether the unpacker's bank waits for the matrix unit.
func (s *source) unpackValid() bool { return s.valid[s.unpack] }

// matrixValid reports whether the matrix unit's bank has been filled.
func (s *source) matrixValid() bool { return s.valid[s.matrix] }

// bank returns the rows that the matrix unit uses.
func (s *source) bank() *[srcRows]srcRow { return &s.rows[s.matrix] }

// fill makes the unpacker's bank valid and turns to the other. It returns false if it was valid.
func (s *source) fill() bool {
	if s.valid[s.unpack] {
		return false
	}
	s.valid[s.unpack] = true
	s.unpack ^= 1
	s.changes++
	return true
}

// free makes the matrix unit's bank free for the unpacker and turns to the other. It returns false
// if it was not valid.
func (s *source) free() bool {
	if !s.valid[s.matrix] {
		return false
	}
	s.valid[s.matrix] = false
	s.matrix ^= 1
	s.changes++
	return true
}

// fillRows clears the unpacker's bank, or fills it with what is less than all numbers.
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
