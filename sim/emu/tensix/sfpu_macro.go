package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"

// SFPLOADMACRO loads a register and schedules up to four instructions for later cycles, one per
// sub-unit (tt-isa-documentation
// {WormholeB0,BlackholeA0}/TensixTile/TensixCoprocessor/SFPLOADMACRO.md). Until they are done the
// vector unit is modelled cycle by cycle: a cycle's instructions read the registers as they were
// before, and two-cycle instructions write after the next cycle. A thread issues in each cycle;
// hardware may be slower, and software must not depend on that.

func (e *Engine) sfploadmacro(t *thread, a sfploadArgs) bool {
	s := &e.sfpu
	lreg, index := a.dst&1<<2|a.lreg&3, a.lreg>>2
	a.dst &^= 1
	at, ok := e.sfpuPlace(t, a.dst)
	if !ok {
		return false
	}
	if s.laneConfig&laneDestIndex != 0 {
		return e.unimplemented("a macro while LReg 4 to 7 are the index of 0 to 3")
	}
	if s.macros == nil {
		s.macros = new(macros)
	}
	m := s.macros
	for u := range subUnit(macroUnits) {
		bits := s.sequences[index] >> (8 * u)
		i, ok := e.schedule(u, bits&0xFF, lreg)
		if !ok {
			return false
		}
		if i.word == 0 {
			// The documents drop instructions scheduled for the next cycle here too. But then
			// tt-llk's product of 16-bit integers (ckernel_sfpu_mul_int.h) would lose its stores.
			continue
		}
		if u == storeUnit {
			i.at, i.mode = at, uint8(s.macro&15)
			if s.macro>>(4+index)&1 != 0 {
				i.mode = uint8(a.mod)
			}
		}
		i.byInstructions = s.macro>>(8+u)&1 != 0
		m.slots[u][bits>>3&7] = i
		m.thread, s.busy = t, true
	}
	return e.sfpload(t, sfploadArgs{dst: a.dst, mode: a.mode, mod: a.mod, lreg: lreg})
}

// schedule decodes a sequence's bits for a sub-unit of a macro that loads lreg.
func (e *Engine) schedule(u subUnit, bits, lreg uint32) (i scheduled, ok bool) {
	switch choice := bits & 7; choice {
	case 0:
		return scheduled{}, true
	case 1:
		return scheduled{}, e.undefined("instruction 1 of a sequence, which doesn't exist")
	case 2:
		i.word = opSFPNOP << 24
	case 3:
		i.word = opSFPSTORE << 24
	default:
		i.word = e.sfpu.templates[choice-4]
	}
	if subUnitOf(i.word) != u {
		if u == storeUnit {
			return scheduled{}, e.undefined("%s for the store sub-unit", mnemonic(i.word))
		}
		i.word = opSFPNOP << 24
		return i, true
	}
	const toStaging, asB = 0x40, 0x80
	own := i.word >> 4 & 15
	if u == storeUnit {
		own = i.word >> 20 & 15
	}
	i.b, i.c = uint8(own), uint8(own)
	if op := i.word >> 24; hasB(op) {
		i.b = uint8(i.word >> 12 & 15)
	}
	if op := i.word >> 24; op != opSFPMULI && op != opSFPADDI {
		i.c = uint8(i.word >> 8 & 15)
	}
	switch {
	case u == storeUnit && bits&asB != 0:
	case bits&asB != 0:
		i.b, own = uint8(lreg), lreg
	default:
		i.c, own = uint8(lreg), lreg
	}
	if i.d = uint8(own); bits&toStaging != 0 {
		i.d = lregStaging
	}
	return i, true
}

func hasB(op uint32) bool {
	switch op {
	case opSFPMAD, opSFPADD, opSFPMUL, opSFPMUL24, opSFPSHFT2, opSFP_STOCH_RND:
		return true
	}
	return false
}

func subUnitOf(w uint32) subUnit {
	switch op := w >> 24; op {
	case opSFPLOAD, opSFPLOADI, opSFPLOADMACRO, opSFPNOP:
		return loadUnit
	case opSFPADD, opSFPADDI, opSFPLUT, opSFPLUTFP32, opSFPMAD, opSFPMUL, opSFPMULI, opSFPMUL24:
		return madUnit
	case opSFPSHFT2, opSFP_STOCH_RND:
		return roundUnit
	case opSFPSTORE:
		return storeUnit
	}
	return simpleUnit
}

// Hardware holds back instructions after an SFPSWAP, and on Blackhole readers of late results.
func (e *Engine) macroVector(t *thread, w uint32) bool {
	m := e.sfpu.macros
	waits := m.swaps && w>>24 != opSFPNOP || !e.wormhole && seenReads(w)&m.lateSet != 0
	if waits && !e.cycle(t, 0) {
		return false
	}
	if !e.sfpu.busy {
		return e.vector(t, w)
	}
	return e.cycle(t, w)
}

