package tensix

import "slices"

// Hazards: what is right here, where every instruction completes at once, and wrong on silicon, where units are busy for a
// while and don't wait for each other (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/{STALLWAIT,SFPMAD,SFPLOAD}.md).

// unit is who executes an instruction, and what STALLWAIT's conditions and blocks are about.
type unit uint16

const (
	unitUnpack0 unit = 1 << iota
	unitUnpack1
	unitPack
	unitMatrix
	unitVector
	unitScalar
	unitMisc
	unitConfig
	unitSync
	// Not units: stores of the T core.
	configStores
	gprStores

	stores     = configStores | gprStores
	unitUnpack = unitUnpack0 | unitUnpack1
)

// blocks are the units whose instructions each bit of STALLWAIT's block mask holds back.
var blocks = [9]unit{
	unitMisc | unitScalar | unitPack | unitUnpack, unitSync, unitPack, unitUnpack, 0, unitScalar, unitMatrix, unitConfig, unitVector,
}

// conditions are what each bit of its condition mask waits for: Wormhole, Blackhole. Others wait for banks.
var conditions = [2][15]unit{
	{1: unitUnpack0, 2: unitUnpack1, 3: unitPack, 4: unitPack, 5: unitPack, 6: unitPack, 7: unitMatrix, 13: stores, 14: unitVector},
	{1: unitUnpack0, 2: unitUnpack1, 3: unitPack, 4: unitMatrix, 10: stores, 11: unitVector},
}

// hazards is what has not been waited for. It is nil unless hazards are refused.
type hazards struct {
	threads [numThreads]hazard
}

type hazard struct {
	busy    unit // units that may still execute instructions of the thread, and stores
	blocked unit // units that the last STALLWAIT holds back until waits are no longer busy
	waits   unit

	matrix   [3]dstUse // what the matrix unit has written in the last instructions, the newest first
	results  uint16    // LRegs that the vector unit writes one cycle late, if its next instruction comes at once
	shuffles bool      // the vector unit's last instruction shuffled lanes, which takes another cycle
	config   wordRange // of the configuration, that the last instruction writes one cycle late

	pushed Assumptions           // of what the core pushes
	stored unit                  // stores since the core has pushed an instruction
	queue  [queueSize]pushedNote // what belongs to the instructions in the queue
	popped uint64                // instructions of the queue that were executed
	over   []storeOver
}

// pushedNote belongs to an instruction in a thread's queue.
type pushedNote struct {
	assume Assumptions
	stored unit // stores of the core before it has pushed the instruction, and after the one before
}

// storeOver is a store of the core while instructions that it pushed before are still in the queue.
type storeOver struct {
	to   Place
	at   uint32
	last uint64 // the first of the queue's instructions that was pushed later
}

// dstUse is rows of Dst; moved is set if a MOVA2D or MOVB2D has written them.
type dstUse struct {
	first, end uint32
	moved      bool
}

// wordRange is words of the configuration.
type wordRange struct{ first, end uint32 }

// RefuseHazards makes the engine refuse, from now on, instructions that only give the right result if a unit is quick enough:
// semaphores that tell others of work that may not be done, configuration that a T core has stored but may not have arrived,
// configuration written by WRCFG that the very next instruction uses, and a result of the vector unit that is used one cycle too
// soon: by any instruction on Wormhole, and on Blackhole, where hardware waits, by those of which it doesn't know what they read
// (SFPIADD and SFPSHFT of their destination, SFPSWAP that compares, SFPSHFT2, SFPCONFIG of LReg 0, SFPAND and SFPOR of a second
// register). On Wormhole also:
//
//   - a shuffle of lanes after which the round unit is used one cycle too soon;
//   - a sum that accumulates onto rows of Dst that MOVA2D or MOVB2D has written less than four instructions before;
//   - SFPLOAD from rows of Dst that ZEROACC has made undefined;
//   - use, by SFPLOAD, packers, MOVD2A, MOVD2B, products, pooling and accumulating sums, of columns of such a row that were not
//     written when SFPSTORE or an unpacker wrote others.
//
// An instruction that a T core pushed before it stored to a word of the configuration or a GPR that the instruction uses is
// refused if it is executed after the store: it may find the old value or the new one.
//
// [Engine.Assume] makes exceptions for single instructions.
//
// Not refused, since documents define them, or leave them to what the program means: formats of SrcA and SrcB that differ from
// those of the data but mean the same to the matrix unit (0 and bf16), STALLWAIT for a unit without blocking that unit, and
// configuration that a T core stores while earlier instructions that use it have left the queue but may not have begun.
func (e *Engine) RefuseHazards() {
	e.hazards = new(hazards)
	if e.wormhole {
		e.dst.unwritten = new([dstRows]uint16)
	}
}

