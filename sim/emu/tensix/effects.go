package tensix

func unitOf(w uint32) unit {
	switch op := w >> 24; {
	case op >= opMOVD2A && op <= opINCRWC:
		return unitMatrix
	case op == opPACR:
		return unitPack
	case op == opUNPACR, op == opUNPACR_NOP:
		return unitUnpack0 << (w >> 23 & 1)
	case op >= opSETADC && op <= opSETDVALID, op == opSETADCXX:
		return unitMisc
	case op >= opSFPLOAD && op <= lastSFPU:
		return unitVector
	case op >= opATGETM && op <= opSEMWAIT:
		return unitSync
	case op >= opWRCFG:
		return unitConfig
	}
	return unitScalar
}

// rounds reports whether the round sub-unit or its result port is used.
func rounds(w uint32) bool {
	switch w >> 24 {
	case opSFPABS, opSFPAND, opSFPCAST, opSFPDIVP2, opSFPEXEXP, opSFPEXMAN, opSFPIADD, opSFPLZ, opSFPMOV, opSFPNOT, opSFPOR,
		opSFPSETEXP, opSFPSETMAN, opSFPSETSGN, opSFPSHFT, opSFP_STOCH_RND, opSFPXOR:
		return true
	case opSFPSHFT2:
		return !shuffles(w)
	}
	return false
}

// shuffles reports an SFPSHFT2 that moves data between lanes, in two cycles.
func shuffles(w uint32) bool { return w>>24 == opSFPSHFT2 && w&15 >= 2 && w&15 <= 4 }

func writesDst(w uint32) bool {
	switch w >> 24 {
	case opMVMUL, opELWADD, opELWSUB, opELWMUL, opGAPOOL, opGMPOOL, opMOVA2D, opMOVB2D:
		return true
	}
	return false
}

// reads returns the stores that an instruction depends on.
func reads(w uint32) unit {
	switch w >> 24 {
	case opUNPACR, opUNPACR_NOP, opPACR, opRDCFG, opMOVD2A, opMOVD2B:
		return configStores
	case opWRCFG, opREG2FLOP, opSTOREREG, opADDDMAREG, opMULDMAREG:
		return gprStores
	}
	if writesDst(w) {
		return configStores
	}
	return 0
}

func (s decoder) readsGPR(w, gpr uint32) bool {
	switch w >> 24 {
	case opWRCFG:
		a := s.decodeWRCFG(w)
		return gpr == a.gpr || a.wide != 0 && gpr&^3 == a.gpr&^3
	case opREG2FLOP:
		return gpr == s.decodeREG2FLOP(w).gpr
	case opSTOREREG:
		return gpr == s.decodeSTOREREG(w).gpr
	case opADDDMAREG, opMULDMAREG:
		a := s.decodeADDDMAREG(w)
		return gpr == a.a || gpr == a.b
	}
	return false
}

func (s decoder) lateResults(w uint32) uint16 {
	const indirect = 8 // the mode in which LReg 7 says where results go
	switch w >> 24 {
	case opSFPMAD, opSFPADD, opSFPMUL, opSFPMUL24:
		if w&indirect != 0 {
			return 0xFF
		}
		return 1 << (w >> 4 & 15)
	case opSFPMULI, opSFPADDI, opSFPLUTFP32:
		return 1 << (w >> 4 & 15)
	case opSFPLUT:
		return 1 << (w >> 20 & 15)
	case opSFPSHFT2:
		if !s.wormhole { // hardware waits whatever comes next
			return 0
		}
		if mode, dst := w&15, w>>4&15; shuffles(w) && mode != 2 && dst < writable {
			return 1 << dst
		} else if mode == 2 {
			return 0xF
		}
	}
	return 0
}

// lateReads returns the LRegs that a vector instruction reads without waiting for the one before
// it. Blackhole's hardware waits, but doesn't know all reads
// (BlackholeA0/TensixTile/TensixCoprocessor/SFPMAD.md).
func (s decoder) lateReads(w uint32) uint16 {
	if s.wormhole {
		return vectorReads(w)
	}
	return unseenReads(w)
}

func vectorReads(w uint32) uint16 {
	reg := func(shift int) uint16 { return 1 << (w >> shift & 15) }
	const dst, c, b, a = 4, 8, 12, 16
	switch w >> 24 {
	case opSFPSTORE:
		return reg(20)
	case opSFPMAD, opSFPADD, opSFPMUL:
		return reg(a) | reg(b) | reg(c)
	case opSFPMULI, opSFPADDI:
		return reg(dst)
	case opSFPEXEXP, opSFPEXMAN, opSFPMOV, opSFPABS, opSFPNOT, opSFPLZ, opSFPSETCC, opSFPCAST, opSFPDIVP2, opSFP_STOCH_RND:
		return reg(c)
	case opSFPAND, opSFPOR, opSFPXOR, opSFPSWAP:
		return reg(c) | reg(dst)
	case opSFPSETEXP, opSFPSETMAN, opSFPSETSGN, opSFPIADD:
		if w&1 != 0 { // immediate
			return reg(c)
		}
		return reg(c) | reg(dst)
	case opSFPSHFT:
		if w&1 != 0 {
			return reg(dst)
		}
		return reg(c) | reg(dst)
	case opSFPLUT:
		return 0xF
	case opSFPLUTFP32:
		return 0x7F
	case opSFPTRANSP:
		return 0xFF
	case opSFPSHFT2:
		switch w & 15 {
		case 3, 4:
			return reg(c)
		case 5:
			return reg(b) | reg(c)
		case 6:
			return reg(b)
		}
		return 0xF
	case opSFPCONFIG:
		return 1
	}
	return 0
}

// unseenReads are unknown to Blackhole's interlock.
func unseenReads(w uint32) uint16 {
	reg := func(shift int) uint16 { return 1 << (w >> shift & 15) }
	const dst, c, b = 4, 8, 12
	switch mode := w & 15; w >> 24 {
	case opSFPAND, opSFPOR:
		if mode&1 != 0 {
			return reg(b)
		}
	case opSFPIADD:
		if mode&1 == 0 { // else the immediate
			return reg(dst)
		}
	case opSFPSHFT:
		if mode&4 == 0 {
			return reg(dst)
		}
	case opSFPCONFIG:
		if mode&1 == 0 {
			return 1
		}
	case opSFPSWAP:
		if mode != 0 {
			return reg(c) | reg(dst)
		}
	case opSFPSHFT2:
		switch mode {
		case 2:
			return reg(c) | 0xF
		case 3, 4:
			return reg(c)
		case 5, 6:
			return reg(b)
		}
	}
	return 0
}
