package emu

import (
	"github.com/reprise-tt/reprise/chip"
)

// The debug interface of RISCV B, T0, T1 and T2: four registers of the tile reach 14 registers of
// each processor (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/DebugInterface.md). NC has
// none. What Blackhole does differently is from tt-exalens,
// ttexalens/hardware/blackhole/baby_risc_debug.py.
const (
	regRISCControl0 = 0x080 // RISCV_DEBUG_REG_RISC_DBG_CNTL_0: which register, and trigger
	regRISCControl1 = 0x084 // RISCV_DEBUG_REG_RISC_DBG_CNTL_1: value to be written
	regRISCStatus0  = 0x088 // RISCV_DEBUG_REG_RISC_DBG_STATUS_0: echo of control 0
	regRISCStatus1  = 0x08C // RISCV_DEBUG_REG_RISC_DBG_STATUS_1: value that was read

	portWrite   = 1 << 16 // of control 0
	portTrigger = 1 << 31
	portValid   = 1 << 30 // of status 0
)

// Registers of a processor behind the port: DR(i).
const (
	drStatus  = 0
	drCommand = 1
	drArg0    = 2
	drArg1    = 3
	drResult  = 4
	drModes   = 5
	drAddress = 10 // eight of them
	numWatch  = 8
)

// Bits of DR(0).
const (
	pausedBit = 1 << iota
	hitBreak           // a breakpoint
	hitWatch           // a memory watchpoint
	hitEBREAK          // ebreak or ecall
	hitFirst  = 1 << 8 // watchpoint 0
	hitAny    = hitBreak | hitWatch | hitEBREAK | 0xFF*hitFirst
	regPC     = 32 // index of pc among the GPRs
)

// Bits of DR(1).
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
	cmdWhenPause = cmdStep | cmdResume | cmdReadRegister | cmdWriteRegister | cmdReadMemory | cmdWriteMemory | cmdClearRegisters | cmdWritePC
)

// Modes of a watchpoint, four bits each in DR(5).
const (
	watchBreak  = 8
	watchLoad   = 9
	watchStore  = 10
	watchAccess = 11
)

// debugPort is the four registers of a tile.
type debugPort struct {
	control  [2]uint32
	echo     uint32 // of control 0, as status 0 has it
	value    uint32 // status 1
	answered bool   // value is of the last read
}

// coreDebug is the debug interface of a processor, from the first write to one of its registers on.
type coreDebug struct {
	status, command, result uint32
	arg                     [2]uint32
	modes                   uint32
	address                 [numWatch]uint32

	asked   bool // to pause, when the instruction has ended that the processor waits in
	steps   int  // instructions left until it pauses again
	primed  bool // Blackhole: one of the two commands of a step has come
	slow    bool // slow execution mode was on when the processor paused
	flushed bool // pc was written since
	loaded  bool // the load at pc has hit its watchpoint: it goes on
	busy    bool // with an access to memory
}

// riscPortLoad loads one of the registers of the port.
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

// riscPortStore stores to control 0 or 1. Raising the trigger reads or writes a register of a
// processor.
func (t *tile) riscPortStore(o origin, off, v uint32) slowResult {
	p := &t.debug.port
	if off != regRISCControl0 {
		if off == regRISCControl1 {
			p.control[1] = v
		}
		return slowDone // the status registers discard what is written
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
		t.chip.refuse(o, UnimplementedFunctionality, "debug interface", uint64(debugBase+off),
			"the debug interface of an Ethernet tile is not emulated")
		return slowHalt
	}
	k := t.cores[which] // the order of hardware is B, T0, T1, T2
	if dr > drModes && (dr < drAddress || dr >= drAddress+numWatch) {
		t.chip.refuse(o, UndefinedBehavior, "debug interface", uint64(debugBase+off), "register %d of %v: there is no such register", dr, k.proc)
		return slowHalt
	}
	if v&portWrite == 0 {
		if dr == drStatus {
			k.debugged().again(k)
		}
		p.value, p.answered = k.debugged().load(dr), true
		return slowDone
	}
	return k.debugStore(o, dr, p.control[1])
}

// debugged returns the processor's debug interface.
func (c *core) debugged() *coreDebug {
	if c.debug == nil {
		c.debug = &coreDebug{}
	}
	return c.debug
}

func (d *coreDebug) load(dr uint32) uint32 {
	switch dr {
	case drStatus:
		return d.status
	case drCommand:
		return d.command
	case drArg0, drArg1:
		return d.arg[dr-drArg0]
	case drResult:
		return d.result
	case drModes:
		return d.modes
	}
	return d.address[dr-drAddress]
}

func (c *core) debugStore(o origin, dr, v uint32) slowResult {
	d := c.debugged()
	switch dr {
	case drStatus, drResult:
	case drCommand:
		return c.debugCommand(o, v)
	case drArg0, drArg1:
		d.arg[dr-drArg0] = v
	case drModes:
		d.modes = v
		c.watchful()
	default:
		d.address[dr-drAddress] = v
	}
	return slowDone
}