// unwritten refuses the use of rows of Dst of which SFPSTORE or an unpacker has written some columns while they were undefined. It
// reports whether it has.
func (e *Engine) unwritten(row, n uint32, wide bool) bool {
	if e.dst.unwritten == nil {
		return false
	}
	if wide {
		row = wideRow(row)
	}
	for r := row; r < row+n; r++ {
		if e.dst.valid[r] && e.dst.unwritten[r] != 0 {
			return !e.refuseUnwritten(r)
		}
	}
	return false
}

// refuseUnwritten refuses the use of columns of a row that have no value.
func (e *Engine) refuseUnwritten(row uint32) bool {
	return e.refuse(UndefinedBehavior, "columns %#x of row %d of Dst have been undefined since ZEROACC, though others have been written",
		e.dst.unwritten[row], row)
}

// Place is where a T core stores to for the engines.
type Place uint8

// Places.
const (
	Configuration Place = iota
	GPRs
)

func (p Place) stores() unit { return configStores << p }

func (p Place) String() string {
	if p == GPRs {
		return "GPR"
	}
	return "configuration word"
}

// StoredTo tells that T core n has stored to a place: to a word of the configuration, or to a GPR, by its number.
func (e *Engine) StoredTo(n int, p Place, at uint32) {
	if e.hazards == nil {
		return
	}
	h := &e.hazards.threads[n]
	h.stored |= p.stores()
	if q := &e.threads[n].queue; q.n > 0 {
		h.over = slices.DeleteFunc(h.over, func(s storeOver) bool { return s.to == p && s.at == at || s.last <= h.popped })
		h.over = append(h.over, storeOver{p, at, h.popped + uint64(q.n)})
	}
}

// Arrived tells that T core n can know that its stores to a place have arrived, because it has loaded from there.
func (e *Engine) Arrived(n int, p Place) {
	if e.hazards != nil {
		e.hazards.threads[n].arrived(&e.threads[n].queue, p.stores())
	}
}

// arrived drops stores.
func (h *hazard) arrived(q *queue, u unit) {
	h.busy &^= u
	h.stored &^= u
	for i := range q.n {
		h.queue[(q.first+i)%queueSize].stored &^= u
	}
}

// pushes notes what belongs to an instruction that is put into the queue.
func (h *hazard) pushes(at uint32) {
	h.queue[at] = pushedNote{h.pushed, h.stored}
	h.stored = 0
}

// begins takes into account what the core stored before it pushed the instruction that is executed next.
func (h *hazard) begins(t *thread) {
	from := &h.stored
	if q := &t.queue; q.n > 0 {
		from = &h.queue[q.first].stored
	}
	h.busy |= *from
	*from = 0
}

// overwritten returns the store of the core after which the first instruction of the queue may find the old or the new value of
// what it uses.
func (e *Engine) overwritten(t *thread, w uint32) (storeOver, bool) {
	h := &e.hazards.threads[t.index]
	if t.queue.n == 0 {
		h.over = h.over[:0]
	}
	for _, s := range h.over {
		if s.last > h.popped && (s.to == GPRs && e.readsGPR(w, s.at) || s.to == Configuration && e.uses(t, w, wordRange{s.at, s.at + 1})) {
			return s, true
		}
	}
	return storeOver{}, false
}

