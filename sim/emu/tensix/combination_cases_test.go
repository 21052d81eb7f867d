package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

type field struct {
	low    int
	values []uint32
}

func below(low int, n uint32) field {
	f := field{low: low}
	for v := range n {
		f.values = append(f.values, v)
	}
	return f
}

func bitsOf(low, n int) field {
	f := field{low: low, values: []uint32{0}}
	for i := range n {
		f.values = append(f.values, 1<<i)
	}
	return f
}

func (f field) words(list []uint32) (out []uint32) {
	for _, w := range list {
		for _, v := range f.values {
			out = append(out, w|v<<f.low)
		}
	}
	return out
}

func enumerated(list []combination, how string, prepare func(d *director), show func(d *director), w uint32,
	fields ...field) []combination {
	all := []uint32{w}
	for _, f := range fields {
		all = f.words(all)
	}
	for _, w := range all {
		list = append(list, combination{
			name:  fmt.Sprintf("%s %#08x%s", mnemonic(w), w, how),
			alone: true,
			run: func(d *director) bool {
				prepare(d)
				if !d.take(w) {
					return false
				}
				show(d)
				return true
			},
		})
	}
	return list
}

func otherCombinations(e *Engine) []combination {
	nothing := func(*director) {}
	list := clearCombinations(e)
	add := func(w uint32, fields ...field) {
		list = enumerated(list, "", nothing, nothing, w, fields...)
	}
	counted := func(w uint32, fields ...field) {
		list = enumerated(list, "", func(d *director) {
			d.load(0, arith.BF16, false, false)
			d.load(1, arith.BF16, false, false)
		}, nothing, w, fields...)
	}
	counted(opSETRWC<<24|8<<6|16<<10&0x3C00|8<<14, below(0, 16), below(18, 16), below(22, 4))
	counted(opINCRWC<<24|8<<6|8<<10|8<<14, below(18, 8))
	for _, op := range []uint32{opSETADCXY, opSETADCZW, opADDRCRXY, opADDRCRZW} {
		add(op<<24|1<<6|2<<9|3<<12|1<<15, below(0, 16), below(21, 8))
	}
	add(opINCADCXY<<24|1<<6|2<<9|3<<12|1<<15, below(21, 8))
	add(opINCADCZW<<24|1<<6|2<<9|3<<12|1<<15, below(21, 8))
	add(opSETADC<<24|0x15, below(18, 64))
	add(opSETADCXX<<24|255<<10, below(21, 8))
	add(opSETDMAREG<<24|0x1234<<8|20, below(0, 2), below(7, 2), below(22, 4))
	add(opADDDMAREG<<24|22<<12|21<<6|20, below(23, 2))
	add(opMULDMAREG<<24|22<<12|21<<6|20, below(23, 2))
	add(opDMANOP << 24)
	add(opGATESRCRST<<24, below(0, 4))
	word := uint32(e.places[isa.ReluThreshold].Word)
	if e.wormhole {
		add(opREG2FLOP<<24|20, field{6, []uint32{0, 20, 40}}, below(16, 256))
	} else {
		add(opREG2FLOP<<24|20, below(16, 256))
		scratch := opCFGSHIFTMASK<<24 | 31<<15 | 3<<20 | 1<<23 | word
		add(scratch, below(8, 4))
		add(scratch&^(7<<20), field{20, []uint32{0, 1, 2, 4, 5, 6, 7}})
		add(scratch&^(1<<23) | 1<<10)
		add(scratch &^ (1 << 23))
	}
	list = enumerated(list, "", func(d *director) {
		for half := range uint32(8) {
			d.must(opSETDMAREG<<24 | (2*20 + half))
		}
	}, nothing, opWRCFG<<24|20<<16|word&^3, below(15, 2))
	add(opRDCFG<<24|20<<16, below(0, numConfigWords))
	for i := range uint32(4) {
		add((opRMWCIB0+i)<<24|0xFF<<16|word, field{8, []uint32{0, 0x55, 0xFF}})
	}
	return append(list, syncCombinations(e)...)
}

