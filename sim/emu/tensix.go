package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

type coprocessor struct {
	*engines            // nil until a core uses them
	mailbox  [4][4]fifo // by writer, reader, in the order B, T0, T1, T2
	pcBuf    [3]pcBuf
	stored   [3]uint64 // when each T core last stored to what the engines read

	mover
}

type fifo struct {
	v    [pcBufValues]uint32
	r, n uint8
}

func (f *fifo) push(v uint32) {
	f.v[(f.r+f.n)%pcBufValues] = v
	f.n++
}

func (f *fifo) pop() uint32 {
	v := f.v[f.r]
	f.r, f.n = (f.r+1)%pcBufValues, f.n-1
	return v
}

const pcBufValues = 16

// pcBuf goes from BRISC to a T core (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/PCBufs.md).
type pcBuf struct {
	fifo
	awaited bool // the T core waits for a value
}

// emptyMailboxes drops what a core has sent, as entering reset does (tt-isa-documentation
// WormholeB0/TensixTile/SoftReset.md).
func (x *coprocessor) emptyMailboxes(hw uint8) {
	if int(hw) < len(x.mailbox) {
		x.mailbox[hw] = [4]fifo{}
	}
}

func (t *tile) trisc(o origin, addr uint32) (int, bool) {
	if o.mine() != nil && o.core.hw >= 1 && o.core.hw <= 3 {
		return int(o.core.hw) - 1, true
	}
	return 0, t.chip.refuse(o, unimplemented, "tensix", uint64(addr), "only TRISC0, 1 and 2 reach these registers")
}

func (t *tile) mopStore(o origin, off, v uint32) slowResult {
	i, ok := t.trisc(o, mopBase+off)
	if !ok {
		return slowHalt
	}
	if off > 0x20 {
		return t.unmapped(o, "store to", mopBase+off)
	}
	return t.give(o, engineOp{kind: opStoreMOP, thread: uint8(i), at: off / 4, v: v})
}

const threadGPRs = 64

// gprs returns a thread and its GPR. BRISC has those of all threads (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/ScalarUnit.md).
func (t *tile) gprs(o origin, off uint32) (thread int, n uint32, ok bool) {
	n = off / 4
	most := uint32(threadGPRs)
	if o.mine() != nil && o.core.proc == chip.BRISC {
		thread, most = int(n/threadGPRs), 3*threadGPRs
	} else if thread, ok = t.trisc(o, gprBase+off); !ok {
		return 0, 0, false
	}
	if n >= most {
		return 0, 0, t.chip.refuse(o, undefined, "tensix", uint64(gprBase+off), "there are %d GPRs", most)
	}
	return thread, n % threadGPRs, true
}

func (t *tile) gprLoad(o origin, off uint32) (uint32, slowResult) {
	i, n, ok := t.gprs(o, off)
	if !ok {
		return 0, slowHalt
	}
	e, st := t.observe(o)
	if st != slowDone {
		return 0, st
	}
	if o.core.proc != chip.BRISC {
		e.Arrived(i, tensix.GPRs)
	}
	return e.GPR(i, int(n)), slowDone
}

func (t *tile) gprStore(o origin, off, v uint32) slowResult {
	i, n, ok := t.gprs(o, off)
	if !ok {
		return slowHalt
	}
	return t.give(o, engineOp{kind: opStoreGPR, thread: uint8(i), at: n, v: v})
}

// Offsets in PCBuf.
const (
	pcBufSync       = 4 // a load waits until the engines have done all that the core pushed
	pcBufMOPSync    = 8
	pcBufSemaphores = 0x20
)

// pcBufName is the name by which checks tell the buffer to thread i, or in the other direction.
func pcBufName(i int, toB uint32) uint32 { return pcBufBase + uint32(i)<<16 + toB }