// Synced tells that T core n has waited until its thread has executed everything.
func (e *Engine) Synced(n int) {
	if e.hazards != nil {
		e.hazards.threads[n].busy &= stores
	}
}

// unitOf returns who executes an instruction.
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

// hazard refuses an instruction that comes too soon, and notes what it keeps busy. It is called before the instruction is done
// and again whenever it has had to wait.
func (e *Engine) hazard(t *thread, w uint32) bool {
	h, u := &e.hazards.threads[t.index], unitOf(w)
	if u&h.blocked != 0 || w>>24 == opSTALLWAIT {
		h.busy &^= h.waits
		h.blocked, h.waits = 0, 0
	}
	if s, ok := e.overwritten(t, w); ok {
		return e.refuse(UndefinedBehavior, "the T core has stored to %v %d since it pushed this instruction, which may find the old or the new value", s.to, s.at)
	}
	switch op := w >> 24; {
	case (op == opSEMPOST || op == opSEMGET) && h.tells(t, op) != 0:
		return e.refuse(UndefinedBehavior, "it tells others of what %v may still be doing: STALLWAIT for that, with the sync unit blocked",
			h.tells(t, op))
	case h.busy&reads(w) != 0:
		return e.refuse(UndefinedBehavior, "the T core's stores to configuration or GPRs may not have arrived: STALLWAIT for them, with %v blocked", u)
	case (op == opSFPLOAD || op == opSFPLOADMACRO) && h.overlaps(t.dstRow(w&0x3FF)):
		return e.refuse(UndefinedBehavior, "the matrix unit may not have written rows of Dst from %d on: three other instructions or STALLWAIT must come before", t.dstRow(w&0x3FF)&^3)
	}
	if late := h.results & e.lateReads(w); u == unitVector && late != 0 { // SFPMAD.md, SFPLUT.md and so on
		return e.refuse(UndefinedBehavior, "LReg mask %#x is written one cycle late: SFPNOP must come before", late)
	}
	if h.config.first < h.config.end && e.uses(t, w, h.config) { // WRCFG.md
		return e.refuse(UndefinedBehavior, "configuration words %d to %d are written one cycle late: a NOP must come before", h.config.first,
			h.config.end-1)
	}
	return !e.wormhole || e.lateHazard(t, h, w, u)
}

// tells returns the units of whose work a SEMPOST or SEMGET tells others too early.
func (h *hazard) tells(t *thread, op uint32) unit {
	busy := h.busy &^ stores
	if op == opSEMGET && h.assumes(t, ContextIsRead) {
		busy &^= unitUnpack
	}
	return busy
}

// takenAsDone reports whether an instruction may rely on being done at once, as far as others are told of it.
func (h *hazard) takenAsDone(t *thread, w uint32) bool {
	op := w >> 24
	return h.assumes(t, BootIsOver) || (op == opZEROACC || op == opZEROSRC) && h.assumes(t, ZeroedAtOnce)
}

// lateReads returns the LRegs that an instruction of the vector unit reads without waiting for the one before it. On Blackhole
// hardware waits, but does not know all that instructions read (tt-isa-documentation
// BlackholeA0/TensixTile/TensixCoprocessor/SFPMAD.md).
func (e *Engine) lateReads(w uint32) uint16 {
	if e.wormhole {
		return vectorReads(e, w)
	}
	return unseenReads(w)
}

// lateHazard refuses what comes too soon on Wormhole alone, as its documents say under "Instruction scheduling".
func (e *Engine) lateHazard(t *thread, h *hazard, w uint32, u unit) bool {
	op := w >> 24
	switch {
	case u == unitVector && h.shuffles && rounds(w): // SFPSHFT2.md
		return e.refuse(UndefinedBehavior, "the vector unit's round unit shuffles lanes for another cycle: SFPNOP must come before")
	case op == opELWADD && e.decodeELWADD(w).accumulate != 0, op == opELWSUB && e.decodeELWSUB(w).accumulate != 0:
		// MOVA2D.md, MOVB2D.md: hardware holds back other instructions.
		row := t.dstRow(e.decodeELWADD(w).dst) &^ 7
		for _, m := range h.matrix {
			if m.moved && m.first < row+8 && row < m.end {
				return e.refuse(UndefinedBehavior, "rows of Dst from %d on may not have been moved there: three other instructions must come before",
					row)
			}
		}
	}
	return true
}

