package tensix

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Hazards are right in the engine, where each instruction completes at once, and wrong on silicon,
// where units stay busy and don't wait for each other (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/{STALLWAIT,SFPMAD,SFPLOAD}.md).

// blocks are what each bit of STALLWAIT's block mask holds back.
var blocks = [9]unit{
	unitMisc | unitScalar | unitPack | unitUnpack, unitSync, unitPack, unitUnpack, 0, unitScalar, unitMatrix, unitConfig, unitVector,
}

// conditions are what each bit of STALLWAIT's condition mask waits for; other bits wait for banks.
var conditions = [2][15]unit{
	{1: unitUnpack0, 2: unitUnpack1, 3: unitPack, 4: unitPack, 5: unitPack, 6: unitPack, 7: unitMatrix, 13: stores, 14: unitVector},
	{1: unitUnpack0, 2: unitUnpack1, 3: unitPack, 4: unitMatrix, 10: stores, 11: unitVector},
}

// RefuseHazards makes the engine refuse, from now on, instructions that are right only if a unit is
// quick enough:
//
//   - semaphores that announce work that may not be done, and registers, of unpackers and packers;
//   - use of configuration that a T core has stored but that may not have arrived;
//   - use of configuration in the instruction after the WRCFG that writes it;
//   - use of a configuration word or GPR that the T core stored after pushing the instruction;
//   - use of a result of the vector unit one cycle too soon. Blackhole's hardware waits, except for
//     reads that it doesn't know: SFPIADD and SFPSHFT of their destination, SFPSWAP that compares,
//     SFPSHFT2, SFPCONFIG of LReg 0, SFPAND and SFPOR of a second register.
//
// On Wormhole also:
//
//   - use of the round unit one cycle too soon after a shuffle of lanes;
//   - a sum that accumulates onto rows of Dst that MOVA2D or MOVB2D wrote less than four
//     instructions before;
//   - SFPLOAD from rows of Dst that ZEROACC has made undefined;
//   - use of columns of such a row that SFPSTORE or an unpacker left out.
//
// [Engine.Assume] makes exceptions for single instructions.
//
// Not refused, as defined or left to the program: SrcA and SrcB formats that differ from the data's
// but mean the same to the matrix unit (0 and bf16), STALLWAIT for a unit that it doesn't block,
// and a T core's stores to configuration of instructions that have left the queue.
func (e *Engine) RefuseHazards() {
	e.hazards = new(hazards)
	if e.wormhole {
		e.dst.unwritten = new([dstRows]uint16)
	}
}

func (e *Engine) unwritten(row, n uint32, wide bool) bool {
	if e.dst.unwritten == nil {
		return false
	}
	if wide {
		row = wideRow(row)
	}
	for r := row; r < row+n; r++ {
		if e.dst.valid[r] && e.dst.unwritten[r] != 0 {
			if !e.refuseUnwritten(r) {
				return true
			}
		}
	}
	return false
}

func (e *Engine) refuseUnwritten(row uint32) bool {
	e.undefined("columns %#x of row %d of Dst have been undefined since ZEROACC, though others have been written",
		e.dst.unwritten[row], row)
	return e.tolerateHazard()
}

// checkLoad refuses loads of columns that are undefined (ZEROACC.md).
func (e *Engine) checkLoad(row uint32, columns uint16, wide bool) {
	valid := e.dst.valid[row]
	switch {
	case columns == 0 || valid && e.dst.unwritten[row]&columns == 0 || e.partOfTile(row, wide):
	case valid:
		e.refuseUnwritten(row)
	default:
		e.undefined("row %d of Dst is undefined since ZEROACC", row)
		e.tolerateHazard()
	}
}

// partOfTile reports whether the issuer may load undefined data, as [PartOfTile] says.
func (e *Engine) partOfTile(row uint32, wide bool) bool {
	t, n := &e.threads[e.issuer], uint32(64)
	if wide {
		n *= 2
	}
	if !e.hazards.threads[e.issuer].assumes(&t.queue, PartOfTile) {
		return false
	}
	for r := row &^ (n - 1); r < row|(n-1); r++ {
		if e.dst.valid[r] && e.dst.unwritten[r] == 0 {
			return true
		}
	}
	return false
}

// tolerateHazard reports whether the engine goes on after what only RefuseHazards refuses.
func (e *Engine) tolerateHazard() bool {
	e.fault.Thread, e.fault.Instruction, e.fault.Hazard = int(e.issuer), e.issued, true
	if e.OnHazard == nil {
		return false
	}
	e.OnHazard(e.fault)
	e.fault = nil
	return true
}