func syncCombinations(e *Engine) (list []combination) {
	nothing := func(*director) {}
	prepare := func(d *director) { // semaphores that can be got and posted, banks that are valid, and banks that are free
		for i := range numSemaphores {
			d.must(opSEMINIT<<24 | 15<<20 | 7<<16 | 1<<(2+i))
		}
		d.load(0, arith.BF16, false, false)
		d.load(1, arith.BF16, false, false)
	}
	add := func(w uint32, fields ...field) {
		list = enumerated(list, "", prepare, nothing, w, fields...)
	}
	waits := 15
	if !e.wormhole {
		waits = 12
	}
	add(opSTALLWAIT<<24, bitsOf(0, waits), bitsOf(15, 9))
	add(opSEMINIT<<24|9<<20|8<<16, bitsOf(2, 8))
	add(opSEMINIT<<24|7<<20|8<<16, bitsOf(2, 8))
	add(opSEMPOST<<24, bitsOf(2, 8))
	add(opSEMGET<<24, bitsOf(2, 8))
	add(opSEMWAIT<<24|1<<2, below(0, 4), bitsOf(15, 9))
	for i := range uint32(4) {
		list = enumerated(list, "", nothing, func(d *director) { d.must(opATRELM<<24 | i) }, opATGETM<<24|i)
		list = enumerated(list, "", func(d *director) {
			if i == 0 {
				d.must(opATGETM << 24)
			}
		}, nothing, opATRELM<<24|i)
	}
	return list
}

func clearCombinations(e *Engine) (list []combination) {
	nothing := func(*director) {}
	both := func(d *director) {
		d.load(0, arith.BF16, false, false)
		d.load(1, arith.BF16, false, false)
		d.firstRows()
	}
	clear, modes := field{19, nil}, uint32(8) // of ZEROACC
	if !e.wormhole {
		clear.low, modes = 18, 4
	}
	for i := range 16 {
		wide, int8, absolute, upper := i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0
		prepare := func(d *director) {
			for block := range uint32(dstRows / 2 / srcRows) {
				d.fillDst(block)
			}
			d.firstRows()
			d.want(isa.Fp32Dst, bit(wide))
			d.want(isa.Int8Math, bit(int8))
			d.want(isa.ZeroAbsolute, bit(absolute))
			if upper {
				d.wantThread(isa.ThreadDstOffset, 512)
			}
		}
		how := fmt.Sprintf(", 32 bits %v, int8 %v, absolute %v, upper half %v", wide, int8, absolute, upper)
		rows := field{0, []uint32{0, 1, 5}}
		if e.wormhole {
			list = enumerated(list, how, prepare, nothing, opZEROACC<<24, rows, below(19, modes))
		} else {
			list = enumerated(list, how, prepare, nothing, opZEROACC<<24, rows, below(19, modes), below(17, 4))
		}
	}
	shown := func(d *director) {
		d.showSource(0, srcRows)
		d.showSource(1, srcRows)
	}
	list = enumerated(list, "", both, shown, opZEROSRC<<24, below(0, 32))
	list = enumerated(list, "", both, shown, opTRNSPSRCB<<24)
	list = enumerated(list, "", both, nothing, opCLEARDVALID<<24, below(0, 4), below(22, 4))
	return append(list, nopCombinations(e)...)
}

func nopCombinations(e *Engine) (list []combination) {
	empty := func(d *director) {
		for unit := range uint32(2) {
			d.load(unit, arith.BF16, false, false)
			d.must(opCLEARDVALID<<24 | 1<<(22+unit))
		}
	}
	show := func(d *director) {
		for unit := range uint32(2) {
			s, _ := d.e.source(unit)
			if !s.matrixValid() {
				d.nopValid(unit)
			}
			d.showSource(unit, srcRows)
		}
	}
	list = enumerated(list, "", empty, show, opSETDVALID<<24, below(0, 4))
	if e.wormhole {
		return enumerated(list, "", empty, show, opUNPACR_NOP<<24, below(0, 32), below(23, 2))
	}
	unit := below(23, 2)
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24|1, unit, below(2, 4), below(5, 2), below(8, 2))
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24, unit, field{0, []uint32{0, 2, 3}})
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24|1|1<<4, unit)
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24|1, unit, field{6, []uint32{1, 2, 3}})
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24|1, unit, field{12, []uint32{1, 2, 4}})
	return enumerated(list, "", empty, show, opUNPACR_NOP<<24|1, unit, field{16, []uint32{1, 32}})
}

