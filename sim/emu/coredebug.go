package emu

import (
	"github.com/reprise-tt/reprise/chip"
)

// The debug interface of RISCV B, T0, T1 and T2: four registers of the tile reach 14 registers of
// each processor (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/DebugInterface.md; for
// Blackhole tt-exalens ttexalens/hardware/blackhole/baby_risc_debug.py). NC has none.
const (
	regRISCControl0 = 0x080 // RISCV_DEBUG_REG_RISC_DBG_CNTL_0: which register, and trigger
	regRISCControl1 = 0x084 // RISC_DBG_CNTL_1: value to write
	regRISCStatus0  = 0x088 // RISC_DBG_STATUS_0: echo of control 0
	regRISCStatus1  = 0x08C // RISC_DBG_STATUS_1: value read

	portWrite   = 1 << 16 // of control 0
	portTrigger = 1 << 31
	portValid   = 1 << 30 // of status 0
)

// Registers of a processor behind the port.
const (
	drStatus  = 0
	drCommand = 1
	drArg0    = 2
	drArg1    = 3
	drResult  = 4
	drModes   = 5
	drAddress = 10
	numWatch  = 8
)

// Bits of drStatus.
const (
	pausedBit = 1 << iota
	hitBreak
	hitWatch
	hitEBREAK // ebreak or ecall
	hitFirst  = 1 << 8
	regPC     = 32 // index of pc after the GPRs
)

// Bits of drCommand.
const (
	cmdPause = 1 << iota
	cmdStep
	cmdResume
	cmdReadRegister
	cmdWriteRegister
	cmdReadMemory
	cmdWriteMemory
	cmdClearRegisters
	cmdWritePC
	cmdSlow      = 1 << 31
	cmdWhenPause = cmdStep | cmdResume | cmdReadRegister | cmdWriteRegister |
		cmdReadMemory | cmdWriteMemory | cmdClearRegisters | cmdWritePC
)

// Modes of a watchpoint, four bits each in drModes.
const (
	watchBreak  = 8
	watchLoad   = 9
	watchStore  = 10
	watchAccess = 11
)

type debugPort struct {
	control  [2]uint32
	echo     uint32 // of control 0, in status 0
	value    uint32 // status 1
	answered bool
}

// coreDebug is the debug interface of a processor, made by the first write to it.
type coreDebug struct {
	status, command, result uint32
	arg                     [2]uint32
	modes                   uint32
	address                 [numWatch]uint32

	asked   bool // to pause after the instruction that it waits in
	steps   int  // until it pauses again
	primed  bool // Blackhole: the first of a step's two commands has come
	slow    bool // paused in slow execution mode
	flushed bool // pc was written since the pause
	loaded  bool // the load at pc has hit its watchpoint
	busy    bool // with an access to memory

	// With a Schedule.
	was     [33]uint32 // the registers and pc before a debugger wrote some
	wrote   bool       // a debugger has
	going   bool       // a debugger has let it go on
	awaited bool       // that is to let it go on, before it hits something
}

func (t *tile) riscPortLoad(off uint32) uint32 {
	p := &t.debug.port
	switch off {
	case regRISCStatus0:
		v := p.echo
		if p.answered {
			v |= portValid
		}
		return v
	case regRISCStatus1:
		return p.value
	}
	return p.control[(off-regRISCControl0)/4]
}

// riscPortStore stores to a control register; raising the trigger accesses a processor's register.
func (t *tile) riscPortStore(o origin, off, v uint32) slowResult {
	p := &t.debug.port
	if off != regRISCControl0 {
		if off == regRISCControl1 {
			p.control[1] = v
		}
		return slowDone
	}
	before := p.control[0]
	p.control[0] = v
	which, dr := v>>17&3, v&0x7FF
	p.echo = v&portTrigger | v&portWrite>>16<<(13+which) | dr
	if v&portTrigger == 0 || before&portTrigger != 0 {
		return slowDone
	}
	p.answered = false
	if t.kind != chip.Tensix {
		return t.refuse(o, unimplemented, "debug interface", debugBase+off,
			"the debug interface of an Ethernet tile is not emulated")
	}
	k := t.cores[which]
	if dr > drModes && (dr < drAddress || dr >= drAddress+numWatch) {
		return t.refuse(o, undefined, "debug interface", debugBase+off, "register %d of %v: there is no such register", dr, k.proc)
	}
	if v&portWrite == 0 {
		if dr == drStatus {
			k.debugged().again(k)
		}
		p.value, p.answered = *k.debugged().register(dr), true
		return slowDone
	}
	return k.debugStore(o, dr, p.control[1])
}