// seenReads are known to Blackhole's interlock.
func seenReads(w uint32) uint16 {
	switch op := w >> 24; {
	case op == opSFPSHFT && w&4 != 0, op == opSFPARECIP:
		return 1 << (w >> 8 & 15)
	case op == opSFPMUL24:
		return 1<<(w>>8&15) | 1<<(w>>12&15) | 1<<(w>>16&15)
	}
	return vectorReads(w) &^ unseenReads(w)
}

// macroOther passes a cycle, or all delays that count instructions if w may wait for the vector
// unit.
func (e *Engine) macroOther(t *thread, w uint32) bool {
	s := &e.sfpu
	if !e.cycle(t, 0) {
		return false
	}
	for waits := unitOf(w) == unitSync; waits && s.busy && !s.macros.countsInstructions(); {
		if !e.cycle(t, 0) {
			return false
		}
	}
	return true
}

func (e *Engine) cycle(t *thread, w uint32) bool {
	s := &e.sfpu
	m := s.macros
	list, more := m.due(w != 0)
	m.before = s.l
	before, after := s.cc, s.cc
	m.writes, m.late = append(m.writes[:0], m.late...), m.late[:0]
	m.lateSet, m.swaps = 0, false
	// A scheduled instruction replaces an issued one for the same sub-unit.
	if u := subUnitOf(w); w != 0 && (u == loadUnit || list[u].word == 0) {
		s.busy = more // SFPLOADMACRO sets it
		if !e.direct(t, w) {
			return false
		}
		more = s.busy
		m.collect(e, w)
		after = s.cc
	}
	if !e.alone(&list) {
		return false
	}
	for u := range list {
		i := &list[u]
		if i.word == 0 || i.word>>24 == opSFPNOP {
			continue
		}
		s.l, s.cc = m.before, before
		if !e.perform(t, i) {
			return false
		}
		if s.cc != before {
			after = s.cc
		}
	}
	s.l, s.cc = m.before, after
	m.apply(s, m.writes)
	if s.busy = more; !more {
		m.apply(s, m.late)
		m.late = m.late[:0]
	}
	return true
}

// alone refuses simple and round results that need one register port in one cycle.
func (e *Engine) alone(list *[macroUnits]scheduled) bool {
	x, y := &list[simpleUnit], &list[roundUnit]
	if x.word == 0 || y.word == 0 || !writes(x.word) || !writes(y.word) || (x.d == lregStaging) != (y.d == lregStaging) {
		return true
	}
	if e.wormhole && x.d < writable && y.d < writable && (x.d < 4) != (y.d < 4) {
		return true
	}
	return e.undefined("%s to LReg %d and %s to LReg %d are scheduled for the same cycle", mnemonic(x.word), x.d,
		mnemonic(y.word), y.d)
}

func writes(w uint32) bool {
	op := w >> 24
	return op != opSFPNOP && op != opSFPSETCC && op != opSFPENCC
}

func (m *macros) collect(e *Engine, w uint32) {
	s := &e.sfpu
	m.swaps = w>>24 == opSFPSWAP
	m.lateSet = e.lateResults(w)
	for r := range s.l {
		if s.l[r] == m.before[r] {
			continue
		}
		var changed uint32
		for lane, v := range &s.l[r] {
			if v != m.before[r][lane] {
				changed |= 1 << lane
			}
		}
		m.wrote(write{uint8(r), changed, s.l[r]}, m.swaps || m.lateSet>>r&1 != 0)
	}
}

