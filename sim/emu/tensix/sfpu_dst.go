package tensix

import (
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Modes of SFPLOAD and SFPSTORE: the encoding of a datum in Dst (SFPLOAD.md, SFPSTORE.md).
const (
	sfpuConfigured = 0  // as the configuration of the ALU says
	sfpuFP16       = 1  // 16 bits
	sfpuBF16       = 2  // 16 bits
	sfpuFP32       = 3  // 32 bits; a store flushes denormals
	sfpuInt32      = 4  // 32 bits, as they are
	sfpuUint16     = 6  // 16 bits, unshuffled
	sfpuRaw32      = 7  // 32 bits, unshuffled
	sfpuSwapped    = 9  // 32 bits, unshuffled, halves swapped
	sfpuSignMag    = 12 // 32 bits, sign and magnitude; two's complement in the lanes of Wormhole
	sfpuLower16    = 14 // 16 bits, unshuffled: the lower half of the register
	sfpuUpper16    = 15 // 16 bits, unshuffled: the upper half of the register
)

// Modes that instructions may name.
const (
	loadModes = 1<<sfpuConfigured | 1<<sfpuBF16 | 1<<sfpuFP32 | 1<<sfpuInt32 | 1<<sfpuUint16 | 1<<sfpuSignMag |
		1<<sfpuLower16 | 1<<sfpuUpper16
	storeModes = loadModes | 1<<sfpuRaw32 | 1<<sfpuSwapped
)

// sfpuMode returns the configured mode; formats select bf16.
func (e *Engine) sfpuMode(t *thread, formats modeSet) (mode uint32, ok bool) {
	if e.on(t, isa.Fp32SFPU) {
		return sfpuFP32, true
	}
	switch f := e.cfg(t, isa.SrcBFormat); {
	case formats>>f&1 != 0:
		return sfpuBF16, true
	case arith.Format(f) == arith.FP16:
		return sfpuFP16, true
	default:
		return 0, e.unimplemented("Dst as SrcB's format %v", arith.Format(f))
	}
}

const (
	loadFormats  modeSet = 1<<arith.FP32 | 1<<arith.BF16 | 1<<arith.BFP8 | 1<<arith.BFP4 | 1<<arith.INT16
	storeFormats         = loadFormats | 1<<arith.BFP2
)

func (e *Engine) access(t *thread, a *sfploadArgs, taken, formats modeSet) (p place, ok bool) {
	if a.dst&1 != 0 {
		return p, e.unimplemented("row %d of Dst, which is odd", a.dst)
	}
	if !e.accept(UnimplementedFunctionality, a.mod, taken) {
		return p, false
	}
	if a.mod == sfpuConfigured {
		if a.mod, ok = e.sfpuMode(t, formats); !ok {
			return p, false
		}
	}
	return e.sfpuPlace(t, a.dst)
}

func (e *Engine) sfpuPlace(t *thread, dst uint32) (p place, ok bool) {
	if p, ok = t.lanesPlace(dst); !ok {
		return place{}, e.unsupported("row %d of Dst, which is odd", t.dstRow(dst))
	}
	return p, true
}

// lanesPlace is false for odd rows.
func (t *thread) lanesPlace(dst uint32) (p place, ok bool) {
	row := t.dstRow(dst)
	return place{row &^ 3, row >> 1 & 1}, row&1 == 0
}

func (e *Engine) gather(p place, wide bool) (values lreg) {
	e.usesDst(p.row, 4, wide, false)
	for r := range uint32(numLanes / rowLanes) {
		to := (*[rowLanes]uint32)(values[r*rowLanes:])
		row := p.row + r
		if wide {
			row = wideRow(row)
		}
		if e.dst.unwritten != nil {
			e.checkLoad(row, laneColumns(e.sfpu.enabled()>>(r*rowLanes), p.column), wide)
		}
		if !e.dst.valid[row] {
			continue
		}
		if !wide {
			gatherRow(to, &e.dst.rows[row], p.column)
			continue
		}
		var low [rowLanes]uint32
		gatherRow(to, &e.dst.rows[row], p.column)
		gatherRow(&low, &e.dst.rows[row+wideLow], p.column)
		for i, v := range low {
			to[i] = to[i]<<16 | v
		}
	}
	return values
}

func gatherRow(to *[rowLanes]uint32, row *dstRow, column uint32) {
	from := row[column&1:]
	for i := range to {
		to[i] = uint32(from[2*i])
	}
}

func (e *Engine) scatter(p place, wide bool, values *lreg, mask uint32) {
	e.usesDst(p.row, 4, wide, true)
	for r := range uint32(numLanes / rowLanes) {
		enabled := mask >> (r * rowLanes) & (1<<rowLanes - 1)
		if enabled == 0 {
			continue
		}
		from := (*[rowLanes]uint32)(values[r*rowLanes:])
		row := p.row + r
		if wide {
			row = wideRow(row)
			scatterRow(&e.dst.rows[row+wideLow], p.column, from, 0, enabled)
			scatterRow(&e.dst.rows[row], p.column, from, 16, enabled)
		} else {
			scatterRow(&e.dst.rows[row], p.column, from, 0, enabled)
		}
		if e.dst.unwritten != nil {
			e.dst.wrote(row, laneColumns(enabled, p.column))
		}
		e.dst.valid[row] = true
	}
}

func laneColumns(lanes, column uint32) (columns uint16) {
	for lane := range uint32(rowLanes) {
		columns |= uint16(lanes >> lane & 1 << (2*lane + column&1))
	}
	return columns
}

// scatterRow sets every second datum to 16 bits of values from bit shift on.
func scatterRow(row *dstRow, column uint32, values *[rowLanes]uint32, shift int, enabled uint32) {
	to := row[column&1:]
	if enabled == 1<<rowLanes-1 {
		for i, v := range values {
			to[2*i] = uint16(v >> (shift & 31))
		}
		return
	}
	for i, v := range values {
		if enabled>>i&1 != 0 {
			to[2*i] = uint16(v >> shift)
		}
	}
}

func wideMode(mode uint32) bool {
	switch mode {
	case sfpuFP32, sfpuInt32, sfpuSignMag, sfpuRaw32, sfpuSwapped:
		return true
	}
	return false
}

// loadBlock is the fast path for valid rows of bf16 or 32-bit data, without hazards.
func (e *Engine) loadBlock(p place, mode, lreg uint32) bool {
	d, l, enabled := &e.dst, &e.sfpu.l[lreg], e.sfpu.enabled()
	if e.hazards != nil {
		return false
	}
	switch mode {
	case sfpuBF16:
		if !d.allValid(p.row) {
			return false
		}
		lanes.LoadBF16(l, d.block(p.row), p.column, enabled)
	case sfpuFP32, sfpuInt32:
		row := wideRow(p.row)
		if !d.allValid(row) {
			return false
		}
		lanes.Load32(l, d.block(row), d.block(row+wideLow), p.column, enabled)
	default:
		return false
	}
	return true
}

// storeBlock is the fast path for bf16 or 32-bit data, without hazards.
func (e *Engine) storeBlock(p place, mode, lreg uint32) bool {
	d, l, enabled := &e.dst, &e.sfpu.l[lreg], e.sfpu.enabled()
	if e.hazards != nil {
		return false
	}
	row := p.row
	switch mode {
	case sfpuBF16:
		lanes.StoreBF16(d.block(row), l, p.column, enabled)
	case sfpuFP32, sfpuInt32:
		row = wideRow(row)
		lanes.Store32(d.block(row), d.block(row+wideLow), l, mode == sfpuFP32, p.column, enabled)
	default:
		return false
	}
	valid := (*[lanes.Rows]bool)(d.valid[row:])
	for r := range valid {
		if enabled>>(r*rowLanes)&(1<<rowLanes-1) != 0 {
			valid[r] = true
		}
	}
	return true
}

func (d *dst) allValid(row uint32) bool {
	v := (*[lanes.Rows]bool)(d.valid[row:])
	return v[0] && v[1] && v[2] && v[3]
}

func (d *dst) block(row uint32) *lanes.Block { return (*lanes.Block)(d.rows[row:]) }

func (e *Engine) sfpload(t *thread, a sfploadArgs) bool {
	mode := a.mod
	p, ok := e.access(t, &a, loadModes, loadFormats)
	if !ok {
		return false
	}
	if a.lreg < writable && !e.loadBlock(p, a.mod, a.lreg) {
		l := &e.sfpu.l[a.lreg]
		values := e.gather(p, wideMode(a.mod))
		if e.fault != nil {
			return false
		}
		e.decodeLanes(a.mod, &values, l)
		merge(l, &values, e.sfpu.enabled())
	}
	if blockModes>>mode&1 != 0 && a.lreg < writable {
		e.made = plan{do: planLoad, dst: uint8(a.lreg), x: a.dst, y: mode, mode: uint8(a.mode)}
	}
	return e.advance(t, a.mode, false)
}

// decodeLanes merges some modes with the lanes' old values.
func (e *Engine) decodeLanes(mode uint32, values, old *lreg) {
	switch mode {
	case sfpuFP16:
		for lane, v := range values {
			values[lane] = arith.WidenFP16(arith.DecodeDstFP16(uint16(v)))
		}
	case sfpuBF16:
		for lane, v := range values {
			values[lane] = uint32(arith.DecodeDstBF16(uint16(v))) << 16
		}
	case sfpuFP32, sfpuInt32, sfpuSignMag:
		for lane, v := range values {
			values[lane] = arith.DecodeDst32(v)
		}
		if mode == sfpuSignMag && e.wormhole {
			complement(values)
		}
	case sfpuLower16:
		for lane, v := range values {
			values[lane] = old[lane]&0xFFFF0000 | v
		}
	case sfpuUpper16:
		for lane, v := range values {
			values[lane] = v<<16 | old[lane]&0xFFFF
		}
	}
}

// complement converts sign and magnitude to two's complement.
func complement(values *lreg) {
	for lane, v := range values {
		if v&signBit != 0 {
			values[lane] = -(v &^ signBit)
		}
	}
}

func (e *Engine) sfploadi(t *thread, a sfploadiArgs) bool {
	if !e.destination(a.lreg) {
		return false
	}
	keep, v, ok := a.bits()
	if !ok {
		return e.undefined("mode %d", a.mod)
	}
	return e.bits(a.lreg, a.lreg, 0, keep, v)
}

func (a *sfploadiArgs) bits() (keep, v uint32, ok bool) {
	switch a.mod {
	case 0: // bf16
		return 0, a.imm << 16, true
	case 1: // fp16
		return 0, a.imm&0x8000<<16 | (a.imm&0x7FFF+112<<10)<<13, true
	case 2: // unsigned
		return 0, a.imm, true
	case 4: // signed
		return 0, uint32(int32(int16(a.imm))), true
	case 8:
		return 0xFFFF, a.imm << 16, true
	case 10:
		return 0xFFFF0000, a.imm, true
	}
	return 0, 0, false
}

func (e *Engine) sfpstore(t *thread, a sfploadArgs) bool {
	mode := a.mod
	p, ok := e.access(t, &a, storeModes, storeFormats)
	if !ok {
		return false
	}
	e.storeLanes(p, a.mod, a.lreg)
	if blockModes>>mode&1 != 0 {
		e.made = plan{do: planStore, c: uint8(a.lreg), x: a.dst, y: mode, mode: uint8(a.mode)}
	}
	return e.advance(t, a.mode, false)
}

func (e *Engine) storeLanes(p place, mode, lreg uint32) {
	if !e.storeBlock(p, mode, lreg) {
		values := e.sfpu.l[lreg]
		e.encodeLanes(mode, &values)
		e.scatter(p, wideMode(mode), &values, e.sfpu.enabled())
	}
}

func (e *Engine) encodeLanes(mode uint32, values *lreg) {
	if mode == sfpuBF16 { // the usual one
		for lane, v := range values {
			values[lane] = uint32(arith.EncodeDstBF16(uint16(arith.FlushDenormal(v) >> 16)))
		}
		return
	}
	for lane, v := range values {
		switch mode {
		case sfpuFP16:
			v = uint32(arith.EncodeDstFP16(arith.CutFP16(v)))
		case sfpuFP32:
			v = arith.EncodeDst32(arith.FlushDenormal(v))
		case sfpuInt32:
			v = arith.EncodeDst32(v)
		case sfpuSignMag:
			if e.wormhole && v&signBit != 0 {
				v = signBit | -v
			}
			v = arith.EncodeDst32(v)
		case sfpuSwapped:
			v = v<<16 | v>>16
		case sfpuUpper16:
			v >>= 16
		}
		values[lane] = v
	}
}