func (c *core) debugged() *coreDebug {
	if c.debug == nil {
		c.debug = &coreDebug{}
		if c.thread != nil {
			c.tile.chip.debugged = append(c.tile.chip.debugged, c)
		}
	}
	return c.debug
}

// register returns the word of a register that exists.
func (d *coreDebug) register(dr uint32) *uint32 {
	switch dr {
	case drStatus:
		return &d.status
	case drCommand:
		return &d.command
	case drArg0, drArg1:
		return &d.arg[dr-drArg0]
	case drResult:
		return &d.result
	case drModes:
		return &d.modes
	}
	return &d.address[dr-drAddress]
}

func (c *core) debugStore(o origin, dr, v uint32) slowResult {
	d := c.debugged()
	switch dr {
	case drStatus, drResult:
		return slowDone
	case drCommand:
		return c.debugCommand(o, v)
	}
	*d.register(dr) = v
	c.watchful()
	return slowDone
}

// watchful makes the processor run one instruction at a time while a debugger needs that.
func (c *core) watchful() {
	d := c.debug
	watched := false
	for i := range numWatch {
		m := d.modes >> (4 * i) & 15
		watched = watched || m >= watchBreak && m <= watchAccess
	}
	if watched && c.state == parked && c.thread == nil {
		c.wake(false) // the loop in which it waits may hit something
	}
	on := d.command&cmdSlow != 0 || d.asked || d.steps > 0 || watched
	c.debugging = on
	c.checked = on || c.tile.chip.cfg.checks() || c.cache != nil || c.profile != nil
	if on {
		c.wait.known = false
	}
}

// debugCommand writes DR(1), without effect in reset.
func (c *core) debugCommand(o origin, v uint32) slowResult {
	d, t := c.debug, c.tile
	refuse := t.refuser(o, "debug interface", debugBase+regRISCControl0)
	paused, strict := d.status&pausedBit != 0, t.chip.cfg.RefuseUnmapped
	d.command = v
	d.going = d.going && v&cmdSlow != 0
	c.watchful()
	switch {
	case c.state == inReset:
		return slowDone
	case v&cmdWhenPause != 0 && !paused && strict:
		return refuse(undefined, "command %#x to %v, which is not paused", v, c.proc)
	case v&cmdReadMemory != 0 && v&(cmdStep|cmdResume|cmdWriteMemory) != 0, v&cmdWriteMemory != 0 && v&(cmdStep|cmdResume) != 0:
		return refuse(undefined, "command %#x to %v: an access to memory goes with no step, resumption or other access", v, c.proc)
	}
	if v&cmdPause != 0 && !paused {
		c.askPause()
	}
	if !paused {
		return slowDone
	}
	if v&cmdReadRegister != 0 {
		switch i := d.arg[0]; {
		case i < regPC:
			d.result = c.X[i]
		case i == regPC:
			d.result = c.pc
		default:
			return refuse(undefined, "read of register %d of %v: want 0 to 32", i, c.proc)
		}
	}
	if v&(cmdClearRegisters|cmdWriteRegister|cmdWritePC) != 0 && !d.wrote {
		d.was, d.wrote = c.now(), true
	}
	if v&cmdClearRegisters != 0 {
		clear(c.X[1:32])
	}
	if v&cmdWriteRegister != 0 {
		i := d.arg[0]
		if i == 0 || i >= regPC {
			return refuse(undefined, "write of register %d of %v: want 1 to 31", i, c.proc)
		}
		c.X[i] = d.arg[1]
	}
	if v&(cmdReadMemory|cmdWriteMemory) != 0 && c.debugAccess() == slowHalt {
		return slowHalt
	}
	if v&cmdWritePC != 0 {
		if v&cmdSlow != 0 {
			c.pc = d.arg[1]
		} else {
			c.pc = t.resetPC(c.proc)
		}
		d.flushed, d.loaded = true, false
		if v&cmdResume == 0 {
			return slowDone // with a flush, a step is only the way around a bug
		}
	}
	if v&(cmdStep|cmdResume) == 0 {
		return slowDone
	}
	if strict && !d.flushed && !(d.slow && v&cmdSlow != 0) {
		return refuse(undefined, "command %#x to %v, which paused outside of slow execution mode: loads that are under way are lost", v, c.proc)
	}
	if strict && t.wormhole() && v&cmdSlow != 0 && !c.unpredicting() {
		return refuse(undefined, "command %#x to %v: slow execution mode needs the branch predictor off (DISABLE_RISC_BP)", v, c.proc)
	}
	if v&cmdResume == 0 {
		if t.blackhole() && !d.primed {
			d.primed = true
			return slowDone
		}
		d.steps = 1
	} else if t.blackhole() && d.status&hitEBREAK != 0 && !d.flushed {
		return slowDone // it pauses again at once for the ebreak
	}
	d.primed = false
	c.resume()
	return slowDone
}