func (d *director) nopValid(unit uint32) {
	if d.e.wormhole {
		d.must(opUNPACR_NOP<<24 | nopValid | unit<<23)
		return
	}
	d.must(opUNPACR_NOP<<24 | 1 | 1<<8 | unit<<23)
}

type product struct {
	op             uint32
	a, b           arith.Format
	int8, implied  bool
	wide           bool
	phase          uint32
	mod            uint32 // which parts of SrcB are repeated
	accumulate     bool
	keepsDenormals bool // of SrcB
}

func (p product) combination() combination {
	name := fmt.Sprintf("%s %v and %v", mnemonic(p.op<<24), named(p.a), named(p.b))
	name += options(option{p.int8, "int8"}, option{p.implied, "implied"}, option{p.wide, "32 bits"},
		option{p.phase != 0, fmt.Sprint("phase ", p.phase)},
		option{p.mod != 0, fmt.Sprint("broadcast ", p.mod)}, option{p.accumulate, "accumulated"},
		option{p.keepsDenormals, "with denormals"})
	return combination{name: name, run: p.run}
}

func (p product) run(d *director) bool {
	d.load(0, p.a, p.int8, false)
	d.load(1, p.b, p.int8, p.op == opGMPOOL)
	d.formats(p.a, p.b, !p.implied)
	d.want(isa.Int8Math, bit(p.int8))
	d.want(isa.Fp32Dst, bit(p.wide))
	d.want(isa.KeepDenormals, bit(p.keepsDenormals))
	d.firstRows()
	d.phase(p.phase)
	w := p.op<<24 | p.mod<<19 | bit(p.accumulate)<<21 | d.rowOfResult(8, p.wide || p.int8)
	if p.op == opGAPOOL || p.op == opGMPOOL {
		w |= 1 << 19
	}
	return d.take(w)
}

func mathCombinations(e *Engine) (list []combination) {
	for _, op := range []uint32{opMVMUL, opGAPOOL, opELWADD, opELWSUB, opELWMUL, opGMPOOL} {
		for i := range 512 {
			p := product{op: op, a: arith.Format(i & 15), b: arith.Format(i >> 4 & 15), int8: i>>8 != 0}
			c := p.combination()
			c.more = p.more(e)
			list = append(list, c)
		}
	}
	return list
}

func (p product) more(e *Engine) (list []combination) {
	phases, mods, sums, denormals := uint32(4), uint32(1), uint32(1), uint32(1)
	switch p.op {
	case opELWADD, opELWSUB:
		phases, mods, sums, denormals = 1, 4, 2, 2
	case opELWMUL:
		mods, denormals = 4, 2
	}
	bf16 := p.a == arith.BF16 && p.b == arith.BF16 && !p.int8
	if p.op != opGMPOOL && bf16 { // what is refused for one pair of formats is for all
		phases, sums, denormals = 4, 2, 2
	}
	for i := range 2 * 2 * 4 * 4 * 2 * 2 {
		q := p
		q.wide, q.implied = i&1 != 0, i&2 != 0
		q.phase, q.mod, q.accumulate = uint32(i>>2&3), uint32(i>>4&3), i>>6&1 != 0
		q.keepsDenormals = i>>7 != 0
		if q.phase >= phases || q.mod >= mods || bit(q.accumulate) >= sums || bit(q.keepsDenormals) >= denormals || q == p {
			continue
		}
		if q.keepsDenormals && (q.mod != 0 || q.implied) { // which make no difference to them
			continue
		}
		_, a := sourceData(p.a, p.int8)
		_, b := sourceData(p.b, p.int8)
		if q.implied && (e.wormhole || a != p.a || b != p.b) {
			continue
		}
		list = append(list, q.combination())
	}
	return list
}

