package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

func (e *Engine) sfpsetcc(t *thread, a sfpsetccArgs) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, modes(0, 2, 4, 6)) || !e.zero("the destination", a.dst) ||
		!e.zero("the immediate", a.imm) {
		return false
	}
	return e.carryOut(plan{do: planTest, c: uint8(a.c), x: a.mod}) ||
		e.unsupported("the lanes are not conditional: all conditions would be cleared")
}

func (e *Engine) sfpencc(t *thread, a sfpenccArgs) bool {
	if !e.zero("the destination", a.dst) {
		return false
	}
	s := &e.sfpu
	switch a.mod {
	case 0:
		if a.imm != 0 {
			return e.unimplemented("mode 0 with an immediate of %d", a.imm)
		}
		s.cc.lanes = allLanes
	case 10:
		s.cc = condition{on: a.imm&1 != 0}
		if a.imm&2 != 0 {
			s.cc.lanes = allLanes
		}
	default:
		return e.unimplemented("mode %d", a.mod)
	}
	return true
}

func (e *Engine) sfppushc(t *thread, a sfppushcArgs) bool {
	if !e.zero("the mode", a.mod) || !e.zero("the destination", a.dst) {
		return false
	}
	s := &e.sfpu
	if s.depth == len(s.stack) {
		return e.undefined("the stack of conditions holds %d, and is full", s.depth)
	}
	s.stack[s.depth] = s.cc
	s.depth++
	return true
}

func (e *Engine) sfppopc(t *thread, a sfppushcArgs) bool {
	if !e.zero("the mode", a.mod) || !e.zero("the destination", a.dst) {
		return false
	}
	s := &e.sfpu
	if s.depth == 0 {
		return e.undefined("the stack of conditions is empty")
	}
	s.depth--
	s.cc = s.stack[s.depth]
	return true
}

func (e *Engine) sfpcompc(t *thread, a sfpcompcArgs) bool {
	if !e.zero("the destination", a.dst) {
		return false
	}
	s := &e.sfpu
	if !s.cc.on {
		return e.unimplemented("the lanes are not conditional")
	}
	enclosing := uint32(allLanes)
	if s.depth > 0 {
		top := s.stack[s.depth-1]
		if !top.on {
			return e.unimplemented("the lanes of the enclosing condition are not conditional")
		}
		enclosing = top.lanes
	}
	s.cc.lanes = enclosing &^ s.cc.lanes
	return true
}

// compare sets the condition, or in mode 8 all bits of the destination, if that is greater or not.
func (e *Engine) compare(t *thread, a sfpexexpArgs, greater bool) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, modes(1, 8)) || !e.destination(a.dst) {
		return false
	}
	s := &e.sfpu
	lc, ld := &s.l[a.c], &s.l[a.dst]
	enabled := s.enabled()
	var result uint32
	for lane := range each(enabled) {
		if arith.TotalOrder(ld[lane]) > arith.TotalOrder(lc[lane]) == greater {
			result |= 1 << lane
		}
	}
	if a.mod == 1 {
		s.cc.set(enabled, result)
		return true
	}
	for lane := range each(enabled) {
		ld[lane] = -(result >> lane & 1)
	}
	return true
}

func (e *Engine) destination(dst uint32) bool {
	if dst >= writable {
		return e.unsupported("writes LReg %d, only 0 to 7 are writable", dst)
	}
	return true
}

func (e *Engine) zero(field string, v uint32) bool {
	if v != 0 {
		return e.unsupported("%s is %d, only 0 is accepted", field, v)
	}
	return true
}

func (e *Engine) accept(cat Category, mode uint32, set modeSet) bool {
	if set>>mode&1 == 0 {
		return e.refuse(cat, "mode %d", mode)
	}
	return true
}

type modeSet uint32

func modes(list ...uint32) (s modeSet) {
	for _, m := range list {
		s |= 1 << m
	}
	return s
}

func upTo(last uint32) modeSet { return 2<<last - 1 }

// sfpuTemplate records instructions whose destination marks them as templates, and refuses what the
// vector unit's configuration forbids.
func (e *Engine) sfpuTemplate(w uint32) (taken bool) {
	s := &e.sfpu
	op, dst := w>>24, w>>4&0xF
	switch {
	case op <= opSFPLUT:
		dst = w >> 20 & 0xF
		if dst >= 16-templates {
			return e.unsupported("LReg %d: templates are recorded by instructions that compute", dst)
		}
	case e.recordable(op) && dst >= 16-templates:
		if m := s.enabled(); m != allLanes {
			return e.unsupported("a template is recorded with lanes %#08x enabled, not all", m)
		}
		s.templates[dst-(16-templates)] = w
		return true
	}
	if s.laneConfig&laneDestIndex != 0 && corruptible(op) && dst >= 4 && dst < writable {
		return e.unsupported("LReg %d gets an undefined value while LReg 4 to 7 are an index (erratum TEN-2932)", dst)
	}
	return false
}

func (e *Engine) recordable(op uint32) bool {
	switch {
	case op == opSFPCONFIG || op == opSFPLOADMACRO:
		return false
	case e.wormhole:
		return op <= opSFPLUTFP32
	}
	return op <= opSFPARECIP
}

// corruptible reports whether erratum TEN-2932 corrupts results.
func corruptible(op uint32) bool {
	switch op {
	case opSFPLOAD, opSFPLOADI, opSFPSTORE, opSFPCONFIG, opSFPSWAP, opSFPLOADMACRO:
		return false
	}
	return true
}

func (e *Engine) sfpnop(t *thread) bool { return e.carryOut(plan{do: planNothing}) }
