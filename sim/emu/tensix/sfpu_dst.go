package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

// Modes of SFPLOAD and SFPSTORE: how a datum stands in Dst (tt-isa-documentation SFPLOAD.md, SFPSTORE.md).
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

// Modes that SFPLOAD and SFPSTORE take from instructions.
const (
	loadModes = 1<<sfpuConfigured | 1<<sfpuBF16 | 1<<sfpuFP32 | 1<<sfpuInt32 | 1<<sfpuUint16 | 1<<sfpuSignMag |
		1<<sfpuLower16 | 1<<sfpuUpper16
	storeModes = loadModes | 1<<sfpuRaw32 | 1<<sfpuSwapped
)

// sfpuMode returns the mode that the configuration of the ALU means; of formats is the set that means bf16.
func (e *Engine) sfpuMode(t *thread, formats modeSet) (mode uint32, ok bool) {
	if e.on(t, cfgFp32SFPU) {
		return sfpuFP32, true
	}
	switch f := e.cfg(t, cfgSrcBFormat); {
	case formats>>f&1 != 0:
		return sfpuBF16, true
	case arith.Format(f) == arith.FP16:
		return sfpuFP16, true
	default:
		return 0, e.refuse(UnimplementedFunctionality, "Dst as SrcB's format %v", arith.Format(f))
	}
}

// loadFormats are formats of SrcB by which Dst holds bf16.
const loadFormats modeSet = 1<<arith.FP32 | 1<<arith.BF16 | 1<<arith.BFP8 | 1<<arith.BFP4 | 1<<arith.INT16

// place says where the data of the lanes stand: a row of lanes in every second column of a row of Dst.
type place struct{ row, column uint32 }

// sfpuPlace returns where an instruction that names a row of Dst reads or writes.
func (e *Engine) sfpuPlace(t *thread, dst uint32) (p place, ok bool) {
	row := t.dstRow(dst)
	if row&1 != 0 {
		return place{}, e.refuse(UnsupportedFunctionality, "row %d of Dst, which is odd", row)
	}
	return place{row &^ 3, row >> 1 & 1}, true
}

// of returns the row and column of a lane.
func (p place) of(lane int) (row, column uint32) {
	return p.row + uint32(lane)/rowLanes, 2*(uint32(lane)%rowLanes) + p.column
}

func (e *Engine) sfpload(t *thread, a sfploadArgs) bool {
	if a.dst&1 != 0 {
		return e.refuse(UnimplementedFunctionality, "row %d of Dst, which is odd", a.dst)
	}
	if !e.accept(UnimplementedFunctionality, a.mod, loadModes) {
		return false
	}
	ok := true
	if a.mod == sfpuConfigured {
		if a.mod, ok = e.sfpuMode(t, loadFormats); !ok {
			return false
		}
	}
	p, ok := e.sfpuPlace(t, a.dst)
	if !ok {
		return false
	}
	if a.lreg < writable {
		l := &e.sfpu.l[a.lreg]
		for lane := range lanes(e.sfpu.enabled()) {
			row, column := p.of(lane)
			l[lane] = e.sfpuRead(a.mod, row, column, l[lane])
		}
	}
	return e.advance(t, a.mode, false)
}

// sfpuRead returns a datum of Dst as a lane sees it that held old.
func (e *Engine) sfpuRead(mode, row, column, old uint32) uint32 {
	switch mode {
	case sfpuFP16:
		v := uint32(arith.DecodeDstFP16(e.dst.read16(row, column)))
		bias := uint32(0)
		if v&0x7C00 != 0 {
			bias = 127 - 15
		}
		return v&0x8000<<16 | v&0x7FFF<<13 + bias<<23
	case sfpuBF16:
		return uint32(arith.DecodeDstBF16(e.dst.read16(row, column))) << 16
	case sfpuFP32, sfpuInt32:
		return arith.DecodeDst32(e.dst.read32(row, column))
	case sfpuSignMag:
		v := arith.DecodeDst32(e.dst.read32(row, column))
		if e.wormhole && v&0x80000000 != 0 {
			v = -(v & 0x7FFFFFFF)
		}
		return v
	case sfpuLower16:
		return old&0xFFFF0000 | uint32(e.dst.read16(row, column))
	case sfpuUpper16:
		return uint32(e.dst.read16(row, column))<<16 | old&0xFFFF
	}
	return uint32(e.dst.read16(row, column)) // sfpuUint16
}

