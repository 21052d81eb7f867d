package emu

import (
	"errors"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// coprocessor is the Tensix engines of a tile, and what its cores have beside them.
type coprocessor struct {
	engine  *tensix.Engine // nil until somebody uses it
	tile    *engineTile
	mailbox [4][4]fifo // by writer, reader, in the order B, T0, T1, T2
	stored  [3]uint64  // when each T core last stored to what the engines read

	moverSource, moverSize uint32 // units of 16 bytes
}

// engineTile is a tile as its engines use it, for the access that from makes.
type engineTile struct {
	*tile
	from origin
}

// L1 implements [tensix.Tile].
func (e *engineTile) L1(end uint32) []uint32 { return e.memory(end) }

// L1Size implements [tensix.Tile].
func (e *engineTile) L1Size() uint32 { return e.size }

// Stored implements [tensix.Tile].
func (e *engineTile) Stored(addr uint32, n int) { e.stored(addr, n) }

// StoreRegister implements [tensix.Tile].
func (e *engineTile) StoreRegister(addr, v uint32) bool { return e.store(e.from, addr, v) == slowDone }

// StoreConfig implements [tensix.Tile].
func (e *engineTile) StoreConfig(word, v uint32) bool { return e.configProcessors(e.from, word, v) }

// engine returns the engines of the tile, for an access by o.
func (t *tile) engine(o origin) *tensix.Engine {
	x := &t.tensix
	if x.engine == nil {
		x.tile = &engineTile{tile: t}
		x.engine = tensix.New(t.chip.arch, x.tile)
		if t.chip.cfg.RefuseRaces {
			x.engine.RefuseHazards()
		}
	}
	x.tile.from = o
	return x.engine
}

// runEngine lets the engines do all they can after an access by o, and wakes cores that wait for it. Instructions take no time:
// what stays queued waits for a semaphore, a mutex or a bank.
func (t *tile) runEngine(o origin) slowResult {
	e, ran := t.tensix.engine, false
	for e.Step() > 0 {
		ran = true
	}
	if f := e.Fault(); f != nil {
		return t.refuseEngine(o, f)
	}
	if ran {
		t.changed(classMailbox | classConfig)
	}
	return slowDone
}

// refuseEngine stops the chip for what the engines refuse.
func (t *tile) refuseEngine(o origin, err error) slowResult {
	cat, detail, addr := UnimplementedFunctionality, err.Error(), uint64(0)
	if r := (*tensix.Refusal)(nil); errors.As(err, &r) {
		cat, detail, addr = r.Category, r.Reason(), uint64(r.Instruction)
		if o.core == nil || o.core.hw != 0 {
			o.core = t.cores[1+r.Thread]
		}
	}
	t.chip.refuse(o, cat, "tensix", addr, "%s", detail)
	return slowHalt
}

// engineFault passes on a refusal of the engines, if there is one.
func (t *tile) engineFault(o origin) slowResult {
	if f := t.tensix.engine.Fault(); f != nil {
		return t.refuseEngine(o, f)
	}
	return slowHalt
}

// fifo is a mailbox: four values at most.
type fifo struct {
	v    [4]uint32
	r, n uint8
}

// emptyMailboxes drops what the core with hardware number hw has sent: entering reset does that
// (tt-isa-documentation WormholeB0/TensixTile/SoftReset.md).
func (x *coprocessor) emptyMailboxes(hw uint8) {
	if int(hw) < len(x.mailbox) {
		x.mailbox[hw] = [4]fifo{}
	}
}

// trisc returns which T core o is.
func (t *tile) trisc(o origin, addr uint32) (int, bool) {
	if o.mine() != nil && o.core.hw >= 1 && o.core.hw <= 3 {
		return int(o.core.hw) - 1, true
	}
	t.chip.refuse(o, UnimplementedFunctionality, "tensix", uint64(addr), "only TRISC0, 1 and 2 reach these registers")
	return 0, false
}

func (t *tile) tdmaLoad(o origin, off uint32) (uint32, slowResult) {
	if t.chip.arch == chip.Wormhole && off == 0x14 {
		return 8, slowDone // mover idle
	}
	t.chip.refuse(o, UnsupportedFunctionality, "tdma", uint64(tdmaBase+off), "load of a TDMA register that is not emulated")
	return 0, slowHalt
}

// tdmaStore handles the mover, as far as it fills Wormhole's NCRISC instruction RAM, and the clock gates
// (tt-isa-documentation WormholeB0/TensixTile/TDMA-RISC.md).
func (t *tile) tdmaStore(o origin, off, v uint32) slowResult {
	c, x := t.chip, &t.tensix
	if off == 0x24 {
		return slowDone
	}
	bad := func(cat Category, format string, args ...any) slowResult {
		c.refuse(o, cat, "tdma", uint64(tdmaBase+off), format, args...)
		return slowHalt
	}
	if c.arch != chip.Wormhole {
		return bad(UnsupportedFunctionality, "store to a TDMA register that is not emulated")
	}
	switch off {
	case 0x00:
		x.moverSource = v
	case 0x04:
		if v != 0x4000 {
			return bad(UnsupportedFunctionality, "mover destination %#x: want 0x4000, the instruction RAM", v)
		}
	case 0x08:
		x.moverSize = v
	case 0x0C:
		if v != 1 {
			return bad(UnsupportedFunctionality, "mover direction %d: want 1, L1 to instruction RAM", v)
		}
	case 0x10:
		if v != 0x40 {
			return bad(UnsupportedFunctionality, "TDMA command %#x: want 0x40, move", v)
		}
		if x.moverSize > iramBytes/16 {
			return bad(UndefinedBehavior, "move of %d bytes into an instruction RAM of %d", uint64(x.moverSize)*16, iramBytes)
		}
		if uint64(x.moverSource)+uint64(x.moverSize) > t.bytes()/16 {
			return bad(UndefinedBehavior, "move from %#x reaches beyond L1", uint64(x.moverSource)*16)
		}
		if t.cores[4].state != inReset {
			return bad(UndefinedBehavior, "move into the instruction RAM while NCRISC runs")
		}
		t.fillIRAM(x.moverSource*16, x.moverSize*16)
	default:
		return bad(UnsupportedFunctionality, "store to a TDMA register that is not emulated")
	}
	return slowDone
}

func (t *tile) mopStore(o origin, off, v uint32) slowResult {
	i, ok := t.trisc(o, mopBase+off)
	if !ok {
		return slowHalt
	}
	if off > 0x20 {
		return t.unmapped(o, "store to", mopBase+off)
	}
	t.engine(o).StoreMOP(i, int(off/4), v)
	return slowDone
}

func (t *tile) gprLoad(o origin, off uint32) (uint32, slowResult) {
	i, ok := t.trisc(o, gprBase+off)
	if !ok {
		return 0, slowHalt
	}
	if off > 0xFC {
		t.chip.refuse(o, UndefinedBehavior, "tensix", uint64(gprBase+off), "there are 64 GPRs")
		return 0, slowHalt
	}
	t.engine(o).Arrived(i, tensix.GPRs)
	return t.engine(o).GPR(i, int(off/4)), slowDone
}

func (t *tile) gprStore(o origin, off, v uint32) slowResult {
	i, ok := t.trisc(o, gprBase+off)
	if !ok {
		return slowHalt
	}
	if off > 0xFC {
		t.chip.refuse(o, UndefinedBehavior, "tensix", uint64(gprBase+off), "there are 64 GPRs")
		return slowHalt
	}
	t.engine(o).SetGPR(i, int(off/4), v)
	t.storedForEngine(o, tensix.GPRs)
	return slowDone
}

// Offsets in PCBuf.
const (
	pcBufSync       = 4 // a load waits until the engines have done all that the core has pushed
	pcBufMOPSync    = 8
	pcBufSemaphores = 0x20
)

// pcBufLoad and pcBufStore: synchronisation with the engines, and their semaphores
// (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/TTSync.md, TensixCoprocessor/SyncUnit.md).
func (t *tile) pcBufLoad(o origin, off uint32) (uint32, slowResult) {
	i, ok := t.trisc(o, pcBufBase+off)
	if !ok {
		return 0, slowHalt
	}
	switch {
	case off == pcBufSync && t.engine(o).Queued(i) != 0:
		return 0, slowBlocked
	case off == pcBufSync:
		t.engine(o).Synced(i)
		fallthrough
	case off == pcBufMOPSync:
		t.acquire(o, pcBufBase)
		return 0, slowDone
	case off >= pcBufSemaphores && off < pcBufSemaphores+0x20:
		t.acquire(o, pcBufBase)
		return t.engine(o).Semaphore(int(off-pcBufSemaphores) / 4), slowDone
	}
	t.chip.refuse(o, UnimplementedFunctionality, "tensix", uint64(pcBufBase+off), "load of a PCBuf register that is not emulated")
	return 0, slowHalt
}

func (t *tile) pcBufStore(o origin, off, v uint32) slowResult {
	if _, ok := t.trisc(o, pcBufBase+off); !ok {
		return slowHalt
	}
	bad := func(cat Category, format string, args ...any) slowResult {
		t.chip.refuse(o, cat, "tensix", uint64(pcBufBase+off), format, args...)
		return slowHalt
	}
	switch {
	case off == pcBufSync || off == pcBufMOPSync:
		return slowDone
	case off >= pcBufSemaphores && off < pcBufSemaphores+0x20:
		if v > 1 {
			return bad(UnimplementedFunctionality, "semaphore: store of %#x: want 0, post, or 1, get", v)
		}
		return t.semaphoreStore(o, int(off-pcBufSemaphores)/4, v == 0)
	}
	return bad(UnimplementedFunctionality, "store to a PCBuf register that is not emulated")
}

// semaphoreStore posts or gets semaphore i.
func (t *tile) semaphoreStore(o origin, i int, post bool) slowResult {
	e := t.engine(o)
	change := e.GetSemaphore
	if post {
		change = e.PostSemaphore
	}
	if !change(i) {
		return t.engineFault(o)
	}
	t.release(o, pcBufBase)
	t.changed(classMailbox)
	return t.runEngine(o)
}

// mailbox returns the parts of a mailbox access that loads and stores share
// (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/Mailboxes.md).
func (t *tile) mailboxOf(o origin, off uint32) (me, other uint8, ok bool) {
	if o.mine() == nil || o.core.hw > 3 {
		t.chip.refuse(o, UndefinedBehavior, "mailbox", uint64(mailboxBase+off), "only BRISC and the TRISCs have mailboxes")
		return 0, 0, false
	}
	if off&0xFFF > 4 {
		t.chip.refuse(o, UnimplementedFunctionality, "mailbox", uint64(mailboxBase+off), "a mailbox has offsets 0, the value, and 4, the query")
		return 0, 0, false
	}
	return o.core.hw, uint8(off >> 12), true
}

func (t *tile) mailboxLoad(o origin, off uint32) (uint32, slowResult) {
	me, from, ok := t.mailboxOf(o, off)
	if !ok {
		return 0, slowHalt
	}
	f := &t.tensix.mailbox[from][me]
	if off&4 != 0 {
		return b2u(f.n != 0), slowDone
	}
	if f.n == 0 {
		return 0, slowBlocked
	}
	t.acquire(o, mailboxBase+uint32(from)<<4+uint32(me))
	v := f.v[f.r]
	f.r, f.n = (f.r+1)%4, f.n-1
	t.changed(classMailbox)
	return v, slowDone
}

func (t *tile) mailboxStore(o origin, off, v uint32) slowResult {
	me, to, ok := t.mailboxOf(o, off)
	if !ok {
		return slowHalt
	}
	if off&4 != 0 {
		t.chip.refuse(o, UnimplementedFunctionality, "mailbox", uint64(mailboxBase+off), "store to the query of a mailbox")
		return slowHalt
	}
	// The four mailboxes of one writer share four places.
	sent := uint8(0)
	for i := range t.tensix.mailbox[me] {
		sent += t.tensix.mailbox[me][i].n
	}
	f := &t.tensix.mailbox[me][to]
	if sent == 4 {
		return slowBlocked
	}
	f.v[(f.r+f.n)%4] = v
	f.n++
	t.release(o, mailboxBase+uint32(me)<<4+uint32(to))
	t.changed(classMailbox)
	return slowDone
}

// Tensix configuration words that act on processors (tt-isa-documentation WormholeB0/TensixTile/SoftReset.md,
// BabyRISCV/InstructionCache.md; ttsim src/tensix.cpp).
const (
	cfgInvalidateWormhole  = 157
	cfgInvalidateBlackhole = 185 // of those below, Blackhole has none
	cfgTRISC0ResetPC       = 158 // Wormhole, as the following
	cfgTRISCOverride       = 161
	cfgNCRISCResetPC       = 162
	cfgNCRISCOverride      = 163
)

// mayConfigure reports whether o reaches the configuration: NCRISC and the NoC do not.
func (t *tile) mayConfigure(o origin, off uint32) bool {
	if o.mine() == nil || o.core.hw > 3 {
		t.chip.refuse(o, UnimplementedFunctionality, "tensix", uint64(configBase+off), "only BRISC and the TRISCs reach Tensix configuration words")
		return false
	}
	return true
}

func (t *tile) configLoad(o origin, off uint32) (uint32, slowResult) {
	if !t.mayConfigure(o, off) {
		return 0, slowHalt
	}
	t.acquire(o, configBase)
	v, ok := t.engine(o).LoadConfig(off / 4)
	if !ok {
		return 0, t.engineFault(o)
	}
	if o.core.hw != 0 {
		t.engine(o).Arrived(int(o.core.hw)-1, tensix.Configuration)
	}
	return v, slowDone
}

func (t *tile) configStore(o origin, off, v uint32) slowResult {
	if !t.mayConfigure(o, off) {
		return slowHalt
	}
	if !t.engine(o).StoreConfig(off/4, v) {
		return t.engineFault(o)
	}
	t.storedForEngine(o, tensix.Configuration)
	t.release(o, configBase)
	return t.configured()
}

// arrival is how many instructions after a T core's store to configuration or GPRs it is taken to have arrived, whatever the
// core has done to be sure of it: no document bounds that.
const arrival = 64

// storedForEngine notes that a core has stored to what the engines read. BRISC does so before others start.
func (t *tile) storedForEngine(o origin, p tensix.Place) {
	if hw := o.core.hw; hw != 0 {
		t.engine(o).StoredTo(int(hw)-1, p)
		t.tensix.stored[hw-1] = t.chip.now(o)
	}
}

// configProcessors stores a word of the configuration that acts on processors. It returns false if it is refused.
func (t *tile) configProcessors(o origin, i, v uint32) bool {
	d := &t.debug
	wh := t.chip.arch == chip.Wormhole
	switch {
	case wh && i == cfgInvalidateWormhole, !wh && i == cfgInvalidateBlackhole:
		if v == 0 || v > 31 {
			t.chip.refuse(o, UnsupportedFunctionality, "tensix", uint64(configBase+4*i),
				"RISCV_IC_INVALIDATE = %#x: want a mask of the five processors", v)
			return false
		}
		// Decoded instructions follow memory anyway.
		for _, k := range t.cores {
			if k.icache != nil && v>>k.hw&1 != 0 {
				k.icache.invalidate()
			}
		}
	case i >= cfgTRISC0ResetPC && i < cfgTRISC0ResetPC+3:
		d.resetPC[chip.TRISC0+chip.Processor(i-cfgTRISC0ResetPC)] = v
	case i == cfgTRISCOverride:
		d.triscOverride = v
	case i == cfgNCRISCResetPC:
		d.resetPC[chip.NCRISC] = v
	case i == cfgNCRISCOverride:
		d.ncriscOverride = v
	}
	return true
}

// pushStore pushes a Tensix instruction through the aperture at addr: BRISC has one for each thread, a TRISC only the
// first (tt-isa-documentation */TensixTile/BabyRISCV/PushTensixInstruction.md).
func (t *tile) pushStore(o origin, addr, v uint32) slowResult {
	bad := func(cat Category, format string, args ...any) slowResult {
		t.chip.refuse(o, cat, "tensix", uint64(addr), format, args...)
		return slowHalt
	}
	switch {
	case addr&0xFFFF != 0:
		return bad(UnimplementedFunctionality, "only the first word of the aperture pushes instructions")
	case o.mine() == nil || o.core.hw > 3:
		return bad(UnimplementedFunctionality, "only BRISC and the TRISCs push Tensix instructions")
	case o.core.hw == 0:
		return t.pushTo(o, int(addr-pushBase)>>16, v, false)
	case addr != pushBase:
		return bad(UnsupportedFunctionality, "only BRISC has an aperture for each thread")
	}
	return t.pushTo(o, int(o.core.hw)-1, v, true)
}

// push executes .ttinsn: a word of the instruction stream whose low two bits are not 3. BRISC's go to the first thread.
func (c *core) push(inst uint32) slowResult {
	if c.hw > 3 {
		c.refuse(UndefinedBehavior, uint64(c.pc), "a Tensix instruction in the instruction stream of NCRISC, or no instruction at all")
		return slowHalt
	}
	o, thread := origin{tile: c.tile, core: c}, max(int(c.hw)-1, 0)
	if !c.tile.engine(o).CanPush(thread) {
		return slowBlocked
	}
	return c.tile.pushTo(o, thread, inst, c.hw != 0)
}

// pushTo gives an instruction to a thread of the engines, through its MOP expander if expand is set.
func (t *tile) pushTo(o origin, thread int, inst uint32, expand bool) slowResult {
	if inst>>24 == 0 {
		t.chip.refuse(o, UndefinedBehavior, "tensix", uint64(inst), "Tensix instruction %#08x: opcode 0: it runs through memory that holds no code", inst)
		return slowHalt
	}
	if t.chip.now(o)-t.tensix.stored[thread] > arrival {
		t.engine(o).Arrived(thread, tensix.Configuration)
		t.engine(o).Arrived(thread, tensix.GPRs)
	}
	if !t.engine(o).Push(thread, inst, expand) {
		return t.engineFault(o)
	}
	if tensix.Signals(inst) {
		t.release(o, pcBufBase)
	}
	return t.runEngine(o)
}