// pcBufPop is a T core's load, which waits for a value.
func (t *tile) pcBufPop(o origin, i int) (uint32, slowResult) {
	b := &t.tensix.pcBuf[i]
	was := b.awaited
	if b.awaited = b.n == 0; b.awaited {
		if !was {
			t.changed(classMailbox)
		}
		return 0, slowBlocked
	}
	t.check.Acquire(o.checked(), pcBufName(i, 0))
	t.changed(classMailbox)
	return b.pop(), slowDone
}

// pcBufPush is a store of BRISC.
func (t *tile) pcBufPush(o origin, i int, v uint32) slowResult {
	b := &t.tensix.pcBuf[i]
	if b.n == pcBufValues {
		return slowBlocked
	}
	b.push(v)
	t.check.Release(o.checked(), pcBufName(i, 0))
	t.changed(classMailbox)
	return slowDone
}

// pcBufDrained is a load of BRISC, which waits until the T core has taken all, waits for more, and
// its thread of the coprocessor is idle.
func (t *tile) pcBufDrained(o origin, i int) (uint32, slowResult) {
	b := &t.tensix.pcBuf[i]
	e, st := t.observe(o)
	if st == slowDone && (b.n != 0 || !b.awaited || !e.waiting[i].empty() || e.Queued(i) != 0) {
		st = slowBlocked
	}
	if st == slowDone {
		t.check.Release(origin{tile: t, core: t.cores[i+1]}.checked(), pcBufName(i, 4))
		t.check.Acquire(o.checked(), pcBufName(i, 4))
	}
	return 0, st
}

// Synchronisation with the engines, and their semaphores (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/TTSync.md, TensixCoprocessor/SyncUnit.md).
func (t *tile) pcBufLoad(o origin, off uint32) (uint32, slowResult) {
	if o.mine() != nil && o.core.hw == 0 {
		return t.pcBufDrained(o, int(off>>16))
	}
	i, ok := t.trisc(o, pcBufBase+off)
	if !ok {
		return 0, slowHalt
	}
	if off == 0 {
		return t.pcBufPop(o, i)
	}
	e, st := t.observe(o)
	switch {
	case st != slowDone:
		return 0, st
	case off == pcBufSync && e.Queued(i) != 0:
		return 0, slowBlocked
	case off == pcBufSync:
		e.Synced(i)
		return 0, slowDone
	case off == pcBufMOPSync:
		return 0, slowDone
	case off >= pcBufSemaphores && off < pcBufSemaphores+0x20:
		t.check.Acquire(o.checked(), pcBufBase+off)
		return e.Semaphore(int(off-pcBufSemaphores) / 4), slowDone
	}
	return 0, t.refuse(o, unimplemented, "tensix", pcBufBase+off, "load of a PCBuf register that is not emulated")
}

func (t *tile) pcBufStore(o origin, off, v uint32) slowResult {
	if o.mine() != nil && o.core.hw == 0 {
		return t.pcBufPush(o, int(off>>16), v)
	}
	i, ok := t.trisc(o, pcBufBase+off)
	if !ok {
		return slowHalt
	}
	bad := t.refuser(o, "tensix", pcBufBase+off)
	switch {
	case off == 0 || off == pcBufSync || off == pcBufMOPSync:
		return slowDone
	case off >= pcBufSemaphores && off < pcBufSemaphores+0x20:
		if v > 1 {
			return bad(unimplemented, "semaphore: store of %#x: want 0, post, or 1, get", v)
		}
		st := t.give(o, engineOp{kind: opSemaphore, thread: uint8(i), at: (off - pcBufSemaphores) / 4, v: v})
		if st == slowDone {
			t.check.Release(o.checked(), pcBufBase+off)
		}
		return st
	}
	return bad(unimplemented, "store to a PCBuf register that is not emulated")
}