// rounds reports whether an instruction needs the round unit of the vector unit, or another one that shares its result.
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

// shuffles reports whether an instruction is an SFPSHFT2 that moves data between lanes, in two cycles.
func shuffles(w uint32) bool { return w>>24 == opSFPSHFT2 && w&15 >= 2 && w&15 <= 4 }

// Fields of the configuration by who uses them: of each unpacker, of each context of each unpacker, of unpacker 0 alone, and
// the first and last of ranges of the packers and of the matrix unit.
var (
	unpackerFields = []configField{
		cfgUnpackDescriptor, cfgUnpackDescriptor1, cfgUnpackOutFormat, cfgUnpackThrottle, cfgUnpackHaloize, cfgUnpackTilize,
		cfgUnpackSetUpdate, cfgUnpackUpsample, cfgUnpackOverrideFormat, cfgUnpackInterleave, cfgUnpackForceExponent, cfgUnpackFP8E4,
		cfgUnpackYStride, cfgUnpackZStride, cfgUnpackWStride, cfgUnpackExponent,
	}
	contextFields   = []configField{cfgUnpackUncompressed, cfgUnpackBase, cfgUnpackOffset}
	unpacker0Fields = []configField{cfgUnpackShift0, cfgUnpackShift1, cfgUnpackShift2, cfgUnpackAddDst}
	context0Fields  = []configField{cfgUnpackDst, cfgUnpackXDim}
)

const (
	firstPackField, lastPackField = cfgPackXStride, cfgPackDstZ + numPackers - 1
	firstMathField, lastMathField = cfgSrcAFormatForced, cfgKeepDenormals
)

// uses reports whether an instruction uses words of the configuration.
func (e *Engine) uses(t *thread, w uint32, r wordRange) bool {
	in := func(f configField) bool {
		word := uint32(e.places[f].word)
		return e.places[f].mask != 0 && r.first <= word && word < r.end
	}
	switch op := w >> 24; {
	case op == opRDCFG:
		word := e.decodeRDCFG(w).word
		return r.first <= word && word < r.end
	case op == opUNPACR:
		return e.unpackerUses(t, e.decodeUNPACR(w), in)
	case op == opPACR:
		for f := configField(firstPackField); f <= lastPackField; f++ {
			if in(f) {
				return true
			}
		}
		return in(cfgDstFormat) || in(cfgRelu) || in(cfgReluThreshold)
	case writesDst(w), op == opMOVD2A, op == opMOVD2B:
		for f := configField(firstMathField); f <= lastMathField; f++ {
			if in(f) {
				return true
			}
		}
	case op == opSFPLOAD, op == opSFPSTORE, op == opSFPLOADMACRO:
		return in(cfgFp32SFPU) || in(cfgSrcBFormat)
	}
	return false
}

// unpackerUses reports whether an UNPACR uses a field for which in holds. One that is refused for its context may use any.
func (e *Engine) unpackerUses(t *thread, a unpacrArgs, in func(configField) bool) bool {
	unit, context := configField(a.unit), min(t.unpackContext(&a), zerosContext)
	index := contextIndex(a.unit, context)
	any := func(list []configField, at configField) bool {
		for _, f := range list {
			if in(f + at) {
				return true
			}
		}
		return false
	}
	return any(unpackerFields, unit) || any(contextFields, index) || in(cfgSrcUnsigned+unit) ||
		unit == 0 && (any(unpacker0Fields, 0) || in(cfgUnpackToDstContext+index) || any(context0Fields, configField(context)))
}

