package tensix

import (
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// The matrix unit, FPU: products, elementwise operations and pooling of rows of SrcA and SrcB into
// rows of Dst (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/{MatrixUnit,MVMUL,ELWMUL,ELWADD,ELWSUB,GAPOOL,GMPOOL}.md).

const (
	shortExponents = 1<<arith.FP16 | 1<<arith.LF8 // exponents of 5 bits; the others have 8

	productA     formats = 1<<arith.FP32 | 1<<arith.TF32 | 1<<arith.BF16 | 1<<arith.BFP8 | 1<<arith.BFP4
	productB             = productA | 1<<arith.INT16
	elementwiseA         = productA | 1<<arith.BFP2
	elementwiseB         = elementwiseA | 1<<arith.INT32 | 1<<arith.INT16
	int8A        formats = 1 << arith.INT8
	int8B                = int8A | 1<<arith.BFP2 // as ttsim has it
)

// implied returns the configured format. Blackhole takes the unpacked data's instead, unless the
// thread sets explicit.
func (e *Engine) implied(t *thread, explicit isa.Thread, configured uint32, s *source) uint32 {
	if e.wormhole || t.field(explicit) != 0 {
		return configured
	}
	return s.format[s.matrix]
}

type operation struct {
	math           arith.Math
	a, b           uint32 // formats
	rowA, rowB     uint32
	rowD           uint32 // may be beyond the last
	shortExponents bool   // of data in the sources
}

func (e *Engine) planMath(t *thread) bool {
	if e.on(t, isa.SrcAForced) {
		return e.unsupported("a format of SrcA that overrides the configured one")
	}
	int8 := e.on(t, isa.Int8Math)
	e.mathPlan = mathPlan{
		bank: t.bank, version: e.version, a: e.cfg(t, isa.SrcAFormat), b: e.cfg(t, isa.SrcBFormat),
		math: arith.Math{Arch: e.chip, Int8: int8, Wide: int8 || e.on(t, isa.Fp32Dst), KeepDenormalsB: e.on(t, isa.KeepDenormals)},
	}
	return true
}

func (e *Engine) begin(t *thread, o *operation, dst uint32) bool {
	p := &e.mathPlan
	if (p.bank != t.bank || p.version != e.version) && !e.planMath(t) {
		return false
	}
	o.a = e.implied(t, isa.ThreadExplicitSrcA, p.a, &e.srcA)
	o.b = e.implied(t, isa.ThreadExplicitSrcB, p.b, &e.srcB)
	o.math = p.math
	o.math.A, o.math.B = arith.Format(o.a), arith.Format(o.b)
	o.math.Phase = uint8((t.fidelity + t.field(isa.ThreadFidelityBase)) & 3)
	o.shortExponents = o.math.Int8 || formats(shortExponents).has(o.a)
	o.rowA, o.rowB, o.rowD = t.a.value, t.b.value, t.d.value+dst+t.field(isa.ThreadDstOffset)
	return true
}

func (e *Engine) formatsFit(o *operation, a, b, b8 formats) bool {
	switch {
	case o.math.Int8:
		if !int8A.has(o.a) || !b8.has(o.b) {
			return e.unsupported("integers of 8 bits in formats %v and %v", o.math.A, o.math.B)
		}
	case formats(shortExponents).has(o.a):
		if o.a != o.b {
			return e.unsupported("formats %v and %v: want the same", o.math.A, o.math.B)
		}
	case !a.has(o.a) || !b.has(o.b):
		return e.unimplemented("formats %v and %v", o.math.A, o.math.B)
	}
	return true
}

func (e *Engine) aligned(o *operation, a, b uint32) bool {
	switch {
	case o.rowA%a != 0:
		return e.unsupported("row %d of SrcA: want a multiple of %d", o.rowA, a)
	case o.rowB%b != 0:
		return e.unsupported("row %d of SrcB: want a multiple of %d", o.rowB, b)
	}
	return true
}

// shortFit refuses exponents beyond the 5 bits of their format.
func (e *Engine) shortFit(name string, rows []srcRow) bool {
	for i := range rows {
		if v, high := arith.HighExponent(&rows[i]); high {
			return e.unsupported("datum %#x of %s has an exponent of more than 5 bits", v, name)
		}
	}
	return true
}

func (e *Engine) operandRows(o *operation, n uint32) (a, b []srcRow) {
	return e.srcA.bank()[o.rowA:][:16], e.srcB.bank()[o.rowB:][:n]
}

func (e *Engine) mvmul(t *thread, a mvmulArgs) bool {
	switch {
	case a.mod != 0:
		return e.unsupported("broadcast of a row of SrcB")
	case a.dst%8 != 0:
		return e.unsupported("row %d: want a multiple of 8", a.dst)
	}
	return e.product(t, a.dst, 8, a.mode, a.clear)
}

func (e *Engine) gapool(t *thread, a gmpoolArgs) bool {
	return e.poolOperands(&a) && e.product(t, a.dst, 4, a.mode, a.clear)
}

func (e *Engine) poolOperands(a *gmpoolArgs) bool {
	switch {
	case a.index != 0:
		return e.unsupported("indices of maxima")
	case a.mod != 1:
		return e.unsupported("modifier %d: want 1", a.mod)
	case a.dst%4 != 0:
		return e.unsupported("row %d: want a multiple of 4", a.dst)
	}
	return true
}

func (e *Engine) product(t *thread, dst, n, mode, clear uint32) bool {
	if !e.srcA.matrixValid() || !e.srcB.matrixValid() {
		return false
	}
	var o operation
	if !e.begin(t, &o, dst) || !e.formatsFit(&o, productA, productB, int8A) {
		return false
	}
	if o.math.KeepDenormalsB {
		return e.unsupported("products that keep denormals of SrcB")
	}
	if !e.aligned(&o, 16, 8) {
		return false
	}
	o.rowD %= dstRows
	if o.rowD%n != 0 {
		return e.unimplemented("row %d of Dst: want a multiple of %d", o.rowD, n)
	}
	if a, b := e.operandRows(&o, n); o.shortExponents && (!e.shortFit("SrcA", a) || !e.shortFit("SrcB", b)) {
		return false
	}
	right := e.srcA.decodedA(&o.math, o.rowA)
	left := e.srcB.decodedB(&o.math, o.rowB)[:n]
	if e.unwritten(o.rowD, n, o.math.Wide) {
		return false
	}
	e.usesDst(o.rowD, n, o.math.Wide, true)
	if o.math.Wide {
		high, low := e.dst.block32(o.rowD, n)
		o.math.MulRows(high, low, right, left)
	} else {
		o.math.MulRows(e.dst.block16(o.rowD, n), nil, right, left)
	}
	return e.advance(t, mode, true) && e.clearValid(t, clear)
}

type elementwise uint8

const (
	elwadd elementwise = iota
	elwsub
	elwmul
)

func (f elementwise) rows(m *arith.Math, high, low []dstRow, a, b []srcRow, accumulate bool) {
	switch f {
	case elwadd:
		m.ElwAddRows(high, low, a, b, accumulate)
	case elwsub:
		m.ElwSubRows(high, low, a, b, accumulate)
	default:
		m.ElwMulRows(high, low, a, b)
	}
}

const (
	broadcastColumn = 1 // column 0 of each row
	broadcastRow    = 2 // the first row
)

func (e *Engine) elementwise(t *thread, a elwmulArgs, f elementwise) bool {
	product := f == elwmul
	switch {
	case a.dst%8 != 0:
		return e.unsupported("row %d: want a multiple of 8", a.dst)
	case product && a.accumulate != 0:
		return e.nonContractual("accumulation asked for, which products always do")
	case !e.srcA.matrixValid() || !e.srcB.matrixValid():
		return false
	}
	var o operation
	if !e.begin(t, &o, a.dst) || !e.formatsFit(&o, elementwiseA, elementwiseB, int8B) || !e.aligned(&o, 8, 8) {
		return false
	}
	if o.rowD%8 != 0 || o.rowD >= dstRows {
		return e.unsupported("row %d of Dst: want a multiple of 8 below %d", o.rowD, dstRows)
	}
	if !product && o.math.Phase != 0 {
		return e.nonContractual("fidelity phase %d of a sum", o.math.Phase)
	}
	left, right := e.srcA.bank()[o.rowA:][:8], e.srcB.bank()[o.rowB:][:8]
	if a.mod != 0 {
		same := repeated(right, a.mod)
		right = same[:]
	}
	if o.shortExponents && (!e.shortFit("SrcA", left) || !e.shortFit("SrcB", right)) {
		return false
	}
	if (product || a.accumulate != 0) && e.unwritten(o.rowD, 8, o.math.Wide) {
		return false
	}
	e.dst.written(o.rowD, 8, o.math.Wide)
	e.usesDst(o.rowD, 8, o.math.Wide, true)
	if o.math.Wide {
		high, low := e.dst.block32(o.rowD, 8)
		f.rows(&o.math, high, low, left, right, a.accumulate != 0)
	} else {
		f.rows(&o.math, e.dst.block16(o.rowD, 8), nil, left, right, a.accumulate != 0)
	}
	return e.advance(t, a.mode, true) && e.clearValid(t, a.clear)
}

func repeated(rows []srcRow, mod uint32) (same [8]srcRow) {
	copy(same[:], rows)
	for i := range same {
		if mod&broadcastRow != 0 {
			same[i] = rows[0]
		}
		if mod&broadcastColumn != 0 {
			for c := range same[i] {
				same[i][c] = same[i][0]
			}
		}
	}
	return same
}

// gmpool clears the next three rows too. SrcB must hold ones.
func (e *Engine) gmpool(t *thread, a gmpoolArgs) bool {
	const one = 0x3F800000
	switch {
	case !e.poolOperands(&a):
		return false
	case !e.srcA.matrixValid() || !e.srcB.matrixValid():
		return false
	case e.on(t, isa.Int8Math):
		return e.unsupported("maxima of integers of 8 bits")
	}
	var o operation
	if !e.begin(t, &o, a.dst) {
		return false
	}
	if !productA.has(o.a) || !productA.has(o.b) {
		return e.unsupported("formats %v and %v", o.math.A, o.math.B)
	}
	if !e.aligned(&o, 16, 8) {
		return false
	}
	if o.rowD%4 != 0 || o.rowD >= dstRows {
		return e.unsupported("row %d of Dst: want a multiple of 4 below %d", o.rowD, dstRows)
	}
	for _, v := range e.srcB.bank()[o.rowB] {
		if v != one {
			return e.unsupported("datum %#x of SrcB: want 1.0", v)
		}
	}
	rows := (*[16]srcRow)(e.srcA.bank()[o.rowA:])
	if e.unwritten(o.rowD, 1, o.math.Wide) {
		return false
	}
	e.usesDst(o.rowD, 4, o.math.Wide, true)
	if o.math.Wide {
		high, low := e.dst.lowest32(o.rowD)
		o.math.MaxPool(high, low, rows)
	} else {
		o.math.MaxPool(e.dst.lowest16(o.rowD), nil, rows)
	}
	for i := uint32(1); i < 4; i++ {
		e.dst.clear(o.rowD+i, o.math.Wide)
	}
	return e.advance(t, a.mode, true) && e.clearValid(t, a.clear)
}