type moves struct {
	op             uint32
	a, b           arith.Format
	mod            uint32
	wide, low      bool
	implied        bool
	forced         bool // a is the format that overrides that of SrcA
	keepsDenormals bool
}

func moveCombinations(e *Engine) (list []combination) {
	for _, op := range []uint32{opMOVA2D, opMOVB2D, opMOVD2A, opMOVD2B, opMOVB2A} {
		for i := range 16 * 2 * 8 * 2 {
			m := moves{op: op, a: arith.Format(i & 15), low: i>>4&1 != 0, mod: uint32(i >> 5 & 7), wide: i>>8 != 0}
			fromDst := op == opMOVD2A || op == opMOVD2B
			if op != opMOVB2D && m.mod > 3 || !fromDst && m.wide {
				continue
			}
			c := m.combination()
			c.more = m.more(e)
			list = append(list, c)
		}
	}
	return list
}

func (m moves) more(e *Engine) (list []combination) {
	for i := range 16 * 8 {
		n := m
		n.b, n.implied = arith.Format(i&15), i>>4&1 != 0
		n.forced, n.keepsDenormals = i>>5&1 != 0, i>>6 != 0
		_, a := sourceData(m.a, false)
		switch {
		case n == m, n.b != 0 && m.op != opMOVB2D, n.implied && (e.wormhole || n.forced || a != m.a):
			continue
		case n.implied && m.op == opMOVB2D && n.b != n.a: // both are those of SrcB
			continue
		}
		list = append(list, n.combination())
	}
	return list
}

func (m moves) combination() combination {
	name := fmt.Sprintf("%s %v, modifier %d", mnemonic(m.op<<24), named(m.a), m.mod)
	name += options(option{m.b != 0, "SrcB " + named(m.b)}, option{m.wide, "32 bits"}, option{m.low, "lower halves"},
		option{m.implied, "implied"},
		option{m.forced, "forced"}, option{m.keepsDenormals, "with denormals"})
	return combination{name: name, run: m.run}
}

func (m moves) run(d *director) bool {
	d.load(0, m.a, false, false)
	d.load(1, m.a, false, false)
	d.formats(m.a, m.b, !m.implied)
	if m.forced {
		d.want(isa.SrcAFormat, uint32(m.a)^1)
		d.want(isa.SrcAFormatForced, uint32(m.a))
		d.want(isa.SrcAForced, 1)
	}
	d.want(isa.Int8Math, 0)
	d.want(isa.Fp32Dst, bit(m.wide))
	d.want(isa.KeepDenormals, bit(m.keepsDenormals))
	d.firstRows()
	at := 12
	if m.op == opMOVB2D {
		at = d.modOfMOVB2D()
	}
	w := m.op<<24 | bit(m.low)<<23 | d.below(8)*8<<17 | m.mod<<at
	if m.op == opMOVB2A {
		w = m.op<<24 | bit(m.low)<<23 | d.below(16)*4<<17 | m.mod<<12 | d.below(16)*4
	} else if m.op == opMOVA2D || m.op == opMOVB2D {
		w |= d.rowOfResult(8, m.low || m.a == arith.TF32)
	} else {
		w |= d.rowOfDst(8)
	}
	if !d.take(w) {
		return false
	}
	switch m.op {
	case opMOVD2A, opMOVB2A:
		d.showSource(0, srcRows)
	case opMOVD2B:
		d.showSource(1, srcRows)
	}
	return true
}

const (
	vectorModes  = 16
	vectorTries  = 200 // instructions with other operands, until one of a mode is taken
	allRegisters = 8
)