// done notes an instruction that has been done.
func (h *hazard) done(e *Engine, t *thread, w, row uint32) {
	if t.queue.n > 0 {
		h.popped++
	}
	u := unitOf(w)
	if u&(unitUnpack|unitPack|unitMatrix|unitVector) != 0 && !h.takenAsDone(t, w) {
		h.busy |= u
	}
	if w>>24 == opSTALLWAIT {
		h.latch(e, e.decodeSTALLWAIT(w))
	}
	copy(h.matrix[1:], h.matrix[:])
	h.matrix[0] = dstUse{}
	if op := w >> 24; writesDst(w) {
		h.matrix[0] = dstUse{row &^ 7, row&^7 + 8, op == opMOVA2D || op == opMOVB2D}
	}
	h.results, h.shuffles, h.config = 0, false, wordRange{}
	switch {
	case u == unitVector:
		h.results, h.shuffles = e.lateResults(w), shuffles(w)
	case w>>24 == opWRCFG:
		a := e.decodeWRCFG(w)
		h.config = wordRange{a.word, a.word + 1}
		if a.wide != 0 {
			h.config.end = a.word + 4
		}
	}
}

// latch notes what a STALLWAIT waits for. Vector instructions that it holds back need no gap after the matrix unit.
func (h *hazard) latch(e *Engine, a stallwaitArgs) {
	h.blocked, h.waits = 0, 0
	for i, u := range blocks {
		if a.block>>i&1 != 0 {
			h.blocked |= u
		}
	}
	for i, u := range conditions[e.chip] {
		if a.wait>>i&1 != 0 {
			h.waits |= u
		}
	}
	if h.waits&unitMatrix != 0 && h.blocked&unitVector != 0 {
		h.matrix = [3]dstUse{}
	}
}

// overlaps reports whether the matrix unit may still write rows that an SFPLOAD reads.
func (h *hazard) overlaps(row uint32) bool {
	row &^= 3
	for _, m := range h.matrix {
		if m.first < row+4 && row < m.end {
			return true
		}
	}
	return false
}

// writesDst reports whether an instruction of the matrix unit writes data to Dst.
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

// readsGPR reports whether an instruction reads a GPR.
func (e *Engine) readsGPR(w, gpr uint32) bool {
	switch w >> 24 {
	case opWRCFG:
		a := e.decodeWRCFG(w)
		return gpr == a.gpr || a.wide != 0 && gpr&^3 == a.gpr&^3
	case opREG2FLOP:
		return gpr == e.decodeREG2FLOP(w).gpr
	case opSTOREREG:
		return gpr == e.decodeSTOREREG(w).gpr
	case opADDDMAREG:
		a := e.decodeADDDMAREG(w)
		return gpr == a.a || gpr == a.b
	case opMULDMAREG:
		a := e.decodeMULDMAREG(w)
		return gpr == a.a || gpr == a.b
	}
	return false
}

// lateResults are the LRegs that an instruction writes in its second cycle.
func (e *Engine) lateResults(w uint32) uint16 {
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
		if !e.wormhole { // hardware waits whatever comes next
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

// vectorReads are the LRegs that an instruction of the vector unit reads.
func vectorReads(e *Engine, w uint32) uint16 {
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
	case opSFPSETEXP, opSFPSETMAN, opSFPSETSGN:
		if w&1 != 0 { // immediate
			return reg(c)
		}
		return reg(c) | reg(dst)
	case opSFPSHFT:
		if w&1 != 0 {
			return reg(dst)
		}
		return reg(c) | reg(dst)
	case opSFPIADD:
		if w&1 != 0 {
			return reg(c)
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

// unseenReads are the LRegs that an instruction of Blackhole's vector unit reads although hardware doesn't know it.
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

// String names units.
func (u unit) String() string {
	names := []string{"unpacker 0", "unpacker 1", "packers", "matrix unit", "vector unit", "scalar unit", "counters", "configuration unit",
		"sync unit", "stores to configuration", "stores to GPRs"}
	s := ""
	for i, n := range names {
		if u>>i&1 != 0 {
			if s != "" {
				s += ", "
			}
			s += n
		}
	}
	return s
}
