package tensix

import (
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Moves between SrcA, SrcB and Dst, and the clearing of Dst (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/{MOVA2D,MOVB2D,MOVD2A,MOVD2B,MOVB2A,ZEROACC}.md).

const (
	fromDstToA formats = productA | 1<<arith.FP16
	fromDstToB         = fromDstToA | 1<<arith.INT32
	longFromA          = productA | 1<<arith.INT32 | 1<<arith.INT16 | 1<<arith.BFP2
	longFromB          = productA | 1<<arith.INT32 | 1<<arith.INT16
)

func (e *Engine) formatA(t *thread) uint32 {
	if e.on(t, isa.SrcAForced) {
		return e.cfg(t, isa.SrcAFormatForced)
	}
	return e.cfg(t, isa.SrcAFormat)
}

func (e *Engine) wideDst(t *thread) bool { return e.on(t, isa.Fp32Dst) || e.on(t, isa.Int8Math) }

type fromDst struct {
	format arith.Format
	wide   bool
	low    bool // the lower half of 32-bit data instead of the upper
}

func (e *Engine) fromDst(m fromDst, lowTaken bool) bool {
	switch {
	case m.wide && m.low && !lowTaken:
		return e.unimplemented("lower halves of Dst to SrcA")
	case m.wide && m.format == arith.FP16:
		return e.unimplemented("fp16 from a Dst of 32 bits")
	case m.wide && m.low && m.format == arith.TF32:
		return e.unimplemented("tf32 from lower halves of Dst")
	case !m.wide && m.low:
		return e.undefined("lower halves of a Dst of 16 bits")
	case !m.wide && m.format == arith.TF32:
		return e.undefined("tf32 from a Dst of 16 bits")
	}
	return true
}

func (d *dst) datum(m fromDst, row, col uint32) uint32 {
	if m.wide {
		v := d.read32(row, col)
		switch {
		case m.format == arith.TF32:
			return arith.DecodeDst32(v) & 0xFFFFE000
		case m.low:
			v <<= 16
		}
		return uint32(arith.DecodeDstBF16(uint16(v>>16))) << 16
	}
	v := d.read16(row, col)
	if m.format == arith.FP16 {
		return arith.WidenHalf(arith.DecodeDstFP16(v))
	}
	return uint32(arith.DecodeDstBF16(v)) << 16
}

func (e *Engine) multiples(n, dst, src uint32) bool {
	if dst%n != 0 || src%n != 0 {
		return e.unsupported("rows %d of Dst and %d of the source: want multiples of %d", dst, src, n)
	}
	return true
}

func (e *Engine) movd2a(t *thread, a movd2aArgs) bool {
	switch {
	case a.mod != 2:
		return e.unsupported("modifier %d: want 2, four rows", a.mod)
	case !e.multiples(4, a.dst, a.src):
		return false
	case e.on(t, isa.SrcAForced):
		return e.unsupported("a format of SrcA that overrides the configured one")
	}
	format := e.implied(t, isa.ThreadExplicitSrcA, e.cfg(t, isa.SrcAFormat), &e.srcA)
	if !fromDstToA.has(format) {
		return e.unimplemented("format %v", arith.Format(format))
	}
	src, row := (t.a.value+a.src)%srcRows, t.dstRow(a.dst)
	switch {
	case src%4 != 0:
		return e.unsupported("row %d of SrcA: want a multiple of 4", src)
	case row%4 != 0:
		return e.unimplemented("row %d of Dst: want a multiple of 4", row)
	}
	m := fromDst{arith.Format(format), e.wideDst(t), a.lo32 != 0}
	if !e.fromDst(m, false) || e.unwritten(row, 4, m.wide) {
		return false
	}
	e.usesDst(row, 4, m.wide, false)
	e.toSource(&e.srcA, m, src, row, 4)
	return e.advance(t, a.mode, true)
}

func (e *Engine) movd2b(t *thread, a movd2aArgs) bool {
	if a.mod != 0 && a.mod != 2 {
		return e.unsupported("modifier %d: want 0, one row, or 2, four", a.mod)
	}
	if !e.multiples(4, a.dst, a.src) {
		return false
	}
	format := e.implied(t, isa.ThreadExplicitSrcA, e.formatA(t), &e.srcB)
	if !fromDstToB.has(format) {
		return e.unimplemented("format %v", arith.Format(format))
	}
	src, row := t.b.value+a.src, t.dstRow(a.dst)
	switch {
	case src%4 != 0 || src >= srcRows:
		return e.unsupported("row %d of SrcB: want a multiple of 4 below %d", src, srcRows)
	case row%4 != 0:
		return e.unimplemented("row %d of Dst: want a multiple of 4", row)
	}
	m := fromDst{arith.Format(format), e.wideDst(t), a.lo32 != 0}
	n := uint32(1)
	if a.mod == 2 {
		n = 4
	}
	if !e.fromDst(m, true) || e.unwritten(row, n, m.wide) {
		return false
	}
	e.usesDst(row, n, m.wide, false)
	e.toSource(&e.srcB, m, src, row, n)
	return e.advance(t, a.mode, true)
}

func (e *Engine) toSource(s *source, m fromDst, src, row, n uint32) {
	rows := s.change(s.matrix)
	for i := range n {
		for c := range uint32(rowSize) {
			rows[src+i][c] = e.dst.datum(m, row+i, c)
		}
	}
}

func (e *Engine) movb2a(t *thread, a movb2aArgs) bool {
	switch {
	case a.mod != 2:
		return e.unsupported("modifier %d: want 2, four rows", a.mod)
	case a.srcb%4 != 0 || a.srca%4 != 0:
		return e.unsupported("rows %d of SrcB and %d of SrcA: want multiples of 4", a.srcb, a.srca)
	case !e.srcB.matrixValid():
		return false
	}
	to, from := t.a.value+a.srca, t.b.value+a.srcb
	if to%4 != 0 || to >= srcRows || from%4 != 0 || from >= srcRows {
		return e.unsupported("rows %d of SrcB and %d of SrcA: want multiples of 4 below %d", from, to, srcRows)
	}
	keep := e.on(t, isa.KeepDenormals)
	rows := e.srcA.change(e.srcA.matrix)
	for i := range uint32(4) {
		for c, v := range e.srcB.bank()[from+i] {
			rows[to+i][c] = withoutDenormal(v, keep)
		}
	}
	return e.advance(t, a.mode, true)
}

// withoutDenormal flushes a datum with exponent 0, unless keep.
func withoutDenormal(v uint32, keep bool) uint32 {
	if v&0x7F800000 == 0 && !keep {
		return 0
	}
	return v
}

type toDst struct {
	format arith.Format
	short  bool // exponents of 5 bits
	low    bool // only lower halves of 32-bit data change
}

func (e *Engine) toDst(m toDst, row, n uint32) bool {
	switch {
	case m.format == arith.TF32 && m.low:
		return e.undefined("tf32 to lower halves of Dst (erratum TEN-4245)")
	case m.short && m.low:
		return e.unsupported("%v to lower halves of Dst", m.format)
	}
	e.usesDst(row, n, m.low || m.format == arith.TF32, true)
	return true
}

func (d *dst) move(m toDst, row uint32, data *srcRow) {
	switch {
	case m.format == arith.TF32:
		for c, v := range data {
			d.write32(row, uint32(c), arith.EncodeDst32(v))
		}
	case m.short:
		for c, v := range data {
			d.write16(row, uint32(c), arith.EncodeDstFP16(arith.NarrowHalf(v)))
		}
	case m.low:
		_, low := d.row32(row)
		for c, v := range data {
			low[c] = arith.EncodeDstBF16(uint16(v >> 16))
		}
	default:
		for c, v := range data {
			d.write16(row, uint32(c), arith.EncodeDstBF16(uint16(v>>16)))
		}
	}
}

func (e *Engine) mova2d(t *thread, a movd2aArgs) bool {
	switch {
	case a.mod != 2:
		return e.unsupported("modifier %d: want 2, eight rows", a.mod)
	case !e.multiples(8, a.dst, a.src):
		return false
	case !e.srcA.matrixValid():
		return false
	}
	format := e.implied(t, isa.ThreadExplicitSrcA, e.formatA(t), &e.srcA)
	if !longFromA.has(format) && !formats(shortExponents).has(format) {
		return e.unimplemented("format %v", arith.Format(format))
	}
	src, row := t.a.value+a.src, t.dstRow(a.dst)
	if src%8 != 0 || src >= srcRows || row%8 != 0 {
		return e.unimplemented("rows %d of SrcA and %d of Dst: want multiples of 8, the former below %d", src, row, srcRows)
	}
	m := toDst{arith.Format(format), formats(shortExponents).has(format), a.lo32 != 0}
	if !e.toDst(m, row, 8) {
		return false
	}
	keep := e.on(t, isa.KeepDenormals)
	if m.format != arith.TF32 && !m.short && !m.low { // the usual one
		for i := range uint32(8) {
			lanes.EncodeRow(&e.dst.rows[row+i], &e.srcA.bank()[src+i], !keep)
			e.dst.valid[row+i] = true
		}
		e.dst.written(row, 8, false)
		return e.advance(t, a.mode, true)
	}
	for i := range uint32(8) {
		data := e.srcA.bank()[src+i]
		for c, v := range data {
			data[c] = withoutDenormal(v, keep)
		}
		e.dst.move(m, row+i, &data)
	}
	return e.advance(t, a.mode, true)
}

const (
	moveColumn0 = 1 // column 0 of each row, in all columns
	moveSame    = 2 // the first row, in eight rows; otherwise four rows
)

func (e *Engine) movb2d(t *thread, a movb2dArgs) bool {
	switch {
	case a.mod < 2 || a.mod > 5:
		return e.unsupported("modifier %d: want 2 to 5", a.mod)
	case !e.multiples(4, a.dst, a.src):
		return false
	case !e.srcB.matrixValid():
		return false
	}
	formatA := e.implied(t, isa.ThreadExplicitSrcA, e.formatA(t), &e.srcB)
	formatB := arith.Format(e.implied(t, isa.ThreadExplicitSrcB, e.cfg(t, isa.SrcBFormat), &e.srcB))
	m := toDst{arith.Format(formatA), formatA == uint32(arith.FP16), a.lo32 != 0}
	if !longFromB.has(formatA) && !m.short {
		return e.unimplemented("format %v", m.format)
	}
	n := uint32(4)
	if a.mod&moveSame != 0 {
		n = 8
	}
	src, row := t.b.value+a.src, t.dstRow(a.dst)
	if src%n != 0 || src >= srcRows || row%n != 0 {
		return e.unimplemented("rows %d of SrcB and %d of Dst: want multiples of %d, the former below %d", src, row,
			n, srcRows)
	}
	if !e.toDst(m, row, n) {
		return false
	}
	keep := e.on(t, isa.KeepDenormals)
	for i := range n {
		from := &e.srcB.bank()[src]
		if a.mod&moveSame == 0 {
			from = &e.srcB.bank()[src+i]
		}
		var data srcRow
		for c := range data {
			v := from[c]
			if a.mod&moveColumn0 != 0 {
				v = from[0]
			}
			data[c] = narrowed(withoutDenormal(v, keep), formatB)
		}
		e.dst.move(m, row+i, &data)
	}
	return e.advance(t, a.mode, true)
}

func narrowed(v uint32, f arith.Format) uint32 {
	switch f {
	case arith.FP16:
		return v & 0x8FFFE000
	case arith.TF32:
		return v
	}
	return v & 0xFFFF0000
}

// Modes of ZEROACC, with the widths of Wormhole's field: bit 2 is for data of 32 bits.
const (
	clearRow    = 0
	clear16     = 1
	clearHalf   = 2
	clearAll    = 3
	clearWide   = 4
	clear16Wide = clear16 | clearWide
)

func (e *Engine) zeroacc(t *thread, a zeroaccArgs) bool {
	what := a.clear | a.wide<<2
	if a.revive != 0 && what != clear16Wide {
		return e.undefined("clearing of zero flags in mode %d", what)
	}
	offset := t.field(isa.ThreadDstOffset) + t.d.value
	ok := false
	switch {
	case what == clearRow:
		ok = e.clearRow(t, a.dst+offset)
	case what == clear16:
		ok = e.clearRows(t, a.dst, offset)
	case what == clear16Wide && !e.wormhole:
		ok = e.clearRowsWide(t, a.dst, offset, a.revive != 0)
	case what&3 == clearHalf:
		if a.dst > 1 {
			return e.nonContractual("half %d of Dst", a.dst)
		}
		e.zeroRows(a.dst*dstRows/2, dstRows/2)
		return true
	case what&3 == clearAll:
		if a.dst != 0 {
			return e.nonContractual("all of Dst from %d: want 0", a.dst)
		}
		e.zeroRows(0, dstRows)
		return true
	default:
		return e.unsupported("mode %d", what)
	}
	return ok && e.advance(t, a.mode, true)
}

func (e *Engine) clearRow(t *thread, row uint32) bool {
	switch {
	case row >= dstRows:
		return e.unimplemented("row %d of Dst", row)
	case e.on(t, isa.Int8Math):
		return e.unimplemented("one row, for integers of 8 bits")
	case e.on(t, isa.Fp32Dst):
		row = wideRow(row)
	}
	e.zeroRows(row, 1)
	return true
}

func (e *Engine) zeroRows(row, n uint32) {
	e.usesDst(row, n, false, true)
	e.dst.undefine(row, n)
}

// clearRows clears 16 rows; Blackhole counts from the thread's half of Dst.
func (e *Engine) clearRows(t *thread, i, offset uint32) bool {
	if !e.wormhole && !e.on(t, isa.ZeroAbsolute) && offset&512 != 0 {
		i += 32
	}
	if i >= dstRows/16 {
		return e.nonContractual("rows %d to %d of Dst", 16*i, 16*i+15)
	}
	e.zeroRows(16*i, 16)
	return true
}

// clearRowsWide makes rows valid again with revive, a workaround of a hardware bug.
func (e *Engine) clearRowsWide(t *thread, i, offset uint32, revive bool) bool {
	if !e.on(t, isa.ZeroAbsolute) && offset&768 != 0 {
		i += 16
	}
	if i >= dstRows/32 {
		return e.nonContractual("rows %d to %d of a Dst of 32 bits", 16*i, 16*i+15)
	}
	e.usesDst(32*i, 32, false, true)
	for row := range uint32(16) {
		e.dst.valid[32*i+row&8*2+row&7] = revive
	}
	return true
}
