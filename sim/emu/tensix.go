package emu

import "github.com/reprise-tt/reprise/chip"

// tensix is what the cores see of the coprocessor: its configuration words, GPRs, semaphores and mailboxes. There is no
// coprocessor behind them.
type tensix struct {
	config    [256]uint32
	gpr       [3][64]uint32
	mop       [3][9]uint32
	semaphore [8]uint32
	mailbox   [4][4]fifo // by writer, reader, in the order B, T0, T1, T2

	moverSource, moverSize uint32 // units of 16 bytes
}

// fifo is a mailbox: four values at most.
type fifo struct {
	v    [4]uint32
	r, n uint8
}

// emptyMailboxes drops what the core with hardware number hw has sent: entering reset does that
// (tt-isa-documentation WormholeB0/TensixTile/SoftReset.md).
func (x *tensix) emptyMailboxes(hw uint8) {
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
	t.tensix.mop[i][off/4] = v
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
	return t.tensix.gpr[i][off/4], slowDone
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
	t.tensix.gpr[i][off/4] = v
	return slowDone
}

// pcBufLoad and pcBufStore: synchronisation with the coprocessor, which is always idle, and its semaphores
// (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/TTSync.md, TensixCoprocessor/SyncUnit.md).
func (t *tile) pcBufLoad(o origin, off uint32) (uint32, slowResult) {
	if _, ok := t.trisc(o, pcBufBase+off); !ok {
		return 0, slowHalt
	}
	switch {
	case off == 4 || off == 8:
		return 0, slowDone
	case off >= 0x20 && off < 0x40:
		t.acquire(o, pcBufBase)
		return t.tensix.semaphore[(off-0x20)/4], slowDone
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
	case off == 4 || off == 8:
	case off >= 0x20 && off < 0x40:
		i := (off - 0x20) / 4
		s := &t.tensix.semaphore[i]
		switch {
		case v > 1:
			return bad(UnimplementedFunctionality, "semaphore %d: store of %#x: want 0, post, or 1, get", i, v)
		case v == 1 && *s == 0:
			return bad(NonContractualBehavior, "semaphore %d: get while it is 0", i)
		case v == 0 && *s == 15:
			return bad(NonContractualBehavior, "semaphore %d: post while it is 15", i)
		case v == 1:
			*s--
		default:
			*s++
		}
		t.release(o, pcBufBase)
		t.changed(classMailbox)
	default:
		return bad(UnimplementedFunctionality, "store to a PCBuf register that is not emulated")
	}
	return slowDone
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
	cfgInvalidateBlackhole = 185
	cfgTRISC0ResetPC       = 158 // Wormhole
	cfgTRISCOverride       = 161
	cfgNCRISCResetPC       = 162
	cfgNCRISCOverride      = 163
)

// configOf returns the index of a configuration word; NCRISC and the NoC do not reach them.
func (t *tile) configOf(o origin, off uint32) (uint32, bool) {
	switch {
	case o.mine() == nil || o.core.hw > 3:
		t.chip.refuse(o, UnimplementedFunctionality, "tensix", uint64(configBase+off), "only BRISC and the TRISCs reach Tensix configuration words")
	case off/4 >= uint32(len(t.tensix.config)):
		t.chip.refuse(o, UnimplementedFunctionality, "tensix", uint64(configBase+off), "there is no configuration word %d", off/4)
	default:
		return off / 4, true
	}
	return 0, false
}

func (t *tile) configLoad(o origin, off uint32) (uint32, slowResult) {
	i, ok := t.configOf(o, off)
	if !ok {
		return 0, slowHalt
	}
	t.acquire(o, configBase)
	return t.tensix.config[i], slowDone
}

func (t *tile) configStore(o origin, off, v uint32) slowResult {
	i, ok := t.configOf(o, off)
	if !ok {
		return slowHalt
	}
	wh := t.chip.arch == chip.Wormhole
	d := &t.debug
	switch {
	case wh && i == cfgInvalidateWormhole, !wh && i == cfgInvalidateBlackhole:
		if v == 0 || v > 31 {
			t.chip.refuse(o, UnsupportedFunctionality, "tensix", uint64(configBase+off),
				"RISCV_IC_INVALIDATE = %#x: want a mask of the five processors", v)
			return slowHalt
		}
		// Decoded instructions follow memory anyway.
		for _, k := range t.cores {
			if k.icache != nil && v>>k.hw&1 != 0 {
				k.icache.invalidate()
			}
		}
		return slowDone
	case wh && i >= cfgTRISC0ResetPC && i < cfgTRISC0ResetPC+3:
		d.resetPC[chip.TRISC0+chip.Processor(i-cfgTRISC0ResetPC)] = v
	case wh && i == cfgTRISCOverride:
		d.triscOverride = v
	case wh && i == cfgNCRISCResetPC:
		d.resetPC[chip.NCRISC] = v
	case wh && i == cfgNCRISCOverride:
		d.ncriscOverride = v
	}
	t.tensix.config[i] = v
	t.release(o, configBase)
	return t.configured()
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
	case o.core.hw != 0 && addr != pushBase:
		return bad(UnsupportedFunctionality, "only BRISC has an aperture for each thread")
	}
	return t.execute(o, v)
}

// push executes .ttinsn: a word of the instruction stream whose low two bits are not 3.
func (c *core) push(inst uint32) slowResult {
	if c.hw > 3 {
		c.refuse(UndefinedBehavior, uint64(c.pc), "a Tensix instruction in the instruction stream of NCRISC, or no instruction at all")
		return slowHalt
	}
	return c.tile.execute(origin{tile: c.tile, core: c}, inst)
}

// execute does what a Tensix instruction does to state that processors see. Base firmware initialises the coprocessor
// with a few instructions, which are accepted; the others would compute something, and are refused rather than
// ignored (opcodes: tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor).
func (t *tile) execute(o origin, inst uint32) slowResult {
	switch inst >> 24 {
	case 0x02, // NOP
		0x10, // ZEROACC
		0x11, // ZEROSRC
		0x35, // GATESRCRST
		0x60, // DMANOP
		0x71, // SFPLOADI
		0x8A, // SFPENCC
		0x8F, // SFPNOP
		0x91, // SFPCONFIG
		0xA2, // STALLWAIT: nothing is ever in flight
		0xB2: // SETC16
		return slowDone
	case 0xA3: // SEMINIT: value in 19:16, mask in 9:2
		for i := range t.tensix.semaphore {
			if inst>>(2+i)&1 != 0 {
				t.tensix.semaphore[i] = inst >> 16 & 15
			}
		}
		t.release(o, pcBufBase)
		t.changed(classMailbox)
		return slowDone
	}
	cat := UnimplementedFunctionality
	why := "the coprocessor is not emulated"
	if inst>>24 == 0 {
		cat, why = UndefinedBehavior, "opcode 0: it runs through memory that holds no code"
	}
	t.chip.refuse(o, cat, "tensix", uint64(inst), "Tensix instruction %#08x: %s", inst, why)
	return slowHalt
}