// perform executes on a copy of the registers at the start of the cycle.
func (e *Engine) perform(t *thread, i *scheduled) bool {
	s := &e.sfpu
	m, op := s.macros, i.word>>24
	switch op {
	case opSFPSTORE:
		return e.performStore(t, i)
	case opSFPSETCC:
		return e.sfpsetcc(t, sfpsetccArgs{mod: i.word & 15, c: uint32(i.c), imm: i.word >> 12 & 1})
	case opSFPENCC:
		return e.sfpencc(t, sfpenccArgs{mod: i.word & 15, imm: i.word >> 12 & 3})
	case opSFPSWAP:
		return e.performSwap(i)
	case opSFPSHFT2:
		return e.performShift(i)
	case opSFPABS, opSFPAND, opSFPOR, opSFPXOR, opSFPCAST, opSFPDIVP2, opSFPEXMAN, opSFPIADD, opSFPMOV, opSFPNOT, opSFPSETEXP,
		opSFPSETMAN, opSFPSETSGN, opSFPSHFT, opSFPARECIP, opSFP_STOCH_RND, opSFPMAD, opSFPADD, opSFPMUL, opSFPADDI, opSFPMULI, opSFPMUL24:
	default:
		return e.unimplemented("%s as a scheduled instruction", mnemonic(i.word))
	}
	// The result replaces the operand that most instructions overwrite, in a register that this one
	// doesn't read.
	enabled, x := s.enabled(), i.spare()
	w := i.word&^(0xFF<<4) | x<<4 | uint32(i.c)<<8
	switch op {
	case opSFPMOV:
		if i.word&15 == 2 {
			enabled = allLanes
		}
	case opSFPADDI, opSFPMULI: // no VC
		s.l[x] = m.before[i.c]
		w = i.word&^(15<<4) | x<<4
	case opSFPMAD, opSFPADD, opSFPMUL, opSFPMUL24:
		w = w&^(15<<12) | uint32(i.b)<<12
	case opSFP_STOCH_RND:
		w &^= 8 // a shift by an immediate, which conversions of fp32 don't have
	default:
		s.l[x] = m.before[i.b]
	}
	const anyA, anyD = 4, 8 // modes of SFPMAD: LReg 7 says where VA is, or where the result goes
	if op == opSFPMAD && w&anyA != 0 {
		for lane, r := range &m.before[7] {
			s.l[x][lane] = m.before[r&15][lane]
		}
		w = w&^(15<<16|anyA) | x<<16
	}
	indirect := op == opSFPMAD && w&anyD != 0 && i.d != lregStaging
	if op == opSFPMAD {
		w &^= anyD
	}
	condition := s.cc
	if !e.decoded(t, w) {
		return false
	}
	if i.d == lregStaging {
		s.cc = condition
	}
	late := subUnitOf(w) == madUnit
	if !indirect {
		m.wrote(write{i.d, enabled, s.l[x]}, late)
		return true
	}
	var to [writable]uint32 // lanes by register
	for lane := range each(enabled) {
		if r := m.before[7][lane] & 15; r < writable {
			to[r] |= 1 << lane
		}
	}
	for r, mask := range to {
		if mask != 0 {
			m.wrote(write{uint8(r), mask, s.l[x]}, late)
		}
	}
	return true
}

func (i *scheduled) spare() uint32 {
	a := i.word >> 16 & 15
	for x := uint32(0); ; x++ {
		if x != uint32(i.b) && x != uint32(i.c) && (x != a || subUnitOf(i.word) != madUnit) {
			return x
		}
	}
}

func (e *Engine) performStore(t *thread, i *scheduled) bool {
	s := &e.sfpu
	mode, ok := uint32(i.mode), e.accept(UnimplementedFunctionality, uint32(i.mode), storeModes)
	if ok && mode == sfpuConfigured {
		mode, ok = e.sfpuMode(t, storeFormats)
	}
	if !ok {
		return false
	}
	from := uint32(i.d)
	if from == lregStaging {
		from = 0
		s.l[0] = s.macros.staging
	}
	e.storeLanes(i.at, mode, from)
	return true
}

// One result goes to VD, the other to VC; if both are the same register, VC's wins. Documents don't
// say so, but tt-llk's exp relies on it (ckernel_sfpu_exp.h).
func (e *Engine) performSwap(i *scheduled) bool {
	s := &e.sfpu
	m, mode, reverse := s.macros, i.word&15, s.laneConfig&laneReverseSwap != 0
	var minimum uint32 // lanes in which VD gets the smaller one
	if mode < 9 {
		ok := false
		if minimum, ok = e.swapOrder(mode); !ok {
			return false
		}
	}
	x, y := &m.before[i.b], &m.before[i.c] // what VD and VC hold
	greater, less := *x, *x
	lanes.Sort(&greater, &less, x, y, allLanes)
	toD, toC := greater, less
	if reverse {
		minimum = ^minimum
	}
	merge(&toD, &less, minimum)
	merge(&toC, &greater, minimum)
	if mode == 0 {
		toD, toC = *y, *x
	}
	m.wrote(write{i.d, s.enabled(), toD}, true)
	if i.c < writable {
		m.wrote(write{i.c, s.enabled(), toC}, true)
	}
	return true
}

func (e *Engine) performShift(i *scheduled) bool {
	const byRegister, byImmediate = 5, 6
	s := &e.sfpu
	m, x := s.macros, i.spare()
	by := &m.before[i.c]
	switch i.word & 15 {
	case byRegister:
	case byImmediate:
		by = s.constant(uint32(int32(i.word<<8) >> 20))
	default:
		return e.unimplemented("SFPSHFT2 in mode %d as a scheduled instruction", i.word&15)
	}
	lanes.Shift(&s.l[x], &m.before[i.b], by, false, allLanes)
	m.wrote(write{i.d, s.enabled(), s.l[x]}, false)
	return true
}