// StoredTo tells that T core n has stored to a configuration word or a GPR, number at.
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

// Arrived tells that T core n has loaded from a place, so its stores there have arrived.
func (e *Engine) Arrived(n int, p Place) {
	if e.hazards != nil {
		e.hazards.threads[n].arrived(&e.threads[n].queue, p.stores())
	}
}

// overwritten returns a core's store that races with the next instruction.
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

// Synced tells that T core n has waited for its thread's queue to drain.
func (e *Engine) Synced(n int) {
	if e.hazards != nil {
		e.hazards.threads[n].busy &= stores
	}
}

// hazard refuses an instruction that comes too soon, and notes the units that it keeps busy. It
// runs again after each wait.
func (e *Engine) hazard(t *thread, w uint32) bool {
	h, u := &e.hazards.threads[t.index], unitOf(w)
	if u&h.blocked != 0 || w>>24 == opSTALLWAIT {
		h.busy &^= h.waits
		h.blocked, h.waits = 0, 0
	}
	if s, ok := e.overwritten(t, w); ok {
		return e.undefined("the T core has stored to %v %d since it pushed this instruction, "+
			"which may find the old or the new value", s.to, s.at)
	}
	switch op := w >> 24; {
	case (op == opSEMPOST || op == opSEMGET) && h.tells(t, op) != 0:
		return e.undefined("it tells others of what %v may still be doing: STALLWAIT for that, with the sync unit blocked",
			h.tells(t, op))
	case op == opSTOREREG && h.busy&(unitUnpack|unitPack) != 0:
		return e.undefined("it stores to a register what %v may still be doing: STALLWAIT for that, with the scalar unit blocked",
			h.busy&(unitUnpack|unitPack))
	case h.busy&reads(w) != 0:
		return e.undefined("the T core's stores to configuration or GPRs may not have arrived: "+
			"STALLWAIT for them, with %v blocked", u)
	case (op == opSFPLOAD || op == opSFPLOADMACRO) && h.overlaps(t.dstRow(w&0x3FF)):
		return e.undefined("the matrix unit may not have written rows of Dst from %d on: "+
			"three other instructions or STALLWAIT must come before", t.dstRow(w&0x3FF)&^3)
	}
	if late := h.results & e.lateReads(w); u == unitVector && late != 0 { // SFPMAD.md, SFPLUT.md and so on
		return e.undefined("LReg mask %#x is written one cycle late: SFPNOP must come before", late)
	}
	if h.config.first < h.config.end && e.uses(t, w, h.config) { // WRCFG.md
		return e.undefined("configuration words %d to %d are written one cycle late: a NOP must come before", h.config.first,
			h.config.end-1)
	}
	return !e.wormhole || e.lateHazard(t, h, w, u)
}

func (h *hazard) tells(t *thread, op uint32) unit {
	busy := h.busy &^ stores
	switch {
	case op == opSEMGET && h.assumes(&t.queue, ContextIsRead):
		busy &^= unitUnpack
	case op == opSEMPOST && h.toDst: // It announces rows of Dst, which unpacker 1 can't write (UNPACR_Regular.md).
		busy &^= unitUnpack1
	}
	return busy
}

func (h *hazard) takenAsDone(t *thread, w uint32) bool {
	op := w >> 24
	return h.assumes(&t.queue, BootIsOver) || (op == opZEROACC || op == opZEROSRC) && h.assumes(&t.queue, ZeroedAtOnce)
}

// unseen reports an instruction that no other unit and thread sees: it changes counters of its
// thread (INCRWC.md, SETRWC.md) or the vector unit's own registers.
func unseen(w uint32) bool {
	switch op := w >> 24; op {
	case opINCRWC:
		return true
	case opSETRWC:
		return w>>22&3 == 0
	default:
		return unitOf(w) == unitVector && op != opSFPLOAD && op != opSFPSTORE && op != opSFPLOADMACRO
	}
}