func vectorCombinations(e *Engine) (list []combination) {
	for op := uint32(opSFPLOAD); op <= lastSFPU; op++ {
		unused := e.encodings[op].unused
		if !e.encodings[op].executed {
			continue
		}
		at := 0
		switch op {
		case opSFPLOAD, opSFPLOADI, opSFPSTORE, opSFPLUT, opSFPLOADMACRO:
			at = 16
		}
		for mode := range uint32(vectorModes) {
			fixed := uint32(15) << at
			w := op<<24 | mode<<at
			if unused>>at&15 == 15 { // it has none
				if mode != 0 {
					continue
				}
				fixed = 0
			}
			switch op {
			case opSFPCONFIG:
				for dst := range uint32(16) {
					list = append(list, vector(w|dst<<4, fixed|15<<4, ""))
				}
			case opSFP_STOCH_RND:
				for round := range uint32(4) {
					if round < 2 || !e.wormhole {
						list = append(list, vector(w|round<<21, fixed|3<<21, ""))
					}
				}
			case opSFPENCC:
				for imm := range uint32(4) {
					list = append(list, vector(w|imm<<12, fixed|3<<12, ""))
				}
			case opSFPLOAD, opSFPSTORE:
				list = append(list, storedVectors(w, fixed, mode)...)
			default:
				list = append(list, vector(w, fixed, ""))
			}
		}
	}
	return list
}

func storedVectors(w, fixed, mode uint32) (list []combination) {
	for i := range 32 {
		wide, format := i&1 != 0, arith.Format(i>>1)
		if mode != sfpuConfigured && i != 0 {
			break
		}
		c := vector(w, fixed, fmt.Sprintf(", 32 bits %v, SrcB %v", wide, named(format)))
		run := c.run
		c.run = func(d *director) bool {
			d.want(isa.Fp32SFPU, bit(wide))
			d.want(isa.SrcBFormat, uint32(format))
			return run(d)
		}
		list = append(list, c)
	}
	return list
}

func vector(w, fixed uint32, how string) combination {
	return combination{
		alone: w>>24 == opSFPSTORE,
		name:  fmt.Sprintf("%s with bits %#x of %#x%s", mnemonic(w), w&0xFFFFFF, fixed, how),
		run:   func(d *director) bool { return d.vector(w, fixed) },
	}
}

func (d *director) vector(w, fixed uint32) bool {
	const storeMode, enable = sfpuInt32 << 16, opSFPENCC<<24 | 3<<12 | 10
	d.firstRows()
	d.must(enable)
	for i := range uint32(allRegisters) {
		d.must(opSFPLOAD<<24 | i<<20 | pick(&d.generator, uint32(storeMode), storeMode, sfpuBF16<<16) | d.rowOfDst(2))
	}
	op := w >> 24
	if op == opSFPCOMPC || op == opSFPPOPC || op == opSFPPUSHC {
		d.must(opSFPPUSHC << 24)
		d.must(opSFPSETCC<<24 | 2<<8)
	} else if d.chance(2) {
		d.must(opSFPSETCC<<24 | 2<<8) // lanes of which register 2 is negative
	}
	if op == opSFPCONFIG { // all lanes the same
		d.must(enable)
		d.must(opSFPLOADI<<24 | 8<<16 | d.rng.Uint32()&0xFFFF)
		d.must(opSFPLOADI<<24 | 10<<16 | d.rng.Uint32()&0xFFFF)
	}
	taken := false
	for i := range vectorTries {
		unused := d.e.encodings[op].unused
		v := d.vectorOperands(op) &^ fixed &^ unused
		if i == vectorTries-1 {
			v = 0
		}
		if taken = d.take(w | v); taken || d.bad != nil {
			break
		}
	}
	if !taken {
		d.must(enable)
	}
	for d.e.sfpu.depth > 0 && d.bad == nil {
		d.must(opSFPPOPC << 24)
	}
	if taken {
		d.must(enable)
		d.showRegisters(op)
	}
	return taken
}

