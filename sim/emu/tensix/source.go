package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

// srcRows is how many rows of 16 data a bank of SrcA or SrcB has
// (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/SrcASrcB.md).
const srcRows = 64

// srcRow is a row. A datum has 19 bits, at the top of a word: sign, exponent of 8 bits, mantissa of 10.
type srcRow = arith.Row

// source is SrcA or SrcB: two banks. The unpacker fills one and makes it valid, the matrix unit uses it and frees it.
type source struct {
	rows    *[2][srcRows]srcRow // of registers
	valid   [2]bool
	unpack  uint32    // bank of the unpacker
	matrix  uint32    // bank of the matrix unit
	changes uint32    // of valid and matrix
	format  [2]uint32 // of what the unpacker left there; Blackhole computes by it

	decoded *[2]decoded // nil until a product needs it
}

// decoded holds rows of a bank as products take them. A tile's rows are used many times, in each fidelity phase again.
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

// free makes the matrix unit's bank free for the unpacker and turns to the other. It returns false if it was not valid.
func (s *source) free() bool {
	if !s.valid[s.matrix] {
		return false
	}
	s.valid[s.matrix] = false
	s.matrix ^= 1
	s.changes++
	return true
}

// fillSource is fill with its refusal.
func (e *Engine) fillSource(t *thread, unit uint32) bool {
	s, name := e.source(unit)
	if !s.fill() {
		return e.refuse(NonContractualBehavior, "the bank of %s is valid already", name)
	}
	if unit == 0 && t.field(thSrcASet) != 0 {
		return e.refuse(UnimplementedFunctionality, "SRCA_SET_Base %d: want 0", t.field(thSrcASet))
	}
	return true
}

// source returns the source register that unpacker unit fills, and its name.
func (e *Engine) source(unit uint32) (*source, string) {
	if unit == 0 {
		return &e.srcA, "SrcA"
	}
	return &e.srcB, "SrcB"
}

// clearValid frees the matrix unit's banks of the sources in a mask, SrcA 1 and SrcB 2. The thread's configuration can keep
// them valid, and the matrix unit turns to the other bank all the same.
func (e *Engine) clearValid(t *thread, mask uint32) bool {
	for unit := range uint32(2) {
		if mask>>unit&1 == 0 {
			continue
		}
		s, name := e.source(unit)
		if t.field(thKeepSrcValid+threadField(unit)) != 0 {
			s.matrix ^= 1
			s.changes++
		} else if !s.free() {
			return e.refuse(NonContractualBehavior, "the bank of %s is not valid", name)
		}
	}
	return true
}

func (e *Engine) cleardvalid(t *thread, a cleardvalidArgs) bool {
	switch {
	case a.reset != 0:
		return e.refuse(UnsupportedFunctionality, "reset %d drops banks (tt-metal issue 22383): want 0", a.reset)
	case a.sources == 0:
		return e.refuse(UnsupportedFunctionality, "no sources")
	}
	for unit := range uint32(2) {
		if s, name := e.source(unit); a.sources>>unit&1 != 0 && !s.free() {
			return e.refuse(NonContractualBehavior, "the bank of %s is not valid", name)
		}
	}
	return true
}

// setdvalid makes banks valid that nothing has filled.
func (e *Engine) setdvalid(t *thread, a setdvalidArgs) bool {
	switch {
	case !e.wormhole:
		return e.refuse(UnsupportedFunctionality, "no document says which format it implies: use UNPACR_NOP")
	case a.sources == 0:
		return e.refuse(UnsupportedFunctionality, "no sources")
	case a.sources == 1:
		return e.refuse(UntestedFunctionality, "SrcA alone has not been validated: want SrcB, or both")
	}
	for unit := range uint32(2) {
		if a.sources>>unit&1 != 0 && !e.fillSource(t, unit) {
			return false
		}
	}
	return true
}

// zerosrc clears banks: both of both sources, or those of the matrix unit.
func (e *Engine) zerosrc(t *thread, a zerosrcArgs) bool {
	switch {
	case a.sources == 0:
		return e.refuse(UnsupportedFunctionality, "no sources")
	case a.value != 0:
		return e.refuse(UnsupportedFunctionality, "fill with ones: want zeros")
	case a.both != 0 && a.write != 0, a.both == 0 && a.write == 0:
		return e.refuse(UnsupportedFunctionality, "write mode %d for %d banks", a.write, 1+a.both)
	case a.both != 0 && a.sources != 3:
		return e.refuse(UnsupportedFunctionality, "all banks of sources %d: want 3, both", a.sources)
	}
	for unit := range uint32(2) {
		if a.sources>>unit&1 == 0 || e.registers == nil {
			continue
		}
		s, _ := e.source(unit)
		clear(s.change(s.matrix)[:])
		if a.both != 0 {
			clear(s.change(s.matrix ^ 1)[:])
		}
	}
	return true
}

// gatesrcrst changes how operands are gated, which only saves power.
func (e *Engine) gatesrcrst(t *thread, a gatesrcrstArgs) bool { return true }

// trnspsrcb transposes rows 16 to 31 of SrcB.
func (e *Engine) trnspsrcb(t *thread) bool {
	if !e.srcB.matrixValid() {
		return false
	}
	rows := e.srcB.change(e.srcB.matrix)[16:32]
	for i := range rows {
		for j := range i {
			rows[i][j], rows[j][i] = rows[j][i], rows[i][j]
		}
	}
	return true
}