// See "Instruction scheduling" of the instructions' pages.
func (e *Engine) lateHazard(t *thread, h *hazard, w uint32, u unit) bool {
	op := w >> 24
	switch {
	case u == unitVector && h.shuffles && rounds(w): // SFPSHFT2.md
		return e.undefined("the vector unit's round unit shuffles lanes for another cycle: SFPNOP must come before")
	case op == opELWADD && e.decodeELWMUL(w).accumulate != 0, op == opELWSUB && e.decodeELWMUL(w).accumulate != 0:
		// MOVA2D.md, MOVB2D.md: hardware holds back other instructions.
		row := t.dstRow(e.decodeELWMUL(w).dst) &^ 7
		for _, m := range h.matrix {
			if m.moved && m.first < row+8 && row < m.end {
				return e.undefined("rows of Dst from %d on may not have been moved there: three other instructions must come before",
					row)
			}
		}
	}
	return true
}

var (
	unpackerFields = []isa.Config{
		isa.UnpackDescriptor, isa.UnpackDescriptor1, isa.UnpackOutFormat, isa.UnpackThrottle, isa.UnpackHaloize, isa.UnpackTilize,
		isa.UnpackSetUpdate, isa.UnpackUpsample, isa.UnpackOverrideFormat, isa.UnpackInterleave, isa.UnpackForceExponent, isa.UnpackFP8E4,
		isa.UnpackYStride, isa.UnpackZStride, isa.UnpackWStride, isa.UnpackExponent,
	}
	contextFields   = []isa.Config{isa.UnpackUncompressed, isa.UnpackBase, isa.UnpackOffset}
	unpacker0Fields = []isa.Config{isa.UnpackShift0, isa.UnpackShift1, isa.UnpackShift2, isa.UnpackAddDst}
	context0Fields  = []isa.Config{isa.UnpackDst, isa.UnpackXDim}
)

const (
	firstPackField, lastPackField = isa.PackXStride, isa.PackDstZ + numPackers - 1
	firstMathField, lastMathField = isa.SrcAFormatForced, isa.KeepDenormals
)

func (e *Engine) uses(t *thread, w uint32, r wordRange) bool {
	in := func(f isa.Config) bool {
		word := uint32(e.places[f].Word)
		return e.places[f].Mask != 0 && r.first <= word && word < r.end
	}
	from := func(f, last isa.Config) bool {
		for ; f <= last && !in(f); f++ {
		}
		return f <= last
	}
	switch op := w >> 24; {
	case op == opRDCFG:
		word := e.decodeRDCFG(w).word
		return r.first <= word && word < r.end
	case op == opUNPACR:
		return e.unpackerUses(t, e.decodeUNPACR(w), in)
	case op == opPACR:
		return from(firstPackField, lastPackField) || in(isa.DstFormat) || in(isa.Relu) || in(isa.ReluThreshold)
	case writesDst(w), op == opMOVD2A, op == opMOVD2B:
		return from(firstMathField, lastMathField)
	case op == opSFPLOAD, op == opSFPSTORE, op == opSFPLOADMACRO:
		return in(isa.Fp32SFPU) || in(isa.SrcBFormat)
	}
	return false
}

// An UNPACR whose context is refused may use any field.
func (e *Engine) unpackerUses(t *thread, a unpacrArgs, in func(isa.Config) bool) bool {
	unit, context := isa.Config(a.unit), min(t.unpackContext(&a), zerosContext)
	index := contextIndex(a.unit, context)
	any := func(list []isa.Config, at isa.Config) bool {
		for _, f := range list {
			if in(f + at) {
				return true
			}
		}
		return false
	}
	return any(unpackerFields, unit) || any(contextFields, index) || in(isa.SrcUnsigned+unit) ||
		unit == 0 && (any(unpacker0Fields, 0) || in(isa.UnpackToDstContext+index) || any(context0Fields, isa.Config(context)))
}

func (h *hazard) done(e *Engine, t *thread, w, row uint32) {
	if t.queue.n > 0 {
		h.popped++
	}
	u := unitOf(w)
	if u&(unitUnpack|unitPack|unitMatrix|unitVector) != 0 && !unseen(w) && !h.takenAsDone(t, w) {
		h.busy |= u
	}
	switch w >> 24 {
	case opSTALLWAIT:
		h.latch(e, e.decodeSTALLWAIT(w))
	case opSEMPOST:
		h.toDst = false
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

// Vector instructions that a STALLWAIT holds back need no gap after the matrix unit.
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

// Assume lets instructions that T core n pushes from now on, and their expansions, rely on a, after
// [Engine.RefuseHazards].
func (e *Engine) Assume(n int, a Assumptions) {
	if e.hazards != nil {
		e.hazards.threads[n].pushed = a
	}
}
