package emu

import (
	"cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// Debug and status registers, offsets from debugBase (tt-isa-documentation
// */TensixTile/TileControlDebugStatus.md, SoftReset.md, DebugTimestamper.md; ttsim
// data/*/tile_regs.json).
const (
	regSampleAt          = 0x048 // RISCV_DEBUG_REG_DBG_L1_MEM_REG0, in units of 16 bytes
	regSampleMode        = 0x050 // DBG_L1_MEM_REG2; between them the end
	regDebugBusControl   = 0x054
	regConfigRead        = 0x058
	regDebugBusData      = 0x05C
	regArrayReadEnable   = 0x060
	regArrayReadCommand  = 0x064
	regFeatureDisable    = 0x068
	regArrayReadData     = 0x06C
	regClockGate0        = 0x070 // CG_CTRL_HYST0 to 2 delay the gating of clocks
	regClockGate1        = 0x074
	regConfigReadData    = 0x078
	regClockGate2        = 0x07C
	regInsnControl       = 0x0A0 // DBG_INSTRN_BUF_CTRL0
	regInsnWord          = 0x0A4
	regInsnStatus        = 0x0A8
	regSoftReset         = 0x1B0
	regWallClockLow      = 0x1F0
	regWallClockHigh     = 0x1F4
	regWallClockLatched  = 0x1F8
	regDisableReset      = 0x224
	regTRISC0ResetPC     = 0x228
	regTRISC2ResetPC     = 0x230
	regTRISCOverride     = 0x234
	regNCRISCResetPC     = 0x238
	regNCRISCOverride    = 0x23C
	regDestClockGate     = 0x240
	softResetIgnored     = 1 << 31
	debugBusControlValid = 0x26FFFFFF
)

type debugRegs struct {
	softReset      uint32
	resetPC        [chip.NumProcessors]uint32
	triscOverride  uint32
	ncriscOverride uint32
	latched        uint32 // high half of the wall clock
	busControl     uint32
	sample         [3]uint32 // address, end, mode
	sampleAt       uint32
	insn           [2]uint32 // control, word
	configData     uint32
	clockGates     [3]uint32
	arrayEnabled   bool
	arrayCommand   uint32
	port           debugPort
	perf           perfCounters
}

// startWord returns the register at off that says where a Blackhole's processor starts, or nil.
func (t *tile) startWord(off uint32) *uint32 {
	d := &t.debug
	switch {
	case !t.blackhole():
	case off >= regTRISC0ResetPC && off <= regTRISC2ResetPC:
		return &d.resetPC[chip.TRISC0+chip.Processor(off-regTRISC0ResetPC)/4]
	case off == regTRISCOverride:
		return &d.triscOverride
	case off == regNCRISCResetPC:
		return &d.resetPC[chip.NCRISC]
	case off == regNCRISCOverride:
		return &d.ncriscOverride
	}
	return nil
}

// clockGate returns the register at off that says when clocks stop, which has no other effect, or
// nil.
func (d *debugRegs) clockGate(off uint32) *uint32 {
	switch off {
	case regClockGate0, regClockGate1:
		return &d.clockGates[(off-regClockGate0)/4]
	case regClockGate2:
		return &d.clockGates[2]
	}
	return nil
}

// undocumentedDebug reports registers that exist and are not emulated: debug bus, watchdog,
// time-stamp dumps, and Ethernet tiles' performance counters (ttsim data/*/tile_regs.json,
// "unsupported").
func undocumentedDebug(arch chip.Arch, off uint32) bool {
	switch {
	case off <= 0x20, off >= 0x30 && off <= 0x3C, off >= 0x48 && off <= 0x50, off >= 0x70 && off <= 0x74, off == 0x7C,
		off == 0x90, off == 0x94, off >= 0xA0 && off <= 0xA4, off >= 0xAC && off <= 0xBC, off >= 0xF0 && off <= 0xF8,
		off >= 0x100 && off <= 0x124, off == 0x1D0, off == 0x1D4, off >= 0x1E0 && off <= 0x1E8,
		off >= 0x1FC && off <= 0x21C:
		return true
	case arch == chip.Blackhole:
		return off == 0x220 || off == regDisableReset || off == 0x244 || off == 0x248
	}
	return false
}

func (t *tile) debugLoad(o origin, off uint32) (uint32, slowResult) {
	c, d := t.chip, &t.debug
	switch off {
	case regSoftReset:
		return d.softReset, slowDone
	case regWallClockLow:
		now := t.wallClock(o)
		d.latched = uint32(now >> 32)
		return uint32(now), slowDone
	case regWallClockHigh:
		return uint32(t.wallClock(o) >> 32), slowDone
	case regWallClockLatched:
		return d.latched, slowDone
	}
	if t.kind == chip.Tensix {
		switch off {
		case regFeatureDisable:
			return 0, slowDone
		case regConfigReadData:
			return d.configData, slowDone
		case regDebugBusData:
			return t.debugBus(o)
		case regArrayReadData:
			return t.debugArray(o)
		case regInsnStatus:
			return t.insnStatus(), slowDone
		case regRISCControl0, regRISCControl1, regRISCStatus0, regRISCStatus1:
			return t.riscPortLoad(off), slowDone
		}
		if w := cmp.Or(t.startWord(off), d.clockGate(off)); w != nil {
			return *w, slowDone
		}
		v, ok := d.perf.load(off, func() uint64 { return t.wallClock(o) })
		if ok && (o.isHostLoad() || !c.cfg.RefuseUnmapped || !unknownEvents(off)) {
			return v, slowDone
		}
	}
	if o.isHostLoad() {
		switch {
		case off == regDebugBusControl:
			return d.busControl, slowDone
		case undocumentedDebug(c.arch, off), storedDebug(off), ofTensix(c.arch, off):
			return 0, slowDone
		}
	}
	return 0, t.refuseDebug(o, "load", off)
}

func (t *tile) debugBus(o origin) (uint32, slowResult) {
	const enable = 1 << 29
	v := t.debug.busControl
	signal, daisy, word := v&0xFFFF, v>>16&0xFF, v>>25&3
	refuse := func(cat Category, format string, args ...any) (uint32, slowResult) {
		if o.isHostLoad() && !t.chip.cfg.RefuseUnmapped {
			return 0, slowDone
		}
		return 0, t.refuse(o, cat, "debug registers", debugBase+regDebugBusData, format, args...)
	}
	if v&enable == 0 {
		return refuse(unsupported, "DBG_RD_DATA while DBG_BUS_CTRL doesn't enable the bus")
	}
	if data, ok := t.debugPC(daisy, signal, word); ok {
		return data, slowDone
	}
	if data, ok := t.settledEngine().DebugBus(daisy, signal, word); ok {
		return data, slowDone
	}
	return refuse(unimplemented, "signal %d at place %d of the debug bus is not emulated", signal, daisy)
}

// debugArray loads the pair of Dst data that the command register selects.
func (t *tile) debugArray(o origin) (uint32, slowResult) {
	const dst, rows, pairs = 2, 1024, 8
	v := t.debug.arrayCommand
	row, pair, array := v&0xFFF, v>>12&15, v>>16
	cat, why := unsupported, ""
	switch {
	case !t.debug.arrayEnabled:
		why = "reads of arrays are not enabled"
	case row >= rows:
		why = "Dst has 1,024 rows"
	case pair >= pairs:
		why = "a row of Dst has 8 pairs"
	case array != dst:
		cat, why = unspecified, "only array 2, Dst, is specified"
	default:
		return t.settledEngine().DebugDst(row, pair), slowDone
	}
	if o.isHostLoad() && !t.chip.cfg.RefuseUnmapped {
		return 0, slowDone
	}
	return 0, t.refuse(o, cat, "debug registers", debugBase+regArrayReadData, "DBG_ARRAY_RD_CMD = %#x: %s", v, why)
}

func (t *tile) debugArrayStore(o origin, off, v uint32) slowResult {
	d := &t.debug
	switch {
	case off == regArrayReadCommand && (d.arrayEnabled || !t.chip.cfg.RefuseUnmapped):
		d.arrayCommand = v
	case off == regArrayReadEnable && v <= 1:
		d.arrayEnabled = v != 0
	default:
		return t.refuse(o, unsupported, "debug registers", debugBase+off,
			"store of %#x: want DBG_ARRAY_RD_EN 0 or 1, and then DBG_ARRAY_RD_CMD", v)
	}
	return slowDone
}

// sampleStore stores to a register that makes the debug bus write to L1 (tt-isa-documentation
// WormholeB0/TensixTile/DebugDaisychain.md). A series of samples takes no time.
func (t *tile) sampleStore(o origin, off, v uint32) slowResult {
	const prepare, again, series, trigger = 0xF, 0, 4, 1 << 12
	d := &t.debug
	i := (off - regSampleAt) / 4
	rising := v &^ d.sample[i]
	if d.sample[i] = v; i == 0 && d.sample[2]&0xF == prepare {
		d.sampleAt = v
	}
	mode, n := v&0xF, uint32(1)
	if i != 2 || rising&trigger == 0 || mode == prepare {
		return slowDone
	}
	if mode == series {
		n = d.sample[1] - d.sampleAt
	}
	control := d.busControl
	defer func() { d.busControl = control }()
	for ; n > 0 && d.sampleAt < 1<<20/16; n-- {
		var words [4]uint32
		for w := range words {
			d.busControl = control&^(3<<25) | uint32(w)<<25
			var st slowResult
			if words[w], st = t.debugBus(origin{tile: o.tile, core: o.core, loads: o.tile == nil}); st != slowDone {
				return st
			}
		}
		if !t.chip.landL1(origin{tile: t}, t, d.sampleAt<<4, 16, words[:]) {
			return slowHalt
		}
		if mode != again {
			d.sampleAt++
		}
	}
	return slowDone
}

// insnStatus is DBG_INSTRN_BUF_STATUS (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/PushTensixInstruction.md).
func (t *tile) insnStatus() (v uint32) {
	e := t.settledEngine()
	for n := range e.waiting {
		room, empty := e.waiting[n].empty() && e.CanPush(n), e.waiting[n].empty() && e.Queued(n) == 0
		v |= word.Bool(room)<<n | word.Bool(empty)<<(4+n)
	}
	return v
}

// insnStore pushes Tensix instructions for debuggers, if there is room. Cores can push as well.
func (t *tile) insnStore(o origin, off, v uint32) slowResult {
	d := &t.debug
	i := (off - regInsnControl) / 4
	rising := v &^ d.insn[i]
	if d.insn[i] = v; i != 0 {
		return slowDone
	}
	room := t.insnStatus()
	e := t.enginesOf()
	for n := range e.waiting {
		if push := uint32(1) << n; v&push != 0 && rising>>4&push != 0 && room&push != 0 {
			e.ops = append(e.ops, engineOp{thread: uint8(n), v: d.insn[1]})
			t.settledEngine()
			if f := e.Fault(); f != nil && f.Thread == n && room>>4&push != 0 {
				e.Skip() // a tool's mistake stops no program
			}
		}
	}
	return slowDone
}

// storedDebug reports registers emulated in one direction, or only in Tensix tiles.
func storedDebug(off uint32) bool {
	switch off {
	case regDebugBusData, regArrayReadEnable, regArrayReadCommand, regArrayReadData, 0xA8, regConfigRead, regConfigReadData:
		return true
	}
	return false
}

// ofTensix reports registers emulated in Tensix tiles alone, or only for stores.
func ofTensix(arch chip.Arch, off uint32) bool {
	return off == regFeatureDisable || off >= regRISCControl0 && off <= regRISCStatus1 ||
		arch == chip.Blackhole && off >= regTRISC0ResetPC && off <= regDestClockGate
}

func (t *tile) refuseDebug(o origin, what string, off uint32) slowResult {
	cat := undefined
	why := "there is no such debug register"
	if undocumentedDebug(t.chip.arch, off) {
		cat, why = unsupported, "this debug register is not emulated"
	} else if off == regDebugBusControl || storedDebug(off) {
		cat, why = unimplemented, "this debug register is not emulated, or not in this direction"
	}
	return t.refuse(o, cat, "debug registers", debugBase+off, "%s: %s", what, why)
}

func (t *tile) debugStore(o origin, off, v uint32) slowResult {
	d := &t.debug
	switch off {
	case regSoftReset:
		return t.softReset(o, v)
	case regFeatureDisable:
		if v != 0 {
			return t.refuse(o, unsupported, "debug registers", debugBase+off, "DBG_FEATURE_DISABLE = %#x: want 0", v)
		}
		return slowDone
	case regDebugBusControl:
		if v&^debugBusControlValid != 0 {
			return t.refuse(o, unsupported, "debug registers", debugBase+off, "DBG_BUS_CTRL = %#x: reserved bits set", v)
		}
		d.busControl = v
		return slowDone
	case regSampleAt, regSampleAt + 4, regSampleMode:
		return t.sampleStore(o, off, v)
	case regInsnControl, regInsnWord:
		return t.insnStore(o, off, v)
	case regArrayReadEnable, regArrayReadCommand:
		return t.debugArrayStore(o, off, v)
	case regRISCControl0, regRISCControl1, regRISCStatus0, regRISCStatus1:
		return t.riscPortStore(o, off, v)
	case regConfigRead:
		data, ok := t.settledEngine().LoadConfig(v)
		if !ok {
			return t.refuseEngine(o)
		}
		d.configData = data
		return slowDone
	}
	if w := t.startWord(off); w != nil {
		*w = v
		return t.configured()
	}
	if w := d.clockGate(off); w != nil && t.kind == chip.Tensix {
		*w = v
		return t.configured()
	}
	if t.blackhole() && off == regDestClockGate || t.discardsDebug(off) || d.perf.store(off, v, func() uint64 { return t.wallClock(o) }) {
		return slowDone
	}
	return t.refuseDebug(o, "store", off)
}

// discardsDebug reports stores beyond the last register of a Blackhole worker, which have no effect
// ("might be silently discarded", tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/README.md):
// tt-umd's tests store Wormhole's offsets there (tests/test_utils/setup_risc_cores.hpp).
func (t *tile) discardsDebug(off uint32) bool {
	const last = 0x248 // CG_KICK (ttsim data/bh/tile_regs.json)
	return !t.chip.cfg.RefuseUnmapped && t.blackhole() && t.kind == chip.Tensix && off > last
}

func (t *tile) configured() slowResult {
	t.changed(classConfig)
	return slowDone
}

func (t *tile) softReset(o origin, v uint32) slowResult {
	v &^= softResetIgnored
	if risc := t.heldAll(); v&^risc != 0 {
		return t.refuse(o, unimplemented, "soft reset", debugBase+regSoftReset,
			"SOFT_RESET_0 = %#x: only the bits of processors, %#x, are emulated", v, risc)
	}
	for _, k := range t.cores {
		switch held := v&k.proc.ResetBit() != 0; {
		case held && k.state != inReset:
			k.hold(o)
		case !held && k.state == inReset && t.debug.softReset&k.proc.ResetBit() != 0 && (t.eth == nil || t.eth.starts(k)):
			k.start(o, t.resetPC(k.proc))
		}
	}
	t.debug.softReset = v
	return t.configured()
}

func (c *core) hold(o origin) {
	t := c.tile
	if t.check != nil {
		t.check.Stopped(c.check)
		t.chip.check.Held(o.checked(), c.check)
	}
	t.tensix.emptyMailboxes(c.hw)
	if c.hw >= 1 && c.hw <= 3 {
		t.tensix.pcBuf[c.hw-1].awaited = false
	}
	t.changed(classMailbox)
	if c.state == runnable {
		t.chip.dequeue(c)
	}
	c.state = inReset
	if d := c.debug; d != nil {
		d.status, d.asked, d.steps, d.loaded, d.busy = 0, false, 0, false, false
		c.watchful()
	}
}

func (c *core) start(o origin, pc uint32) {
	t := c.tile
	t.memory(0)
	c.reset(pc, t.blackhole())
	if pc%4 != 0 {
		t.chip.refuse(o, undefined, "riscv", uint64(pc), "start of %v of tile %v at %#x, which is not a multiple of 4", c.proc, t.xy, pc)
		return
	}
	if t.check != nil {
		t.chip.check.Released(o.checked(), c.check)
	}
	if c.hw >= 1 && c.hw <= 3 {
		t.tensix.pcBuf[c.hw-1] = pcBuf{}
		t.changed(classMailbox)
	}
	c.probeFirst, c.probeDelay, c.probeSkip = false, 0, 0
	c.wait.known = false
	c.slice = minSlice
	c.state = runnable
	t.chip.enqueue(c)
	t.together(c)
}

func (t *tile) heldAll() uint32 {
	v := uint32(0)
	for _, k := range t.cores {
		v |= k.proc.ResetBit()
	}
	return v
}

func (t *tile) resetPC(p chip.Processor) uint32 {
	d := &t.debug
	switch p {
	case chip.ERISC0, chip.ERISC1: // Wormhole starts at 0
		return t.eth.resetPC(p)
	case chip.TRISC0, chip.TRISC1, chip.TRISC2:
		if d.triscOverride>>(p-chip.TRISC0)&1 != 0 {
			return d.resetPC[p]
		}
	case chip.NCRISC:
		if d.ncriscOverride&1 != 0 {
			return d.resetPC[p]
		}
	}
	return t.chip.params.ResetPC[p]
}