// mailboxOf checks an access to a mailbox (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/Mailboxes.md).
func (t *tile) mailboxOf(o origin, off uint32) (me, other uint8, ok bool) {
	if o.mine() == nil || o.core.hw > 3 {
		t.chip.refuse(o, undefined, "mailbox", uint64(mailboxBase+off), "only BRISC and the TRISCs have mailboxes")
		return 0, 0, false
	}
	if off&0xFFF > 4 {
		t.chip.refuse(o, unimplemented, "mailbox", uint64(mailboxBase+off), "a mailbox has offsets 0, the value, and 4, the query")
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
		return word.Bool(f.n != 0), slowDone
	}
	if f.n == 0 {
		return 0, slowBlocked
	}
	t.check.Acquire(o.checked(), mailboxBase+uint32(from)<<4+uint32(me))
	t.changed(classMailbox)
	return f.pop(), slowDone
}

func (t *tile) mailboxStore(o origin, off, v uint32) slowResult {
	me, to, ok := t.mailboxOf(o, off)
	if !ok {
		return slowHalt
	}
	if off&4 != 0 {
		return t.refuse(o, unimplemented, "mailbox", mailboxBase+off, "store to the query of a mailbox")
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
	f.push(v)
	t.check.Release(o.checked(), mailboxBase+uint32(me)<<4+uint32(to))
	t.changed(classMailbox)
	return slowDone
}

// Tensix configuration words that act on processors (tt-isa-documentation
// WormholeB0/TensixTile/SoftReset.md, BabyRISCV/InstructionCache.md; ttsim src/tensix.cpp).
const (
	cfgTRISC0ResetPC  = 158 // these four: Wormhole only
	cfgTRISCOverride  = 161
	cfgNCRISCResetPC  = 162
	cfgNCRISCOverride = 163
)

// mayConfigure refuses configuration accesses of NCRISC and the NoC.
func (t *tile) mayConfigure(o origin, off uint32) bool {
	if o.mine() == nil || o.core.hw > 3 {
		return t.chip.refuse(o, unimplemented, "tensix", uint64(configBase+off),
			"only BRISC and the TRISCs reach Tensix configuration words")
	}
	return true
}

func (t *tile) configLoad(o origin, off uint32) (uint32, slowResult) {
	if !t.mayConfigure(o, off) {
		return 0, slowHalt
	}
	e, st := t.observe(o)
	if st != slowDone {
		return 0, st
	}
	t.check.Acquire(o.checked(), configBase)
	v, ok := e.LoadConfig(off / 4)
	if !ok {
		return 0, t.refuseEngine(o)
	}
	if o.core.hw != 0 {
		e.Arrived(int(o.core.hw)-1, tensix.Configuration)
	}
	return v, slowDone
}

func (t *tile) configStore(o origin, off, v uint32) slowResult {
	if !t.mayConfigure(o, off) {
		return slowHalt
	}
	if configBase+off == t.slots.Ignored && o.core.proc == chip.BRISC && v-1 < translate.MostIgnored {
		return slowDone
	}
	if t.enginesOf().ActsOnProcessors(off / 4) {
		if st := t.quiet(o); st != slowDone {
			return st
		}
		if !t.chip.cfg.RefuseRaces {
			t.noteStored(o)
			if !t.configProcessors(o, off/4, v) {
				return slowHalt
			}
			t.changed(classConfig)
			return slowDone
		}
	}
	st := t.give(o, engineOp{kind: opStoreConfig, thread: max(o.core.hw, 1) - 1, at: off / 4, v: v})
	if st == slowDone {
		t.check.Release(o.checked(), configBase)
		t.changed(classConfig)
	}
	return st
}

// configProcessors stores a configuration word that acts on processors, false if refused.
func (t *tile) configProcessors(o origin, i, v uint32) bool {
	d := &t.debug
	switch {
	case i == cfgInvalidate(t.chip.arch):
		if v == 0 || v > 31 {
			return t.chip.refuse(o, unsupported, "tensix", uint64(configBase+4*i),
				"RISCV_IC_INVALIDATE = %#x: want a mask of the five processors", v)
		}
		if !t.chip.cfg.RefuseStaleCode {
			break
		}
		for _, k := range t.cores {
			if v>>k.hw&1 != 0 {
				k.icache.Invalidate()
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

// pushStore pushes a Tensix instruction through the aperture at addr: BRISC has one for each
// thread, a TRISC only the first (tt-isa-documentation
// */TensixTile/BabyRISCV/PushTensixInstruction.md).
func (t *tile) pushStore(o origin, addr, v uint32) slowResult {
	bad := t.refuser(o, "tensix", addr)
	switch {
	case addr&0xFFFF != 0:
		return bad(unimplemented, "only the first word of the aperture pushes instructions")
	case o.mine() == nil || o.core.hw > 3:
		return bad(unimplemented, "only BRISC and the TRISCs push Tensix instructions")
	case o.core.hw == 0:
		return t.pushTo(o, engineOp{thread: uint8((addr - pushBase) >> 16), v: v})
	case addr != pushBase:
		return bad(unsupported, "only BRISC has an aperture for each thread")
	}
	return t.pushTo(o, engineOp{thread: o.core.hw - 1, v: v, expand: true})
}

// push executes .ttinsn: an instruction word whose low two bits are not 3. BRISC's go to thread 0.
func (c *core) push(inst uint32) slowResult {
	if (c.hw > 3 || inst>>24 == 0) && c.loses() {
		return slowHalt
	}
	if c.hw > 3 {
		return c.refuse(undefined, uint64(c.pc), "a Tensix instruction in the instruction stream of NCRISC, or no instruction at all")
	}
	e, thread := c.tile.enginesOf(), max(int(c.hw)-1, 0)
	if !e.CanPush(thread) {
		return slowBlocked
	}
	op := engineOp{thread: uint8(thread), hw: c.hw, v: inst, expand: c.hw != 0, stalls: true, pc: c.pc}
	if n := len(e.ops); n != 0 && n < maxEngineOps && e.waiting[thread].empty() && inst>>24 != 0 && c.tile.check == nil {
		e.ops = append(e.ops, op) // as give does
		return slowDone
	}
	o := origin{tile: c.tile, core: c}
	return c.tile.pushTo(o, op)
}

func (t *tile) pushTo(o origin, op engineOp) slowResult {
	inst := op.v
	if inst>>24 == 0 {
		return t.refuse(o, undefined, "tensix", inst,
			"Tensix instruction %#08x: opcode 0: it runs through memory that holds no code", inst)
	}
	op.arrived = t.chip.now(o)-t.tensix.stored[op.thread] > arrival
	if t.chip.cfg.RefuseRaces {
		op.assume = tensix.Assumptions(o.core.waived() >> engineAssumptions)
	}
	o.core.quiet = 0
	return t.give(o, op)
}

// The instruction RAM of Wormhole's NCRISC and Ethernet processors is only fetched from. The mover
// fills it, or a register on Ethernet tiles (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/InstructionRAM.md).
const (
	iramBase  = 0xFFC00000
	iramBytes = 16 << 10
	// Where the mover sees the instruction RAM, in units of 16 bytes.
	moverIRAM = 0x4000
)

// Offsets of TDMA-RISC's registers (tt-isa-documentation WormholeB0/TensixTile/TDMA-RISC.md).
const (
	tdmaSource    = 0x00
	tdmaTarget    = 0x04
	tdmaSize      = 0x08
	tdmaDirection = 0x0C
	tdmaCommand   = 0x10
	tdmaStatus    = 0x14
	tdmaClockGate = 0x24

	tdmaIdle   = 8 // status: no command queued, mover not busy
	tdmaMove   = 0x40
	l1ToIRAM   = 1
	moverUnits = 16 // bytes
)

type mover struct {
	source, size uint32
	unseen       bool // with RefuseRaces: no load of the status has shown the move to be over
}

func (t *tile) tdmaLoad(o origin, off uint32) (uint32, slowResult) {
	if t.wormhole() && off == tdmaStatus {
		t.tensix.mover.unseen = false
		return tdmaIdle, slowDone
	}
	if o.isHostLoad() && tdmaHas(off) {
		return 0, slowDone
	}
	return 0, t.refuse(o, unsupported, "tdma", tdmaBase+off, "load of a TDMA register that is not emulated")
}

// tdmaHas reports whether a register exists: of the mover and packer and unpacker 0, from 0x100 on
// of packer and unpacker 1 (tt-isa-documentation WormholeB0/TensixTile/TDMA-RISC.md).
func tdmaHas(off uint32) bool {
	if off >= 0x118 && off < 0x140 || off >= 0x158 && off < 0x160 || off >= 0x198 && off < 0x1A0 {
		off -= 0x100
	}
	return off < 0x40 || off >= 0x58 && off < 0x60 || off >= 0x98 && off < 0xA0
}

func (t *tile) tdmaStore(o origin, off, v uint32) slowResult {
	m := &t.tensix.mover
	if off == tdmaClockGate {
		return slowDone
	}
	bad := t.refuser(o, "tdma", tdmaBase+off)
	if !t.wormhole() {
		return bad(unsupported, "store to a TDMA register that is not emulated")
	}
	switch off {
	case tdmaSource:
		m.source = v
	case tdmaSize:
		m.size = v
	case tdmaTarget, tdmaDirection, tdmaCommand:
		want := map[uint32]uint32{tdmaTarget: moverIRAM, tdmaDirection: l1ToIRAM, tdmaCommand: tdmaMove}[off]
		if v != want {
			return bad(unsupported, "TDMA register %#x = %#x: want %#x, to move L1 to the instruction RAM", off, v, want)
		}
		if off == tdmaCommand {
			return t.move(o)
		}
	default:
		return bad(unsupported, "store to a TDMA register that is not emulated")
	}
	return slowDone
}

// move copies L1 to the instruction RAM.
func (t *tile) move(o origin) slowResult {
	m, nc := &t.tensix.mover, t.cores[4]
	bad := t.refuser(o, "tdma", tdmaBase+tdmaCommand)
	switch {
	case m.size > iramBytes/moverUnits:
		return bad(undefined, "move of %d bytes into an instruction RAM of %d", uint64(m.size)*moverUnits, iramBytes)
	case uint64(m.source)+uint64(m.size) > t.bytes()/moverUnits:
		return bad(undefined, "move from %#x reaches beyond L1", uint64(m.source)*moverUnits)
	case nc.state == inReset:
	case nc.pc >= iramBase:
		return bad(undefined, "move into the instruction RAM while NCRISC executes it (pc=%#x)", nc.pc)
	case nc.predicts != predictsL1:
		return bad(undefined, "move into the instruction RAM while NCRISC's branch predictor may still fetch from there: it needs a reset, or the sequence that makes it forget")
	}
	from, n := m.source*moverUnits, m.size*moverUnits
	if n == 0 {
		return slowDone
	}
	if t.check != nil {
		m.unseen = true
		if !t.chip.check.Moved(o.checked(), t.check, from, int(n)) {
			return slowHalt
		}
	}
	t.fillIRAM(from, n)
	return slowDone
}

func (t *tile) fillIRAM(from, n uint32) {
	if t.iram == nil {
		t.iram = make([]uint32, iramBytes/4)
		t.iramCode = make([]codePage, iramBytes/pageBytes)
		if t.known != nil {
			t.iramKnown = newBitset(iramBytes)
		}
	}
	copy(t.iram[:n/4], t.memory(from + n)[from/4:])
	for i := range (n + pageBytes - 1) / pageBytes {
		t.iramCode[i] = codePage{}
	}
	if t.iramKnown == nil {
		return
	}
	for w := range n / 4 {
		if t.iramKnown[w>>6] &^= 1 << (w & 63); t.known.has(from/4 + w) {
			t.iramKnown.set(w)
		}
	}
}