// Bits 22 to 26 of this configuration word turn branch predictors off, by hardware number (tt-metal
// cfg_defines.h, DISABLE_RISC_BP).
const (
	cfgDisablePredictors   = 2
	cfgDisablePredictorBit = 22
)

func (c *core) unpredicting() bool {
	if c.thread != nil {
		return true
	}
	v, ok := c.tile.settledEngine().LoadConfig(cfgDisablePredictors)
	return ok && v>>(cfgDisablePredictorBit+c.hw)&1 != 0
}

func (c *core) askPause() {
	switch {
	case c.thread != nil:
		c.tile.chip.cfg.Schedule.Stopped = false
		c.pause(0)
	case c.state == blocked || c.state == runnable && c.retry():
		c.debug.asked = true
	case c.state == runnable || c.state == parked:
		c.pause(0)
	}
	c.watchful()
}

// retry reports whether the processor was woken inside an instruction.
func (c *core) retry() bool { return c.probeFirst && c.classes == classMailbox && c.watched == 0 }

func (c *core) pause(why uint32) {
	d := c.debug
	if c.thread == nil {
		if c.state == runnable {
			c.tile.chip.dequeue(c)
		}
		c.state = paused
	}
	d.status = pausedBit | why
	d.asked, d.steps, d.primed, d.flushed, d.going = false, 0, false, false, false
	d.slow = d.command&cmdSlow != 0
	c.watchful()
}

// now is the processor's registers and pc.
func (c *core) now() (v [33]uint32) {
	copy(v[:], c.X[:32])
	v[regPC] = c.pc
	return v
}

func (c *core) resume() {
	d := c.debug
	d.status, d.flushed, d.going = 0, false, true
	c.watchful()
	wrote := d.wrote && d.was != c.now()
	if d.wrote = false; c.thread != nil && (c.state != parked && c.state != blocked || !wrote) {
		return
	}
	c.probeFirst, c.probeDelay, c.probeSkip = false, 0, 0
	c.wait.known = false
	c.slice = minSlice
	c.state = runnable
	c.tile.chip.enqueue(c)
}

// awaitResumption is called before the processor hits something. A debugger that lets several
// processors go on, one after the other, would miss what those hit that it hasn't come to.
func (c *core) awaitResumption() {
	if c.thread != nil {
		c.debug.awaited = true
		c.tile.chip.stand()
		c.debug.awaited = false
	}
}

// debugAccess loads or stores a word as the processor would, which isn't paused until it can.
func (c *core) debugAccess() slowResult {
	d := c.debug
	st := c.debugMemory(d.command&cmdWriteMemory != 0)
	d.busy = st == slowBlocked || st == slowAgain
	if d.busy {
		d.status &^= pausedBit
	} else {
		d.status |= pausedBit
	}
	return st
}