func (e *Engine) sfploadi(t *thread, a sfploadiArgs) bool {
	if !e.destination(a.lreg) {
		return false
	}
	keep := uint32(0) // bits that a lane keeps
	v := a.imm
	switch a.mod {
	case 0: // bf16
		v <<= 16
	case 1: // fp16
		v = a.imm&0x8000<<16 | (a.imm&0x7FFF+112<<10)<<13
	case 2: // unsigned
	case 4: // signed
		v = uint32(int32(int16(a.imm)))
	case 8:
		v, keep = v<<16, 0xFFFF
	case 10:
		keep = 0xFFFF0000
	default:
		return e.refuse(UndefinedBehavior, "mode %d", a.mod)
	}
	l := &e.sfpu.l[a.lreg]
	for lane := range lanes(e.sfpu.enabled()) {
		l[lane] = l[lane]&keep | v
	}
	return true
}

func (e *Engine) sfpstore(t *thread, a sfpstoreArgs) bool {
	if a.dst&1 != 0 {
		return e.refuse(UnimplementedFunctionality, "row %d of Dst, which is odd", a.dst)
	}
	if !e.accept(UnimplementedFunctionality, a.mod, storeModes) {
		return false
	}
	ok := true
	if a.mod == sfpuConfigured {
		if a.mod, ok = e.sfpuMode(t, loadFormats|1<<arith.BFP2); !ok {
			return false
		}
	}
	p, ok := e.sfpuPlace(t, a.dst)
	if !ok {
		return false
	}
	l := &e.sfpu.l[a.lreg]
	for lane := range lanes(e.sfpu.enabled()) {
		row, column := p.of(lane)
		e.sfpuWrite(a.mod, row, column, l[lane])
	}
	return e.advance(t, a.mode, false)
}

// sfpuWrite sets a datum of Dst to what a lane holds.
func (e *Engine) sfpuWrite(mode, row, column, v uint32) {
	switch mode {
	case sfpuFP16:
		e.dst.write16(row, column, arith.EncodeDstFP16(fp32ToFP16(v)))
	case sfpuBF16:
		e.dst.write16(row, column, arith.EncodeDstBF16(uint16(flushed(v)>>16)))
	case sfpuFP32:
		e.dst.write32(row, column, arith.EncodeDst32(flushed(v)))
	case sfpuInt32:
		e.dst.write32(row, column, arith.EncodeDst32(v))
	case sfpuSignMag:
		if e.wormhole && v&0x80000000 != 0 {
			v = 0x80000000 | -v
		}
		e.dst.write32(row, column, arith.EncodeDst32(v))
	case sfpuRaw32:
		e.dst.write32(row, column, v)
	case sfpuSwapped:
		e.dst.write32(row, column, v<<16|v>>16)
	case sfpuUpper16:
		e.dst.write16(row, column, uint16(v>>16))
	default: // sfpuUint16, sfpuLower16
		e.dst.write16(row, column, uint16(v))
	}
}

// flushed returns zero of the same sign for an fp32 with exponent 0.
func flushed(v uint32) uint32 {
	if v&0x7F800000 == 0 {
		return v & 0x80000000
	}
	return v
}

// fp32ToFP16 cuts an fp32, with saturation and denormals flushed.
func fp32ToFP16(v uint32) uint16 {
	sign := uint16(v>>16) & 0x8000
	switch exponent := int32(v>>23&0xFF) - 112; {
	case exponent <= 0:
		return sign
	case exponent > 31:
		return sign | 0x7FFF
	default:
		return sign | uint16(exponent)<<10 | uint16(v>>13)&0x3FF
	}
}
