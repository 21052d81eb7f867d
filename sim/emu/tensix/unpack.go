package tensix

import (
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Unpackers take data from L1: unit 0 to SrcA or Dst, unit 1 to SrcB (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/Unpackers/README.md, UNPACR_Regular.md, UNPACR_NOP*.md).

type unpacking struct {
	unit, context uint32
	adc           *adc
	xy            *adc // whose X and Y say what is read

	in, out         uint32 // formats
	inBits, outBits uint32
	bfp, forced     bool // block format; with an exponent from the configuration

	zero                   bool // zeros instead of data
	toDst, haloize, tilize bool

	first     uint32 // bit of L1 where the data start
	rowWidth  uint32 // data that follow each other in L1
	rowStride uint32 // bytes from one such row to the next
	exponents uint32 // of the first datum, in sixteenths of a byte of L1
	to        uint32 // datum of the register where they go
	count     uint32
	dropped   uint32 // of them that go nowhere, the first ones
}

// Contexts that software fills, and those of unpacker 0.
const (
	numContexts     = 2
	unpack0Contexts = 8
)

// zerosContext of Wormhole's unpacker 0 only gives zeros, as its addresses are never set. tt-llk
// uses it after a tile that went to Dst, because it adds the context just used to the thread's
// (unpack_to_dest_tile_done in cunpack_common.h, a workaround of hardware bug TEN-3868).
//
// The zeros go to rows that unpacker 0's addresses skip (firstRows). After a tilized tile the
// counters point to row 64 of SrcA, which documents leave undefined; here it is row 0, as on
// Blackhole.
const zerosContext = 2

// An UNPACR's own context counts from the thread's.
func (t *thread) unpackContext(a *unpacrArgs) uint32 {
	c := t.field(isa.ThreadUnpackContext + isa.Thread(a.unit))
	if a.context != 0 {
		c = (c + a.context) % unpack0Contexts
	}
	return c
}

// Arrays of fields have the first two contexts of each unpacker first.
func contextIndex(unit, context uint32) isa.Config {
	if context == zerosContext {
		return 2 * numContexts
	}
	return isa.Config(numContexts*unit + context)
}

func (e *Engine) unpacr(t *thread, a unpacrArgs) bool {
	if !e.unpacrOperands(&a) {
		return false
	}
	s, _ := e.source(a.unit)
	if s.unpackValid() {
		return false
	}
	u := unpacking{unit: a.unit, adc: &t.adc[a.unit], xy: &t.adc[a.unit], context: t.unpackContext(&a), zero: a.zero != 0}
	if a.counters != 0 {
		u.xy = &e.threads[a.counters].adc[a.unit]
	}
	if !e.knownContext(&u, a.context != 0) || !e.unpackFormats(t, &u) || !e.unpackFrom(t, &u) || !e.unpackTo(t, &u) ||
		!e.unpackExtras(t, &u) ||
		!e.unpackBursts(t, &u) || !e.unpackData(t, &u) {
		return false
	}
	u.adc.advance(a.mode)
	if u.xy != u.adc {
		u.xy.advance(a.mode)
	}
	if a.valid == 0 {
		if e.on(t, isa.UnpackSetUpdate) || e.on(t, isa.UnpackSetUpdate+1) {
			return e.unsupported("a bank that changes without becoming valid")
		}
		return true
	}
	s.format[s.unpack] = u.out
	return e.fillSource(t, a.unit)
}

func (c *adc) advance(mode uint32) {
	in, out := &c.channel[0], &c.channel[1]
	in.z.value = (in.z.value + mode&3) % sizeZ
	in.y.value = (in.y.value + mode>>2&3) % sizeY
	out.z.value = (out.z.value + mode>>4&3) % sizeZ
	out.y.value = (out.y.value + mode>>6&3) % sizeY
}

func (e *Engine) unpacrOperands(a *unpacrArgs) bool {
	switch {
	case a.last == 0:
		return e.unsupported("not the last of a tile")
	case a.override == 0:
		return e.unsupported("counters of another thread")
	case a.flush|a.search|a.autoIncrement|a.broadcast|a.rareb|a.contextIncrement != 0:
		return e.unsupported("search, broadcast, or contexts that count: want 0")
	case a.counters >= numThreads:
		return e.undefined("counters of thread %d: there are %d", a.counters, numThreads)
	}
	return true
}

// own is set if the instruction names a context.
func (e *Engine) knownContext(u *unpacking, own bool) bool {
	switch {
	case u.context < numContexts, u.context == zerosContext && e.wormhole && u.unit == 0 && u.zero:
		return true
	case u.unit == 1 && own: // the vendor's simulator doesn't get here
		return e.undefined("context %d of unpacker 1: want 0 or 1", u.context)
	}
	return e.unimplemented("context %d: want 0 or 1", u.context)
}

func (e *Engine) unpackFormats(t *thread, u *unpacking) bool {
	unit := isa.Config(u.unit)
	switch {
	case !e.on(t, isa.UnpackUncompressed+contextIndex(u.unit, u.context)):
		return e.unsupported("compressed data")
	case e.on(t, isa.UnpackOverrideFormat+unit):
		return e.unsupported("a format of the context's own")
	}
	u.in, u.out = e.cfg(t, isa.UnpackDescriptor+unit)&15, e.cfg(t, isa.UnpackOutFormat+unit)
	const ofFP32 formats = 1<<arith.FP32 | 1<<arith.FP16 | 1<<arith.TF32 | 1<<arith.BF16
	if u.in != u.out && (u.in != uint32(arith.FP32) || !ofFP32.has(u.out)) {
		return e.undefined("%v to %v", arith.Format(u.in), arith.Format(u.out))
	}
	u.inBits, u.outBits = elementBits(u.in), elementBits(u.out)
	if u.inBits == 0 || u.outBits == 0 {
		return e.unimplemented("%v to %v", arith.Format(u.in), arith.Format(u.out))
	}
	u.bfp, u.forced = blockFormat(u.in), e.on(t, isa.UnpackForceExponent+unit)
	return true
}

func (e *Engine) unpackFrom(t *thread, u *unpacking) bool {
	unit, align := isa.Config(u.unit), bytesOf(u.outBits)
	for _, f := range []isa.Config{isa.UnpackYStride, isa.UnpackZStride, isa.UnpackWStride} {
		if v := e.cfg(t, f+unit); v%align != 0 {
			return e.unsupported("stride %d of data of %d bytes", v, align)
		}
	}
	u.haloize, u.tilize = e.on(t, isa.UnpackHaloize+unit), e.on(t, isa.UnpackTilize+unit)
	if u.haloize && u.unit == 1 {
		return e.nonContractual("unpacker 1 doesn't transpose")
	}
	u.rowWidth = 16
	if !e.wormhole && u.inBits > 8 {
		u.rowWidth = 32
	}
	u.rowStride = u.inBits * u.rowWidth / 8
	if u.tilize {
		switch {
		case u.inBits < 8:
			return e.undefined("tilizing of data of %d bits", u.inBits)
		case u.unit == 1:
			return e.unimplemented("tilizing by unpacker 1")
		}
		u.rowStride = e.cfg(t, isa.UnpackShift0)<<4 | e.cfg(t, isa.UnpackShift1)<<8 | e.cfg(t, isa.UnpackShift2)<<12
	}
	return e.unpackAddress(t, u)
}

// The exponents come before the data in L1.
func (e *Engine) unpackAddress(t *thread, u *unpacking) bool {
	unit := isa.Config(u.unit)
	low, high := e.cfg(t, isa.UnpackDescriptor+unit), e.cfg(t, isa.UnpackDescriptor1+unit)
	x := low >> 16
	if u.unit == 0 {
		x = e.cfg(t, isa.UnpackXDim+isa.Config(u.context))
	}
	y, z := high&0xFF, high>>16&0xFF
	if z == 0 {
		z = 1
	}
	context := contextIndex(u.unit, u.context)
	base := (e.cfg(t, isa.UnpackBase+context) + e.cfg(t, isa.UnpackOffset+context) + 1) << 4
	u.exponents = base << 4
	if u.bfp && !u.forced {
		if low>>5&1 != 0 {
			return e.unsupported("blocks without exponents")
		}
		base += ((x*y*z+15)/16 + 15) &^ 15
	}
	c, xy := &u.adc.channel[0], &u.xy.channel[0]
	datum := xy.x.value + xy.y.value*x + c.z.value*x*y + c.w.value*x*y*z
	u.exponents += datum
	u.first = base<<3 + datum*u.inBits
	if (u.haloize || u.tilize) && u.first%128 != 0 {
		return e.undefined("data at %#x: want a multiple of 16", u.first/8)
	}
	return true
}

// firstRows is the data of SrcA and Dst that unpacker 0's addresses skip.
const firstRows = 4 * rowSize

func (e *Engine) unpackTo(t *thread, u *unpacking) bool {
	unit := isa.Config(u.unit)
	if u.unit == 0 {
		u.toDst = e.on(t, isa.UnpackToDstContext+contextIndex(0, u.context))
	}
	out := &u.adc.channel[1]
	switch {
	case u.toDst && u.haloize:
		return e.undefined("data for Dst that are transposed")
	case out.w.value != 0:
		return e.refuse(UntestedFunctionality, "W counter %d of channel 1", out.w.value)
	}
	u.to = (out.y.value*e.cfg(t, isa.UnpackYStride+unit) + out.z.value*e.cfg(t, isa.UnpackZStride+unit)) / bytesOf(u.outBits)
	if u.unit == 0 {
		at := e.cfg(t, isa.UnpackDst+isa.Config(u.context))
		if u.toDst || e.on(t, isa.UnpackAddDst) {
			u.to += at
		} else {
			u.to = at
		}
		switch {
		case u.to >= firstRows:
			u.to -= firstRows
		case u.zero && !u.toDst && e.wormhole:
			u.dropped, u.to = firstRows-u.to, 0
		default:
			return e.unsupported("data at %d: the first %d are none", u.to, firstRows)
		}
	}
	if (u.to|u.dropped)%rowSize != 0 {
		return e.unsupported("data at %d: want the start of a row", u.to)
	}
	return true
}

func (e *Engine) unpackExtras(t *thread, u *unpacking) bool {
	unit := isa.Config(u.unit)
	shift := uint32(0)
	if !u.tilize && u.unit == 0 {
		shift = e.cfg(t, isa.UnpackShift0)
		switch u.context {
		case 1:
			shift = e.cfg(t, isa.UnpackShift1)
		case 2:
			shift = e.cfg(t, isa.UnpackShift2)
		}
	}
	first, last := u.xy.channel[0].x.value, u.xy.channel[1].x.value
	byAddress := t.field(isa.ThreadSrcASetByAddress) != 0
	switch {
	case e.on(t, isa.UnpackUpsample+unit), e.on(t, isa.UnpackInterleave+unit):
		return e.unsupported("upsampling")
	case shift != 0:
		return e.unsupported("data shifted by %d columns", shift)
	case first > last:
		return e.unsupported("X counters from %d to %d", first, last)
	case u.toDst && byAddress:
		return e.undefined("SRCA_SET_SetOvrdWithAddr for data for Dst")
	case !u.toDst && !byAddress:
		return e.unsupported("no SRCA_SET_SetOvrdWithAddr")
	case e.wormhole && e.cfg(t, isa.UnpackThrottle+unit) > 2:
		return e.undefined("throttle mode %d", e.cfg(t, isa.UnpackThrottle+unit))
	}
	u.count = last - first + 1
	u.dropped = min(u.dropped, u.count)
	return true
}

// unpackBursts refuses data for SrcA that start within a burst: hardware drops writes where a burst
// crosses a set of 16 rows.
func (e *Engine) unpackBursts(t *thread, u *unpacking) bool {
	const x4, x8 = 2, 3
	if u.toDst || u.unit == 1 || u.count <= rowSize {
		return true
	}
	throttle := e.cfg(t, isa.UnpackThrottle)
	switch {
	case u.inBits == 2:
		throttle = 0
	case u.tilize:
		throttle = x4
	case !e.wormhole && !e.on(t, isa.UnpackOwnThrottle):
		throttle = x4
		if u.inBits == 8 {
			throttle = x8
		}
	}
	bytes := uint32(16) << throttle
	if !e.wormhole && throttle == x4 && u.inBits >= 16 {
		bytes = 128
	}
	rows := min(max(bytes/(2*u.inBits), 1), 8)
	if start := u.to / rowSize; start%rows != 0 {
		return e.unsupported("row %d of SrcA in bursts of %d rows", start, rows)
	}
	return true
}

const (
	toSources formats = 1<<arith.FP16 | 1<<arith.BF16 | 1<<arith.BFP8 | 1<<arith.BFP4 | 1<<arith.BFP2 |
		1<<arith.INT16 | 1<<arith.LF8 | 1<<arith.INT8
	toSourcesFP32 formats = 1<<arith.FP16 | 1<<arith.TF32 | 1<<arith.BF16
	toDstFP32     formats = 1<<arith.FP32 | 1<<arith.TF32
)

// convertible lets zeros pass: documents convert data before replacing them, but tt-llk zeroes data
// whose format SrcA can't have (see zerosContext).
func (e *Engine) convertible(u *unpacking) bool {
	if u.zero && e.wormhole {
		return true
	}
	cat, ok := UnimplementedFunctionality, false
	switch {
	case u.in == uint32(arith.FP32):
		ok = u.toDst && toDstFP32.has(u.out) || !u.toDst && toSourcesFP32.has(u.out)
		if !u.toDst {
			cat = UndefinedBehavior
		}
	case u.in == uint32(arith.INT32):
		ok, cat = u.toDst, UndefinedBehavior
	default:
		ok = !u.toDst && toSources.has(u.in)
	}
	if ok {
		return true
	}
	where := "a source"
	if u.toDst {
		where = "Dst"
	}
	return e.refuse(cat, "%v as %v to %s", arith.Format(u.in), arith.Format(u.out), where)
}

// fits reports whether consecutive data and exponents are inside of L1 and the register.
func (u *unpacking) fits(size uint32) bool {
	rows := uint32(srcRows)
	if u.toDst {
		rows = dstRows
	}
	first, last := u.at(0), u.at(u.count-1)
	return !u.tilize && first <= last && last+u.inBits <= size*8 && u.to < rows*rowSize && u.count <= rows*rowSize-u.to &&
		(!u.bfp || u.forced || u.exponents/16 < size && (u.exponents+u.count-1)/16 < size)
}

func (e *Engine) unpackLimit(u *unpacking) bool {
	if !u.zero && u.fits(e.tile.L1Size()) {
		return e.convertible(u)
	}
	for i := uint32(0); i < u.count; i += rowSize {
		if !e.unpackInside(u, i) {
			return false
		}
		switch row := (u.to + i - min(i, u.dropped)) / rowSize; {
		case i == 0 && !e.convertible(u):
			return false
		case u.zero && !e.wormhole:
			return e.refuse(UntestedFunctionality, "zeros instead of data")
		case u.toDst && row >= dstRows:
			return e.unimplemented("row %d of Dst", row)
		case !u.toDst && u.unit == 1 && row >= srcRows:
			return e.undefined("row %d of SrcB", row)
		case !u.toDst && u.unit == 0 && row >= srcRows && e.wormhole && !u.zero:
			return e.unsupported("row %d of SrcA", row)
		}
		if !e.unpackInside(u, min(i+rowSize, u.count)-1) {
			return false
		}
	}
	return true
}

func (u *unpacking) at(i uint32) uint32 {
	return u.first + u.inBits*(i%u.rowWidth) + u.rowStride*8*(i/u.rowWidth)
}

func (e *Engine) unpackInside(u *unpacking, i uint32) bool {
	size := e.tile.L1Size()
	if at := u.at(i); at+u.inBits > size*8 {
		return e.undefined("datum at %#x, outside of L1", at/8)
	}
	if at := (u.exponents + i) / 16; u.bfp && !u.forced && at >= size {
		return e.undefined("exponent at %#x, outside of L1", at)
	}
	return true
}

func (u *unpacking) end(size uint32) uint32 {
	end := u.at(u.count-1)/8 + 4
	if u.bfp && !u.forced {
		end = max(end, (u.exponents+u.count)/16+1)
	}
	return min(end, size)
}

func (e *Engine) unpackData(t *thread, u *unpacking) bool {
	if !e.unpackLimit(u) {
		return false
	}
	if u.zero {
		e.unpackZeros(u)
		return true
	}
	unit := isa.Config(u.unit)
	conversion := arith.Unpack{
		Arch: e.chip, In: arith.Format(u.in), Out: arith.Format(u.out),
		Exp4:           e.on(t, isa.UnpackFP8E4+unit),
		Unsigned:       e.on(t, isa.SrcUnsigned+unit),
		Forced:         u.forced,
		SharedExponent: uint8(e.cfg(t, isa.UnpackExponent+unit)),
	}
	step := uint32(unpackChunk)
	if u.tilize {
		step = u.rowWidth
	}
	words := e.tile.L1(u.end(e.tile.L1Size()))
	for i := uint32(0); i < u.count; i += step {
		n := min(step, u.count-i)
		if to, ok := e.unpackRows(u, u.to+i, n); ok {
			e.chunk(&conversion, u, words, i, to)
			continue
		}
		e.unpackValues(u, u.to+i, e.chunk(&conversion, u, words, i, e.buffer().values[:n]))
	}
	return true
}

func (e *Engine) unpackZeros(u *unpacking) {
	n := u.count - u.dropped
	for i := uint32(0); i < n; i += unpackChunk {
		values := e.buffer().values[:min(unpackChunk, n-i)]
		clear(values)
		e.unpackValues(u, u.to+i, values)
	}
}

func (e *Engine) unpackValues(u *unpacking, to uint32, values []uint32) {
	if u.toDst {
		e.unpackDst(u, to, values)
	} else {
		e.unpackSource(u, to, values)
	}
}

// unpackRows is false unless data are whole rows, not transposed.
func (e *Engine) unpackRows(u *unpacking, to, n uint32) ([]uint32, bool) {
	if u.toDst || u.haloize || n%rowSize != 0 || to/rowSize+n/rowSize > srcRows {
		return nil, false
	}
	s, _ := e.source(u.unit)
	return flat(s.change(s.unpack), to/rowSize, n/rowSize), true
}

func (e *Engine) chunk(conversion *arith.Unpack, u *unpacking, words []uint32, i uint32, values []uint32) []uint32 {
	b, n := e.buffer(), uint32(len(values))
	at := u.at(i)
	data := view(words, at/8, b.bytes[:(at%8+n*u.inBits+7)/8])
	e.tile.Loaded(at/8, len(data))
	if u.toDst {
		conversion.DstElements(values, data)
		return values
	}
	var exponents []byte
	first := u.exponents + i
	if u.bfp && !u.forced {
		exponents = view(words, first/16, b.exponents[:(first%16+n+15)/16])
		e.tile.Loaded(first/16, len(exponents))
	}
	conversion.Elements(values, data, int(at%8), exponents, int(first%16))
	return values
}

func (e *Engine) unpackDst(u *unpacking, to uint32, values []uint32) {
	e.usesDst(to/rowSize, uint32(len(values)+rowSize-1)/rowSize, true, true)
	if e.hazards != nil {
		e.hazards.threads[e.issuer].toDst = true
	}
	for i, v := range values {
		at := to + uint32(i)
		e.dst.write32(at/rowSize, at%rowSize, v)
	}
}

func (e *Engine) unpackSource(u *unpacking, to uint32, values []uint32) {
	s, _ := e.source(u.unit)
	rows := s.change(s.unpack)
	for i := 0; i < len(values); i += rowSize {
		row := (to + uint32(i)) / rowSize % srcRows
		part := values[i:min(i+rowSize, len(values))]
		if !u.haloize {
			copy(rows[row][:], part)
			continue
		}
		for c, v := range part {
			rows[row&^15|uint32(c)][row&15] = v
		}
	}
}

const (
	nopClear  = 1
	nopLowest = 5
	nopValid  = 7
)

func (e *Engine) unpacrnop(t *thread, a unpacrnopArgs) bool {
	var clearBank, lowest, valid bool
	if e.wormhole {
		if a.op != nopClear && a.op != nopLowest && a.op != nopValid {
			return e.unsupported("operation %d: want %d, %d or %d", a.op, nopClear, nopLowest, nopValid)
		}
		clearBank, lowest, valid = a.op != nopValid, a.op == nopLowest, a.op == nopValid
	} else {
		if !e.unpacrnopOperands(&a) {
			return false
		}
		clearBank, lowest, valid = true, a.fill != 0, a.valid != 0
	}
	s, _ := e.source(a.unit)
	if clearBank {
		if s.valid[s.unpack] && a.waitUnpack != 0 || s.valid[s.matrix] && a.waitUnpack == 0 {
			return false
		}
		if lowest && a.unit == 1 {
			return e.unimplemented("SrcB filled with what is less than all numbers")
		}
		s.fillRows(lowest)
	}
	if !valid {
		return true
	}
	format := &s.format[s.unpack]
	if !e.fillSource(t, a.unit) {
		return false
	}
	*format = e.cfg(t, isa.UnpackOutFormat+isa.Config(a.unit))
	return true
}

func (e *Engine) unpacrnopOperands(a *unpacrnopArgs) bool {
	switch {
	case a.pop != 1:
		return e.unimplemented("operation %d: want 1", a.pop)
	case a.fill > 1 || a.banks != 0 || a.ones != 0:
		return e.unimplemented("fill %d of banks %d with format %d: want 0 or 1, 0, 0", a.fill, a.banks, a.ones)
	case a.messages != 0 || a.stream != 0:
		return e.unsupported("messages %d of stream %d: want 0", a.messages, a.stream)
	}
	return true
}
