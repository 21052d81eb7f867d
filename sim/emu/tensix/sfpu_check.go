package tensix

// What instructions of the vector unit may do.

// destination refuses registers that an instruction can't write.
func (e *Engine) destination(dst uint32) bool {
	if dst >= writable {
		return e.refuse(UnsupportedFunctionality, "writes LReg %d, only 0 to 7 are writable", dst)
	}
	return true
}

// zero refuses a field that must be 0.
func (e *Engine) zero(field string, v uint32) bool {
	if v != 0 {
		return e.refuse(UnsupportedFunctionality, "%s is %d, only 0 is accepted", field, v)
	}
	return true
}

// accept refuses, with a category, modes that aren't in a set.
func (e *Engine) accept(cat Category, mode uint32, set modeSet) bool {
	if set>>mode&1 == 0 {
		return e.refuse(cat, "mode %d", mode)
	}
	return true
}

// modeSet is a set of an instruction's modes, a bit each.
type modeSet uint32

// modes returns the set of some modes.
func modes(list ...uint32) (s modeSet) {
	for _, m := range list {
		s |= 1 << m
	}
	return s
}

// upTo returns the set of the modes from 0 to last.
func upTo(last uint32) modeSet { return 2<<last - 1 }

// sfpuTemplate takes instructions whose destination says that they are recorded as templates instead of executed, and
// refuses what no instruction of the vector unit may do in its present configuration.
func (e *Engine) sfpuTemplate(w uint32) (taken bool) {
	s := &e.sfpu
	op, dst := w>>24, w>>4&0xF
	switch {
	case op <= opSFPLUT:
		dst = w >> 20 & 0xF
		if dst >= 16-templates {
			return e.refuse(UnsupportedFunctionality, "LReg %d: templates are recorded by instructions that compute", dst)
		}
	case e.recordable(op) && dst >= 16-templates:
		if m := s.enabled(); m != allLanes {
			return e.refuse(UnsupportedFunctionality, "a template is recorded with lanes %#08x enabled, not all", m)
		}
		s.templates[dst-(16-templates)] = w
		return true
	}
	if s.laneConfig&laneDestIndex != 0 && corruptible(op) && dst >= 4 && dst < writable {
		return e.refuse(UnsupportedFunctionality, "LReg %d gets an undefined value while LReg 4 to 7 are an index (erratum TEN-2932)", dst)
	}
	return false
}

// recordable reports whether an instruction that names LReg 12 to 15 as destination is recorded.
func (e *Engine) recordable(op uint32) bool {
	switch {
	case op == opSFPCONFIG || op == opSFPLOADMACRO:
		return false
	case e.wormhole:
		return op <= opSFPLUTFP32
	}
	return op <= opSFPARECIP
}

// corruptible reports whether erratum TEN-2932 corrupts the results of an instruction.
func corruptible(op uint32) bool {
	switch op {
	case opSFPLOAD, opSFPLOADI, opSFPSTORE, opSFPCONFIG, opSFPSWAP, opSFPLOADMACRO:
		return false
	}
	return true
}

func (e *Engine) sfpnop(t *thread) bool { return true }