// Registers 12 to 15 would record the instruction for a macro.
func (d *director) vectorOperands(op uint32) uint32 {
	v := d.sparse() & 0xFFFFFF
	if d.chance(3) { // 0 for c, as products want
		v = v&^(15<<8) | lregZero<<8
	}
	if d.chance(3) { // 1 for a, as sums want
		v = v&^(15<<16) | lregOne<<16
	}
	switch op {
	case opSFPLOAD, opSFPSTORE:
		return v&(7<<20) | d.rowOfDst(2)
	case opSFPLOADI, opSFPLUT:
		return v &^ (1 << 23)
	default:
		return v &^ (1 << 7)
	}
}

func (d *director) showRegisters(op uint32) {
	store := func() {
		to := d.rowOfResult(32, true)
		for i := range uint32(allRegisters) {
			d.must(opSFPSTORE<<24 | i<<20 | sfpuInt32<<16 | (to + i&3*4 + i>>2*16))
		}
	}
	store()
	if op != opSFPCONFIG {
		return
	}
	for i := range uint32(4) {
		d.must(opSFPMOV<<24 | (11+i)<<8 | i<<4)
	}
	store()
}

func unpackCombinations(e *Engine) (list []combination) {
	for i := range 2 * 2 * 256 {
		u := unpack{unit: uint32(i & 1), toDst: i&2 != 0, in: arith.Format(i >> 2 & 15), out: arith.Format(i >> 6 & 15)}
		if u.unit == 1 && u.toDst {
			continue
		}
		c := u.combination()
		c.more = u.more(e)
		list = append(list, c)
	}
	return list
}

func (u unpack) more(e *Engine) (list []combination) {
	for i := range 128 {
		v := u
		v.haloize, v.tilize, v.context, v.throttle = i&1 != 0, i&2 != 0, uint32(i>>2&1), uint32(i>>3&3)
		option := i>>5 != 0
		switch {
		case i>>5 > 1, e.wormhole && v.throttle == 3:
			continue
		case option && u.in.BFP():
			v.forced, v.exponent = true, 0x85
		case option && u.in == arith.INT8:
			v.unsigned = true
		case option && u.in == arith.LF8 && !e.wormhole:
			v.exp4 = true
		}
		if v != u && (option == (v.forced || v.unsigned || v.exp4)) {
			list = append(list, v.combination())
		}
	}
	return list
}

func (u unpack) combination() combination {
	name := fmt.Sprintf("UNPACR %d %v to %v, to Dst %v, transposed %v, tilized %v, context %d, throttle %d", u.unit, named(u.in),
		named(u.out), u.toDst,
		u.haloize, u.tilize, u.context, u.throttle)
	switch {
	case u.forced:
		name += ", forced exponent"
	case u.unsigned:
		name += ", unsigned"
	case u.exp4:
		name += ", exponents of 4 bits"
	}
	return combination{name: name, run: u.run}
}

func (u unpack) run(d *director) bool {
	const rows = 16
	u.rows, u.valid = rows, !u.toDst
	if u.toDst {
		u.dst = d.rowOfResult(rows, true)
	}
	if !d.take(d.unpack(u)) {
		return false
	}
	if !u.toDst {
		d.showSource(u.unit, rows)
	}
	return true
}

type packs struct {
	wide                 bool
	in, out              uint32
	relu                 uint32
	accumulate           bool
	units                uint32 // packers or read interfaces
	strided              bool
	raw, unsigned, round bool
	mask                 uint32 // of edges
	exp5                 bool   // of fp8
}

func packCombinations(e *Engine) (list []combination) {
	for i := range 512 {
		p := packs{wide: i>>8 != 0, in: uint32(i & 15), out: uint32(i >> 4 & 15), units: 1, mask: 0xFFFF}
		p.round = arith.Format(p.in) == arith.FP16 && p.wide && !e.wormhole
		c := p.combination()
		c.more = p.more(e)
		list = append(list, c)
	}
	return list
}

