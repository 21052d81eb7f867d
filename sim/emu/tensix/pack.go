package tensix

import (
	"math/bits"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Packers take data from Dst to L1. Wormhole has four, each for a tile or a quarter; Blackhole one
// with four read interfaces (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/Packers/README.md).

type packing struct {
	packPlan
	args    pacrArgs
	adc     *adc
	count   uint32 // data that each packer packs
	from    uint32 // row of Dst, before the packer's own offset
	packers uint32
	checked bool // that data which are no padding can be converted
}

func (e *Engine) pacr(t *thread, a pacrArgs) bool {
	p := packing{args: a, adc: &t.adc[adcPack]}
	if !e.pacrOperands(t, &p) || !e.planPack(t, &p) || !e.packFrom(t, &p) || !e.packAccumulation(t, &p) || !e.packCount(&p) {
		return false
	}
	for i := range p.packers {
		if !e.packOne(t, &p, i) {
			return false
		}
	}
	e.packer.open = a.last == 0 && a.flush == 0
	return e.packAdvance(t, p.adc, a.mode)
}

func (e *Engine) planPack(t *thread, p *packing) bool {
	plan := &e.packer.plan
	if plan.bank == t.bank && plan.version == e.version {
		p.packPlan = *plan
		return true
	}
	if !e.packFeatures(t) || !e.packFormats(t, p) {
		return false
	}
	p.bank, p.version, p.rows = t.bank, e.version, e.cfg(t, isa.PackRows)
	p.align = bytesOf(elementBits(p.in))
	for i, f := range []isa.Config{isa.PackXStride, isa.PackYStride, isa.PackZStride, isa.PackWStride} {
		if p.strides[i] = e.cfg(t, f); p.strides[i]%p.align != 0 {
			return e.undefined("stride %d of data of %d bytes", p.strides[i], p.align)
		}
	}
	for i := range p.places {
		p.places[i] = e.cfg(t, isa.PackDst+isa.Config(i))
	}
	p.sets = e.cfg(t, isa.EdgeRowSet)
	for set := range p.whole {
		p.whole[set] = e.edgesHideNothing(t, uint32(set), p.rows)
	}
	*plan = p.packPlan
	return true
}

func (e *Engine) edgesHideNothing(t *thread, set, rows uint32) bool {
	if e.on(t, isa.EdgeMode) {
		return false
	}
	for row := range rows {
		which := e.cfg(t, isa.RowSets+isa.Config(16*set+row))
		if which > 1 || e.cfg(t, isa.EdgeMask+isa.Config(which)) != 0xFFFF {
			return false
		}
	}
	return true
}

var (
	packerMasks    = formats(1<<1 | 1<<3 | 1<<15)
	interfaceMasks = formats(1<<0 | 1<<1 | 1<<3 | 1<<5 | 1<<10)
)

const (
	evenRows = 5
	oddRows  = 10
)

func (e *Engine) pacrOperands(t *thread, p *packing) bool {
	a := &p.args
	if !e.wormhole && (a.flush != 0 || a.context != 0) {
		return e.refuse(MissingSpecification, "flush %d, context %d: want 0", a.flush, a.context)
	}
	switch {
	case a.override != 0:
		return e.unsupported("counters of another thread")
	case e.wormhole && !packerMasks.has(a.packers):
		return e.unimplemented("packers %#x: want 1, 3 or 15", a.packers)
	case !e.wormhole && !interfaceMasks.has(a.interfaces):
		return e.unimplemented("read interfaces %#x: want 0, 1, 3, 5 or 10", a.interfaces)
	case a.zero != 0:
		return e.unimplemented("zeros instead of data")
	case a.counters != 0 || a.pad != 0 || a.config != 0:
		return e.refuse(MissingSpecification, "context of counters %d, padding of rows %d, context %d: want 0", a.counters, a.pad, a.config)
	case a.strided != 0 && !(e.on(t, isa.DstSwizzle) && e.on(t, isa.DstRemap)):
		return e.unimplemented("strided reads of a Dst whose addresses are not swizzled and remapped")
	}
	p.packers = 1
	if e.wormhole {
		p.packers = uint32(bits.OnesCount32(a.packers))
	}
	return true
}

var (
	unusedOfPackers = []isa.Config{
		isa.PackRowStarts, isa.PackNoExponents, isa.PackOutFIFO, isa.PackAddOffset, isa.PackSubHeader, isa.PackSource,
		isa.PackThreshold, isa.PackDownMask, isa.PackDownRate, isa.PackTransposed, isa.PackDstZ,
	}
	unusedOfWormhole  = []isa.Config{isa.PackForceRows, isa.PackCounterContext, isa.PackReadMode}
	unusedOfBlackhole = []isa.Config{isa.PackAddHeader, isa.PackAutoLast, isa.PackStartInterface}
)

var sameOfPackers = []isa.Config{isa.PackRows, isa.PackInFormat, isa.PackOutFormat}

func (e *Engine) packFeatures(t *thread) bool {
	n := isa.Config(1)
	also := unusedOfBlackhole
	if e.wormhole {
		n, also = numPackers, unusedOfWormhole
	}
	for i := range n {
		for _, list := range [][]isa.Config{unusedOfPackers, also} {
			for _, f := range list {
				if e.on(t, f+i) {
					return e.unsupported("bits of configuration word %d of packer %d are not supported", e.places[f+i].Word, i)
				}
			}
		}
		for _, f := range sameOfPackers {
			if e.cfg(t, f+i) != e.cfg(t, f) {
				return e.unsupported("configuration words %d and %d differ for packers 0 and %d", e.places[f].Word,
					e.places[f+i].Word, i)
			}
		}
	}
	if rows := e.cfg(t, isa.PackRows); rows < 1 || rows > 16 {
		return e.unsupported("faces of %d rows: want 1 to 16", rows)
	}
	return true
}

// packed lists the output formats of each input format, for 16-bit and 32-bit Dst.
var packed = [2][16]formats{
	{
		arith.FP16:  1<<arith.FP32 | 1<<arith.FP16 | 1<<arith.BF16,
		arith.BFP8A: 1 << arith.BFP8,
		arith.BF16:  1<<arith.FP32 | 1<<arith.BF16 | 1<<arith.BFP8 | 1<<arith.BFP4 | 1<<arith.BFP2,
		arith.BFP8:  1<<arith.FP32 | 1<<arith.BF16 | 1<<arith.BFP8 | 1<<arith.BFP4,
		arith.INT16: 1 << arith.INT16,
	},
	{
		arith.FP32:  1<<arith.FP32 | 1<<arith.FP16 | 1<<arith.BFP8 | 1<<arith.BFP4 | 1<<arith.BFP2,
		arith.BF16:  1 << arith.BF16,
		arith.BFP8:  1<<arith.BFP8 | 1<<arith.BFP4,
		arith.INT32: 1 << arith.INT32,
		arith.INT16: 1 << arith.INT16,
		arith.INT8:  1 << arith.INT8,
	},
}

var packedFP16 = [2]formats{1 << arith.LF8, 1<<arith.LF8 | 1<<arith.FP16}

func (e *Engine) packable(wide bool, in, out uint32) bool {
	i := 0
	if wide {
		i = 1
	}
	set := packed[i][in]
	if !e.wormhole && arith.Format(in) == arith.FP16 {
		set |= packedFP16[i]
	}
	return set.has(out)
}

func (e *Engine) packFormats(t *thread, p *packing) bool {
	p.in, p.out = e.cfg(t, isa.PackInFormat), e.cfg(t, isa.PackOutFormat)
	if mid := e.cfg(t, isa.DstFormat); mid != p.in {
		return e.undefined("Dst of %v for packers that read %v", arith.Format(mid), arith.Format(p.in))
	}
	in, out, wide := arith.Format(p.in), arith.Format(p.out), e.on(t, isa.PackRead32)
	if !e.packable(wide, p.in, p.out) {
		return e.unimplemented("%v as %v (32 bits: %v)", in, out, wide)
	}
	round := e.on(t, isa.PackRound10)
	switch {
	case in == arith.FP16 && wide:
		if !round {
			return e.unsupported("%v as %v from 32 bits without rounding to 10 bits of mantissa", in, out)
		}
	case round && out != arith.LF8:
		return e.unimplemented("%v as %v rounded to 10 bits of mantissa", in, out)
	}
	p.outBits, p.bfp = elementBits(p.out), blockFormat(p.out)
	p.conversion = arith.Pack{
		Mid: in, Out: out, Wide: wide, Round10: round,
		Unsigned:   e.on(t, isa.PackReadUnsigned),
		Relu:       arith.Relu(e.cfg(t, isa.Relu)),
		Threshold:  uint16(e.cfg(t, isa.ReluThreshold)),
		Accumulate: e.on(t, isa.PackAccumulate),
	}
	return true
}

func (e *Engine) packFrom(t *thread, p *packing) bool {
	in := &p.adc.channel[0]
	if in.x.value != 0 {
		return e.unimplemented("X counter %d of channel 0", in.x.value)
	}
	at := (in.y.value*p.strides[1] + in.z.value*p.strides[2] + in.w.value*p.strides[3]) / p.align
	if at%rowSize != 0 {
		return e.unimplemented("data at %d: want the start of a row", at)
	}
	p.from = at / rowSize
	return true
}

func (e *Engine) packAccumulation(t *thread, p *packing) bool {
	const accumulated formats = 1<<arith.FP32 | 1<<arith.FP16 | 1<<arith.BF16
	if p.conversion.Accumulate && !accumulated.has(p.out) {
		return e.unsupported("accumulation of %v", arith.Format(p.out))
	}
	if !e.wormhole {
		return true
	}
	for i := range isa.Config(numPackers) {
		if e.on(t, isa.PackAccumulate+i) != p.conversion.Accumulate {
			return e.unsupported("accumulation by some packers")
		}
	}
	return true
}

func (e *Engine) packCount(p *packing) bool {
	if p.args.flush == 0 {
		p.count = p.adc.channel[1].x.value - p.adc.channel[0].x.value + 1
	}
	if e.wormhole {
		if p.count > 256 || p.count&(p.count-1) != 0 {
			return e.unimplemented("%d data: want a power of two up to 256", p.count)
		}
		return true
	}
	if p.count != 16 && !(p.count == 8 && p.args.interfaces == 1) {
		return e.unimplemented("%d data of read interfaces %#x: want 16", p.count, p.args.interfaces)
	}
	if p.args.interfaces == 0 {
		p.count *= 4
	} else {
		p.count *= uint32(bits.OnesCount32(p.args.interfaces))
	}
	return true
}

func (e *Engine) packOne(t *thread, p *packing, i uint32) bool {
	set := p.sets >> (2 * i) & 3
	if set > 1 {
		return e.unimplemented("edges of set %d: want 0 or 1", set)
	}
	first := (p.from + p.places[i]) % dstRows
	if first+(p.count+rowSize-1)/rowSize > dstRows {
		return e.unimplemented("%d data from row %d of Dst on", p.count, first)
	}
	at := &e.packer.place[i]
	if !e.packer.open && !e.packBegin(t, p, at, i) {
		return false
	}
	if p.outBits <= 8 && p.count%16 != 0 {
		return e.unimplemented("%d data of %v: want a multiple of 16", p.count, arith.Format(p.out))
	}
	for i := uint32(0); i < p.count; i += 8 * rowSize {
		e.usesDst(p.row(first, i/rowSize)%dstRows, min(8, (p.count-i+rowSize-1)/rowSize), p.conversion.Wide, false)
	}
	if p.count != 0 && !e.packRows(t, p, at, set, first) {
		return false
	}
	at.data += p.outBits * p.count / 8
	at.exponents += p.count / 16
	return p.args.last == 0 && p.args.flush == 0 || e.packPad(at.data) && (!p.bfp || e.packPad(at.exponents))
}

func (e *Engine) packBegin(t *thread, p *packing, at *packPlace, i uint32) bool {
	out := &p.adc.channel[1]
	switch {
	case out.z.value != 0 || out.w.value != 0:
		return e.unimplemented("Z and W counters %d, %d of channel 1", out.z.value, out.w.value)
	case e.on(t, isa.PackOutBase):
		return e.unimplemented("PCK0_ADDR_BASE_REG_1_Base %#x", e.cfg(t, isa.PackOutBase))
	case e.wormhole && out.y.value != 0:
		return e.unimplemented("Y counter %d of channel 1", out.y.value)
	}
	// Addresses are in units of 16 bytes, less one. Later packers' may be relative to the first
	// one's.
	const relative = 1 << 31
	addr := e.cfg(t, isa.PackOut+isa.Config(i)) + 1
	if base := e.cfg(t, isa.PackOut) + 1; e.wormhole && i > 0 && base&relative != 0 {
		addr += base
	}
	addr += out.y.value * e.cfg(t, isa.PackOutYStride) >> 4
	*at = packPlace{exponents: addr << 4}
	if p.outBits <= 8 {
		addr += e.cfg(t, isa.PackExponents+isa.Config(i))
	}
	at.data = addr << 4
	return true
}

// edge returns which of the n data from column c of the face on are no padding, and moves on in the
// face. Data are counted from the start of a row of Dst.
func (e *Engine) edge(t *thread, p *packing, at *packPlace, set, n uint32) (uint32, bool) {
	keep := uint32(0)
	for i := uint32(0); i < n; {
		which := e.cfg(t, isa.RowSets+isa.Config(16*set+at.row%16))
		if which > 1 {
			return 0, e.unimplemented("edge mask %d: want 0 or 1", which)
		}
		mask := e.cfg(t, isa.EdgeMask+isa.Config(which))
		switch {
		case mask > 1 && mask != 0xFFFF:
			return 0, e.refuse(UntestedFunctionality, "edge mask %#x: only 0, 1 and 0xFFFF have been validated", mask)
		case e.on(t, isa.EdgeMode):
			return 0, e.unimplemented("edges filled with the least number")
		}
		run := min(n-i, rowSize-at.column)
		keep |= mask & ((1<<run - 1) << i)
		i += run
		if at.column += run; at.column == rowSize {
			at.column = 0
			if at.row++; at.row == p.rows {
				at.row = 0
			}
		}
	}
	return keep, true
}

func (p *packing) row(first, i uint32) uint32 {
	switch {
	case p.args.strided != 0:
		return first + 16*i
	case p.args.interfaces == evenRows:
		return first + 2*i
	case p.args.interfaces == oddRows:
		return first + 2*i + 1
	}
	return first + i
}

func (e *Engine) packCheck(t *thread, p *packing) bool {
	c, format := &p.conversion, formats(1)<<p.in
	const (
		raw   formats = 1<<arith.FP16 | 1<<arith.BFP8A | 1<<arith.BF16 | 1<<arith.BFP8 | 1<<arith.INT8
		relus formats = 1<<arith.FP32 | 1<<arith.FP16 | 1<<arith.BFP8A | 1<<arith.BF16 | 1<<arith.BFP8 | 1<<arith.INT32
	)
	strided := p.args.strided != 0 && p.args.interfaces != 0 && p.args.interfaces != 1 && p.args.interfaces != 3
	isRaw := e.on(t, isa.PackReadRaw) && raw&format != 0
	if c.Mid == arith.FP16 && (c.Wide || c.Round10) { // Blackhole
		isRaw = false
	}
	switch {
	case strided:
		return e.unimplemented("strided reads by read interfaces %#x", p.args.interfaces)
	case isRaw:
		return e.unimplemented("%v read as it is", c.Mid)
	case c.Relu > arith.ReluMax:
		return e.unsupported("ReLU mode %d", c.Relu)
	case c.Relu != arith.ReluOff && c.Threshold&0x8000 != 0:
		return e.undefined("negative ReLU threshold %#x", c.Threshold)
	case c.Relu != arith.ReluOff && relus&format == 0:
		return e.unimplemented("ReLU of %v", c.Mid)
	case c.Relu > arith.ReluZero && c.Mid == arith.INT32:
		return e.unimplemented("ReLU mode %d of %v", c.Relu, c.Mid)
	case c.Mid == arith.FP16 && c.Out == arith.LF8 && !e.on(t, isa.PackFP8E4):
		return e.unimplemented("%v with exponents of 5 bits", c.Out)
	}
	p.checked = true
	return true
}

func (e *Engine) packRows(t *thread, p *packing, at *packPlace, set, first uint32) bool {
	values := e.buffer().values[:p.count]
	if e.packWhole(p, at, set, first) {
		if !p.checked && !e.packCheck(t, p) {
			return false
		}
		for i := uint32(0); i < p.count; i += rowSize {
			row, from := (*srcRow)(values[i:]), p.row(first, i/rowSize)
			if e.dst.unwritten != nil && e.unwritten(from, 1, p.conversion.Wide) {
				return false
			}
			e.convertRow(p, row, from)
			if p.bfp && !e.packBlock(p, at.data+p.outBits*i/8, at.exponents+i/16, row) {
				return false
			}
		}
		at.row = (at.row + p.count/rowSize) % p.rows
		if !p.bfp {
			e.packStore(p, at.data, values)
		}
		return true
	}
	for i := uint32(0); i < p.count; i += rowSize {
		n := min(p.count-i, rowSize)
		keep, ok := e.edge(t, p, at, set, n)
		if !ok || keep != 0 && !p.checked && !e.packCheck(t, p) {
			return false
		}
		var row srcRow
		if keep != 0 && !e.packRow(p, &row, p.row(first, i/rowSize)) {
			return false
		}
		for c := range n {
			if keep>>c&1 == 0 {
				row[c] = 0
			}
		}
		copy(values[i:], row[:n])
		bit := at.data<<3 + p.outBits*i
		if last := bit + p.outBits*(n-1); bit+p.outBits > 8*e.tile.L1Size() || last+p.outBits > 8*e.tile.L1Size() {
			return e.undefined("datum at %#x, outside of L1", bit>>3)
		}
		if p.bfp && !e.packBlock(p, bit>>3, at.exponents+i/16, &row) {
			return false
		}
	}
	if !p.bfp {
		e.packStore(p, at.data<<3>>3, values) // addresses are of bits
	}
	return true
}

// packWhole reports whether data are whole rows, unmasked by edges and inside of Dst and L1.
func (e *Engine) packWhole(p *packing, at *packPlace, set, first uint32) bool {
	n := p.count / rowSize
	return p.whole[set] && p.count%rowSize == 0 && at.column == 0 && at.row < p.rows && p.row(first, n-1) < dstRows &&
		at.data < e.tile.L1Size() && at.data+p.outBits*p.count/8 <= e.tile.L1Size()
}

func (e *Engine) packRow(p *packing, values *srcRow, row uint32) bool {
	if row >= dstRows {
		return e.undefined("row %d of Dst", row)
	}
	if e.unwritten(row, 1, p.conversion.Wide) {
		return false
	}
	e.convertRow(p, values, row)
	return true
}

func (e *Engine) convertRow(p *packing, values *srcRow, row uint32) {
	var zero dstRow
	high, low := &zero, &zero
	at := row
	if p.conversion.Wide {
		at = wideRow(row)
	}
	if e.dst.valid[at] {
		high = &e.dst.rows[at]
		if p.conversion.Wide {
			low = &e.dst.rows[at+wideLow]
		}
	}
	p.conversion.Row(values, high, low)
}

func (e *Engine) packStore(p *packing, addr uint32, values []uint32) {
	buf := e.buffer().bytes[:uint32(len(values))*p.outBits/8]
	words := e.tile.L1(addr + uint32(len(buf)))
	data := view(words, addr, buf)
	if p.conversion.Accumulate {
		e.tile.Loaded(addr, len(data))
	}
	p.conversion.Store(data, values)
	e.tile.Stored(addr, len(data))
}

func (e *Engine) packBlock(p *packing, addr, exponent uint32, values *srcRow) bool {
	if exponent >= e.tile.L1Size() {
		return e.undefined("exponent at %#x, outside of L1", exponent)
	}
	data := e.buffer().bytes[:2*p.outBits]
	shared := e.buffer().exponents[:1]
	shared[0] = p.conversion.Out.StoreBlock(data, values)
	words := e.tile.L1(max(addr+uint32(len(data)), exponent+1))
	setWordBytes(words, exponent, shared)
	setWordBytes(words, addr, data)
	e.tile.Stored(exponent, 1)
	e.tile.Stored(addr, len(data))
	return true
}

func (e *Engine) packPad(from uint32) bool {
	n := -from % 16
	if n == 0 {
		return true
	}
	if from+n > e.tile.L1Size() {
		return e.undefined("padding up to %#x, outside of L1", from+n)
	}
	var zeros [16]byte
	setWordBytes(e.tile.L1(from+n), from, zeros[:n])
	e.tile.Stored(from, int(n))
	return true
}

func (t *thread) packMode(i uint32) *packMode {
	m := &t.packModes[i]
	if t.packModesKnown>>i&1 != 0 {
		return m
	}
	at := isa.Thread(i)
	*m = packMode{
		yIn:  t.step(at, isa.ThreadPackModeYSrcIncrement, isa.ThreadPackModeYSrcClear, isa.ThreadPackModeYSrcCarry),
		yOut: t.step(at, isa.ThreadPackModeYDstIncrement, isa.ThreadPackModeYDstClear, isa.ThreadPackModeYDstCarry),
		zIn:  step{by: t.field(isa.ThreadPackModeZSrcIncrement + at), clear: t.field(isa.ThreadPackModeZSrcClear+at) != 0},
		zOut: step{by: t.field(isa.ThreadPackModeZDstIncrement + at), clear: t.field(isa.ThreadPackModeZDstClear+at) != 0},
	}
	t.packModesKnown |= 1 << i
	return m
}

func (e *Engine) packAdvance(t *thread, c *adc, mode uint32) bool {
	m := t.packMode(mode)
	if m.yOut.carry {
		return e.unimplemented("address mode %d restores the Y counter of channel 1", mode)
	}
	in, out := &c.channel[0], &c.channel[1]
	in.y.advance(&m.yIn, sizeY)
	out.y.advance(&m.yOut, sizeY)
	in.z.advance(&m.zIn, sizeZ)
	out.z.advance(&m.zOut, sizeZ)
	return true
}