// watchful makes the processor run one instruction at a time while a debugger needs that, and as
// before otherwise.
func (c *core) watchful() {
	d := c.debug
	on := d.command&cmdSlow != 0 || d.asked || d.steps > 0
	for i := range numWatch {
		m := d.modes >> (4 * i) & 15
		on = on || m >= watchBreak && m <= watchAccess
	}
	c.debugging = on
	c.checked = on || c.tile.chip.cfg.checks() || c.cache != nil || c.profile != nil
	if on {
		c.wait.known = false
	}
}

// debugCommand writes DR(1). Commands to a processor in reset have no effect.
func (c *core) debugCommand(o origin, v uint32) slowResult {
	d, t := c.debug, c.tile
	refuse := func(format string, args ...any) slowResult {
		t.chip.refuse(o, UndefinedBehavior, "debug interface", uint64(debugBase+regRISCControl0), format, args...)
		return slowHalt
	}
	paused := d.status&pausedBit != 0
	d.command = v
	c.watchful()
	switch {
	case c.state == inReset:
		return slowDone
	case v&cmdWhenPause != 0 && !paused:
		return refuse("command %#x to %v, which is not paused", v, c.proc)
	case v&cmdReadMemory != 0 && v&(cmdStep|cmdResume|cmdWriteMemory) != 0, v&cmdWriteMemory != 0 && v&(cmdStep|cmdResume) != 0:
		return refuse("command %#x to %v: an access to memory goes with no step, resumption or other access", v, c.proc)
	}
	if v&cmdPause != 0 && !paused {
		c.askPause()
	}
	if v&cmdReadRegister != 0 {
		switch i := d.arg[0]; {
		case i < regPC:
			d.result = c.X[i]
		case i == regPC:
			d.result = c.pc
		default:
			return refuse("read of register %d of %v: want 0 to 32", i, c.proc)
		}
	}
	if v&cmdClearRegisters != 0 {
		clear(c.X[1:32])
	}
	if v&cmdWriteRegister != 0 {
		i := d.arg[0]
		if i == 0 || i >= regPC {
			return refuse("write of register %d of %v: want 1 to 31", i, c.proc)
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
	if !d.flushed && !(d.slow && v&cmdSlow != 0) {
		return refuse("command %#x to %v, which paused outside of slow execution mode: loads that are under way are lost", v, c.proc)
	}
	if t.chip.arch == chip.Wormhole && v&cmdSlow != 0 && !c.unpredicting() {
		return refuse("command %#x to %v: slow execution mode needs the branch predictor off (DISABLE_RISC_BP)", v, c.proc)
	}
	if v&cmdResume == 0 {
		if t.chip.arch == chip.Blackhole && !d.primed {
			d.primed = true // a step takes two commands
			return slowDone
		}
		d.steps = 1
	} else if t.chip.arch == chip.Blackhole && d.status&hitEBREAK != 0 && !d.flushed {
		return slowDone // the processor pauses at once again, still for the ebreak
	}
	d.primed = false
	c.resume()
	return slowDone
}

// cfgDisablePredictors is the word of the configuration whose bits 22 to 26 turn branch predictors
// off, in the order of hardware (tt-metal cfg_defines.h, DISABLE_RISC_BP).
const (
	cfgDisablePredictors   = 2
	cfgDisablePredictorBit = 22
)

// unpredicting reports whether the processor's branch predictor is off.
func (c *core) unpredicting() bool {
	v, ok := c.tile.settledEngine().LoadConfig(cfgDisablePredictors)
	return ok && v>>(cfgDisablePredictorBit+c.hw)&1 != 0
}

// askPause pauses the processor, at once unless it waits inside of an instruction.
func (c *core) askPause() {
	switch c.state {
	case blocked:
		c.debug.asked = true
	case runnable:
		if c.retry() {
			c.debug.asked = true
			break
		}
		c.pause(0)
	case parked:
		c.pause(0)
	}
	c.watchful()
}

// retry reports whether the processor was woken in the middle of an instruction.
func (c *core) retry() bool { return c.probeFirst && c.classes == classMailbox && c.watched == 0 }

// pause stops the processor in front of the instruction at pc.
func (c *core) pause(why uint32) {
	d := c.debug
	if c.state == runnable {
		c.tile.chip.dequeue(c)
	}
	c.state = paused
	d.status = pausedBit | why
	d.asked, d.steps, d.primed, d.flushed = false, 0, false, false
	d.slow = d.command&cmdSlow != 0
	c.watchful()
}

// resume lets a paused processor go on.
func (c *core) resume() {
	d := c.debug
	d.status, d.flushed = 0, false
	c.watchful()
	c.probeFirst, c.probeDelay, c.probeSkip = false, 0, 0
	c.wait.known = false
	c.slice = minSlice
	c.state = runnable
	c.tile.chip.enqueue(c)
}

// debugAccess loads or stores a word as the processor would. While it can't yet, the processor
// doesn't call itself paused.
func (c *core) debugAccess() slowResult {
	d, access := c.debug, (*core).debugRead
	if d.command&cmdWriteMemory != 0 {
		access = (*core).debugWrite
	}
	st := access(c)
	d.busy = st == slowBlocked || st == slowAgain
	if d.busy {
		d.status &^= pausedBit
	} else {
		d.status |= pausedBit
	}
	return st
}

// again tries an access to memory again that could not be made.
func (d *coreDebug) again(c *core) {
	if d.busy && c.state == paused {
		c.debugAccess()
	}
}

// debugRead loads a word as the processor would.
func (c *core) debugRead() slowResult {
	d, t := c.debug, c.tile
	addr := d.arg[0]
	if addr&3 != 0 {
		c.refuse(UndefinedBehavior, uint64(addr), "debug interface: load of 4 bytes from an address that is not a multiple of that")
		return slowHalt
	}
	switch w := (addr - localBase) >> 2; {
	case addr < t.size:
		d.result = t.memory(addr + 4)[addr>>2]
	case w < uint32(len(c.local)):
		d.result = c.local[w]
		if c.proc == chip.TRISC2 && t.chip.arch == chip.Blackhole && addr%16 > 4 {
			d.result = 0xBADDA7A // tt-exalens issue 528: not what is there
		}
	default:
		v, st := t.load(origin{tile: t, core: c}, addr)
		if st != slowDone {
			return st
		}
		d.result = v
	}
	return slowDone
}

// debugWrite stores a word as the processor would.
func (c *core) debugWrite() slowResult {
	d, t := c.debug, c.tile
	addr, v := d.arg[0], d.arg[1]
	if addr&3 != 0 {
		c.refuse(UndefinedBehavior, uint64(addr), "debug interface: store of 4 bytes to an address that is not a multiple of that")
		return slowHalt
	}
	switch w := (addr - localBase) >> 2; {
	case addr < t.size:
		t.memory(addr + 4)[addr>>2] = v
		t.stored(addr, 4)
	case w < uint32(len(c.local)):
		if c.proc == chip.TRISC2 && t.chip.arch == chip.Blackhole && addr%16 > 4 {
			return slowDone // lost: see debugRead
		}
		c.storeLocal(w, v)
	default:
		return t.store(origin{tile: t, core: c}, addr, v)
	}
	return slowDone
}

// hits returns the bits of the watchpoints of two modes at an address.
func (d *coreDebug) hits(mode, other, addr uint32) uint32 {
	v := uint32(0)
	for i := range numWatch {
		if m := d.modes >> (4 * i) & 15; (m == mode || m == other) && d.address[i] == addr {
			v |= hitFirst << i
		}
	}
	return v
}

// debugPC returns the word of a signal of the debug bus that has a processor's pc, false for other
// signals (tt-isa-documentation WormholeB0/TensixTile/DebugDaisychain.md, "RISCV execution state").
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
	case signal%2 == 0 && word == 0: // group A: of the instruction that retires next
		if k.state == inReset {
			return 0, true
		}
		return k.pc&0x7FFFFFFF | 1<<31, true
	case signal%2 == 1 && word == 1: // group B: of the instruction that is decoded
		return k.pc & 0x3FFFFFFF, true
	}
	return 0, false
}

// localOverNOC is where Blackhole shows the local RAM of a tile's processors to the NoC, by
// processor (tt-exalens ttexalens/hardware/blackhole/functional_worker_block.py).
var localOverNOC = [chip.NumProcessors]uint32{
	chip.BRISC: 0xFFB14000, chip.NCRISC: 0xFFB16000, chip.TRISC0: 0xFFB18000, chip.TRISC1: 0xFFB1A000, chip.TRISC2: 0xFFB1C000,
}

// localAt returns the processor and word of its local RAM at an address of the NoC, nil if there is
// none.
func (t *tile) localAt(o origin, addr uint32) (*core, uint32) {
	if o.core != nil || t.chip.arch != chip.Blackhole || t.kind != chip.Tensix {
		return nil, 0
	}
	for _, k := range t.cores {
		if w := (addr - localOverNOC[k.proc]) >> 2; w < uint32(len(k.local)) && k.state != inReset {
			return k, w
		}
	}
	return nil, 0
}

// storeLocal changes a word of the processor's local RAM from outside of its program.
func (c *core) storeLocal(w, v uint32) {
	c.local[w] = v
	if c.localKnown != nil {
		c.localKnown[w>>6] |= 1 << (w & 63)
	}
}