// again retries an access to memory.
func (d *coreDebug) again(c *core) {
	if d.busy && c.state == paused {
		c.debugAccess()
	}
}

func (c *core) debugMemory(write bool) slowResult {
	d, t := c.debug, c.tile
	addr, v := d.arg[0], d.arg[1]
	if addr&3 != 0 {
		return c.refuse(undefined, uint64(addr), "debug interface: access to 4 bytes at an address that is not a multiple of that")
	}
	// tt-exalens issue 528: these words read otherwise, and stores to them are lost.
	broken := c.proc == chip.TRISC2 && t.blackhole() && addr%16 > 4
	w, st := (addr-localBase)>>2, slowDone
	switch {
	case c.thread != nil && addr == configBase+4*cfgDisablePredictors:
	case c.thread != nil && write && addr == configBase+4*cfgInvalidate(t.chip.arch):
		if !t.configProcessors(origin{tile: t, core: c}, cfgInvalidate(t.chip.arch), v) {
			return slowHalt
		}
	case addr < t.size && write:
		t.chip.keep(t, addr, 4)
		t.memory(addr + 4)[addr>>2] = v
		t.stored(addr, 4)
	case addr < t.size:
		d.result = t.memory(addr + 4)[addr>>2]
	case w < uint32(len(c.local)) && broken:
		if !write {
			d.result = 0xBADDA7A
		}
	case w < uint32(len(c.local)) && write:
		c.storeLocal(w, v)
	case w < uint32(len(c.local)):
		d.result = c.local[w]
	case write:
		st = t.store(origin{tile: t, core: c}, addr, v)
	default:
		if v, st = t.load(origin{tile: t, core: c}, addr); st == slowDone {
			d.result = v
		}
	}
	return st
}

// hits returns the bits of the watchpoints of two modes at addr.
func (d *coreDebug) hits(mode, other, addr uint32) uint32 {
	v := uint32(0)
	for i := range numWatch {
		if m := d.modes >> (4 * i) & 15; (m == mode || m == other) && d.address[i] == addr {
			v |= hitFirst << i
		}
	}
	return v
}

// debugPC returns the debug bus word of a signal with a processor's pc (tt-isa-documentation
// WormholeB0/TensixTile/DebugDaisychain.md, "RISCV execution state").
func (t *tile) debugPC(daisy, signal, word uint32) (uint32, bool) {
	if daisy != 7 || t.kind != chip.Tensix {
		return 0, false
	}
	k := (*core)(nil)
	switch {
	case signal >= 10 && signal < 18:
		k = t.cores[(signal-10)/2]
	case signal == 24 || signal == 25:
		k = t.core(chip.NCRISC)
	default:
		return 0, false
	}
	switch {
	case signal%2 == 0 && word == 0: // group A: retires next
		if k.state == inReset {
			return 0, true
		}
		return t.chip.shownPC(k)&0x7FFFFFFF | 1<<31, true
	case signal%2 == 1 && word == 1: // group B: is decoded
		return t.chip.shownPC(k) & 0x3FFFFFFF, true
	}
	return 0, false
}

// localOverNOC is where Blackhole's NoC shows local RAM (tt-exalens
// ttexalens/hardware/blackhole/functional_worker_block.py).
var localOverNOC = [chip.NumProcessors]uint32{
	chip.BRISC: 0xFFB14000, chip.NCRISC: 0xFFB16000, chip.TRISC0: 0xFFB18000, chip.TRISC1: 0xFFB1A000, chip.TRISC2: 0xFFB1C000,
}

func (t *tile) localAt(o origin, addr uint32) (*core, uint32) {
	if o.core != nil || !t.blackhole() || t.kind != chip.Tensix {
		return nil, 0
	}
	for _, k := range t.cores {
		if w := (addr - localOverNOC[k.proc]) >> 2; w < uint32(len(k.local)) && k.state != inReset {
			return k, w
		}
	}
	return nil, 0
}

func (c *core) storeLocal(w, v uint32) {
	c.local[w] = v
	if c.localKnown != nil {
		c.localKnown.set(w)
	}
}