func (p packs) more(e *Engine) (list []combination) {
	units := []uint32{1, 3, 15}
	if !e.wormhole {
		units = []uint32{0, 1, 3, 5, 10}
	}
	add := func(q packs) {
		if q != p {
			list = append(list, q.combination())
		}
	}
	for i := range 8 {
		for _, n := range units {
			q := p
			q.relu, q.accumulate, q.units = uint32(i&3), i>>2 != 0, n
			add(q)
		}
	}
	for _, n := range units {
		q := p
		q.units, q.strided = n, true
		if !e.wormhole {
			add(q)
		}
	}
	for i := range 4 { // refused if the format is read otherwise
		q := p
		switch i {
		case 0:
			q.raw = true
		case 1:
			q.unsigned = true
		case 2:
			q.round = !q.round
		case 3:
			q.exp5 = true
		}
		if i == 3 && e.wormhole {
			continue
		}
		add(q)
		for relu := uint32(1); relu < 4; relu++ {
			q.relu = relu
			add(q)
		}
	}
	for _, mask := range []uint32{0, 1, 2} {
		q := p
		q.mask = mask
		add(q)
	}
	return list
}

func (p packs) combination() combination {
	name := fmt.Sprintf("PACR %v to %v, 32 bits %v, ReLU %d, accumulate %v, units %#x", named(arith.Format(p.in)), named(arith.Format(p.out)),
		p.wide,
		p.relu, p.accumulate, p.units)
	name += options(option{p.strided, "strided"}, option{p.raw, "raw"}, option{p.unsigned, "unsigned"}, option{p.round, "rounded"},
		option{p.exp5, "exponents of 5 bits"}, option{p.mask != 0xFFFF, fmt.Sprintf("edges %#x", p.mask)})
	return combination{name: name, run: p.run}
}

func (p packs) run(d *director) bool {
	g := &d.generator
	d.want(isa.PackRead32, bit(p.wide))
	d.want(isa.PackReadUnsigned, bit(p.unsigned))
	d.want(isa.PackReadRaw, bit(p.raw))
	d.want(isa.PackRound10, bit(p.round))
	d.want(isa.DstFormat, p.in)
	d.want(isa.PackFP8E4, bit(!p.exp5))
	d.want(isa.Relu, p.relu)
	d.want(isa.ReluThreshold, g.rng.Uint32()&0x7FFF)
	rows := pick(g, uint32(16), 16, 4)
	base := uint32(dataBase+dataSize/2)/16 + d.slot*d.slotSize()
	d.slot++
	packers := isa.Config(1)
	if d.e.wormhole {
		packers = numPackers
	}
	for i := range packers {
		d.want(isa.PackInFormat+i, p.in)
		d.want(isa.PackOutFormat+i, p.out)
		d.want(isa.PackRows+i, rows)
		d.want(isa.PackAccumulate+i, bit(p.accumulate))
		d.want(isa.PackExponents+i, g.below(5))
		d.want(isa.PackOut+i, base+uint32(i)*0x100-1+g.below(16))
		d.want(isa.PackDst+i, d.rowOfDst(srcRows)+uint32(i)*16)
	}
	size := max(bytesOf(elementBits(p.in)), 1)
	d.want(isa.PackXStride, 0)
	d.want(isa.PackYStride, 16*size)
	d.want(isa.PackZStride, 256*size)
	d.want(isa.PackWStride, 1024*size)
	d.want(isa.EdgeMask, p.mask)
	d.want(isa.EdgeMask+1, 0xFFFF)
	d.want(isa.EdgeRowSet, 0)
	d.want(isa.DstSwizzle, bit(p.strided))
	d.want(isa.DstRemap, bit(p.strided))
	n := uint32(16)
	w := opPACR<<24 | 1 | p.units<<8 | bit(p.strided)<<17
	if d.e.wormhole {
		n = pick(g, uint32(16), 64, 256)
	}
	d.must(opSETADCXX<<24 | 4<<21 | (n-1)<<10)
	d.must(opSETADCXY<<24 | 4<<21 | 0xB)
	d.must(opSETADCZW<<24 | 4<<21 | 0xF)
	return d.take(w)
}
