package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/isa"

func (e *Engine) fillSource(t *thread, unit uint32) bool {
	s, name := e.source(unit)
	e.ordered(t, objectBanks+2*unit+s.unpack, true, true)
	if !s.fill() {
		return e.nonContractual("the bank of %s is valid already", name)
	}
	if unit == 0 && t.field(isa.ThreadSrcASet) != 0 {
		return e.unimplemented("SRCA_SET_Base %d: want 0", t.field(isa.ThreadSrcASet))
	}
	return true
}

// clearValid frees the matrix unit's banks of the sources in a mask: SrcA 1, SrcB 2. The matrix
// unit turns to the other bank even if the configuration keeps the old one valid.
func (e *Engine) clearValid(t *thread, mask uint32) bool {
	for unit := range uint32(2) {
		if mask>>unit&1 == 0 {
			continue
		}
		s, name := e.source(unit)
		e.ordered(t, objectBanks+2*unit+s.matrix, true, true)
		if t.field(isa.ThreadKeepSrcValid+isa.Thread(unit)) != 0 {
			s.matrix ^= 1
			s.changes++
		} else if !s.free() {
			return e.nonContractual("the bank of %s is not valid", name)
		}
	}
	return true
}

func (e *Engine) cleardvalid(t *thread, a cleardvalidArgs) bool {
	switch {
	case a.reset != 0:
		return e.unsupported("reset %d drops banks (tt-metal issue 22383): want 0", a.reset)
	case a.sources == 0:
		return e.unsupported("no sources")
	}
	for unit := range uint32(2) {
		if a.sources>>unit&1 == 0 {
			continue
		}
		s, name := e.source(unit)
		e.ordered(t, objectBanks+2*unit+s.matrix, true, true)
		if !s.free() {
			return e.nonContractual("the bank of %s is not valid", name)
		}
	}
	return true
}

func (e *Engine) setdvalid(t *thread, a setdvalidArgs) bool {
	switch {
	case !e.wormhole:
		return e.unsupported("no document says which format it implies: use UNPACR_NOP")
	case a.sources == 0:
		return e.unsupported("no sources")
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

func (e *Engine) zerosrc(t *thread, a zerosrcArgs) bool {
	switch {
	case a.sources == 0:
		return e.unsupported("no sources")
	case a.value != 0:
		return e.unsupported("fill with ones: want zeros")
	case a.both != 0 && a.write != 0, a.both == 0 && a.write == 0:
		return e.unsupported("write mode %d for %d banks", a.write, 1+a.both)
	case a.both != 0 && a.sources != 3:
		return e.unsupported("all banks of sources %d: want 3, both", a.sources)
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

// Operand gating only saves power.
func (e *Engine) gatesrcrst(t *thread, a gatesrcrstArgs) bool { return true }

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
