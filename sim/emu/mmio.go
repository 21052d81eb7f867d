package emu

import (
	"fmt"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"math/bits"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

type slowResult uint8

const (
	slowDone slowResult = iota
	slowBlocked
	slowAgain // in the next round
	slowHalt
)

// slow executes an instruction that exec does not. c.pc is its address.
func (c *core) slow(packed rv32.Op) slowResult {
	o := packed.Inst()
	addr := c.X[o.Rs1] + uint32(o.Imm)
	switch o.Code {
	case rv32.LB, rv32.LBU, rv32.LH, rv32.LHU, rv32.LW:
		return c.slowLoad(o, addr)
	case rv32.SB, rv32.SH, rv32.SW:
		return c.slowStore(o, addr)
	case rv32.Tensix:
		return c.push(uint32(o.Imm)>>2 | uint32(o.Imm)<<30)
	case rv32.CSRRW:
		return c.csr(c.X[o.Rs1], o)
	case rv32.CSRRS:
		v := c.cfg0
		if o.Rs1 == 0 {
			c.X[o.Rd] = v
			return slowDone
		}
		return c.csr(v|c.X[o.Rs1], o)
	case rv32.CSRRC:
		return c.csr(c.cfg0&^c.X[o.Rs1], o)
	case rv32.CSRRWI:
		return c.csr(uint32(o.Imm), o)
	case rv32.JALR:
		target := addr &^ 1
		c.refuse(UndefinedBehavior, uint64(target), "jump to %#x, which is not a multiple of 4", target)
		return slowHalt
	case rv32.Skewed:
		if w, target := c.word(c.pc), c.pc+uint32(o.Imm); takes(w>>12&7, c.X[o.Rs1], c.X[o.Rs2]) {
			c.refuse(UndefinedBehavior, uint64(target), "branch to %#x, which is not a multiple of 4", target)
			return slowHalt
		}
		return slowDone
	case rv32.CPOP:
		c.X[o.Rd] = uint32(bits.OnesCount32(c.X[o.Rs1]))
		return slowDone
	case rv32.EBREAK:
		if c.debugging {
			return slowDone
		}
		w := c.word(c.pc)
		cat, why := explain(c.tile.chip.arch, w)
		c.refuse(cat, uint64(c.pc), "instruction %#08x: %s", w, why)
		return slowHalt
	case rv32.Illegal:
		if c.loses() {
			return slowHalt
		}
		w := c.word(c.pc)
		cat, why := explain(c.tile.chip.arch, w)
		c.refuse(cat, uint64(c.pc), "instruction %#08x: %s", w, why)
		return slowHalt
	}
	return c.amo(o)
}

// takes reports whether a branch of an encoding is taken.
func takes(f3, a, b uint32) bool {
	var holds bool
	switch f3 >> 1 {
	case 0:
		holds = a == b
	case 2:
		holds = int32(a) < int32(b)
	case 3:
		holds = a < b
	}
	return holds == (f3&1 == 0)
}

func (c *core) csr(v uint32, o rv32.Inst) slowResult {
	if v&^csrCfg0Bits != 0 {
		c.refuse(UnsupportedFunctionality, rv32.Cfg0, "cfg0 = %#x: only bits %#x may be set", v, uint32(csrCfg0Bits))
		return slowHalt
	}
	c.X[o.Rd] = c.cfg0
	c.cfg0 = v
	return slowDone
}

func width(o rv32.Opcode) uint32 {
	switch o {
	case rv32.LB, rv32.LBU, rv32.SB:
		return 1
	case rv32.LH, rv32.LHU, rv32.SH:
		return 2
	}
	return 4
}

func (c *core) slowLoad(o rv32.Inst, addr uint32) slowResult {
	n := width(o.Code)
	if addr&(n-1) != 0 {
		c.refuse(NonContractualBehavior, uint64(addr), "load of %d bytes from an address that is not a multiple of that", n)
		return slowHalt
	}
	if t := c.tile; addr < t.size { // after what of L1 was used so far
		c.X[o.Rd] = extend(o.Code, t.memory(addr + n)[addr>>2], addr)
		return slowDone
	}
	if n != 4 {
		c.refuse(UntestedFunctionality, uint64(addr), "load of %d bytes from registers: want 4", n)
		return slowHalt
	}
	v, st := c.tile.load(origin{tile: c.tile, core: c}, addr)
	if st == slowDone {
		c.X[o.Rd] = v
	}
	return st
}

func (c *core) slowStore(o rv32.Inst, addr uint32) slowResult {
	n := width(o.Code)
	if addr&(n-1) != 0 {
		c.refuse(NonContractualBehavior, uint64(addr), "store of %d bytes to an address that is not a multiple of that", n)
		return slowHalt
	}
	t := c.tile
	v := c.X[o.Rs2]
	if addr-niu0Base < streamBase-niu0Base && n == 4 && !t.outbox.full() { // what most requests begin with
		return c.afterStore(t.niuStore(origin{tile: t, core: c}, int(addr-niu0Base)/(niu1Base-niu0Base), addr%(niu1Base-niu0Base), v))
	}
	if w := addr >> 2; addr < t.size { // in a flagged line, or after what of L1 was used so far
		l1 := t.memory(addr + n)
		switch n {
		case 1:
			v = word.Insert(l1[w], v, addr&3*8, 0xFF)
		case 2:
			v = word.Insert(l1[w], v, addr&2*8, 0xFFFF)
		}
		if l1[w] != v || t.known != nil {
			l1[w] = v
			t.stored(addr, int(n))
		}
		return slowDone
	}
	if n != 4 {
		c.refuse(UnsupportedFunctionality, uint64(addr), "store of %d bytes to registers: want 4", n)
		return slowHalt
	}
	if t.outbox.full() {
		return slowAgain
	}
	return c.afterStore(t.store(origin{tile: t, core: c}, addr, v))
}

// afterStore returns what a core does after a store to a register, which may have stopped it or the
// chip.
func (c *core) afterStore(st slowResult) slowResult {
	c.quiet = 0
	if st == slowDone && (c.state != runnable || *c.tile.fault() != nil) {
		return slowHalt
	}
	return st
}

// amo executes an atomic memory operation: L1 only (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/README.md).
func (c *core) amo(o rv32.Inst) slowResult {
	t, addr := c.tile, c.X[o.Rs1]
	if addr&3 != 0 || addr >= t.size {
		c.refuse(UndefinedBehavior, uint64(addr), "atomic memory operation: want a multiple of 4 inside L1")
		return slowHalt
	}
	l1 := t.memory(addr + 4)
	old, v := l1[addr>>2], c.X[o.Rs2]
	switch o.Code {
	case rv32.AMOADD:
		v += old
	case rv32.AMOSWAP:
	case rv32.AMOXOR:
		v ^= old
	case rv32.AMOOR:
		v |= old
	case rv32.AMOAND:
		v &= old
	case rv32.AMOMIN:
		v = uint32(min(int32(old), int32(v)))
	case rv32.AMOMAX:
		v = uint32(max(int32(old), int32(v)))
	case rv32.AMOMINU:
		v = min(old, v)
	case rv32.AMOMAXU:
		v = max(old, v)
	}
	if t.known != nil {
		if a, bad := t.unwritten(addr, 4); bad {
			c.refuse(UnpredictableValueUsed, uint64(a), "atomic memory operation on memory never written")
			return slowHalt
		}
	}
	if v != old {
		l1[addr>>2] = v
		t.stored(addr, 4)
	}
	c.X[o.Rd] = old
	return slowDone
}

// readClass says what a load of a register by a core of the tile depends on; false if the load has
// an effect or the register changes by itself.
func (t *tile) readClass(addr uint32) (class, bool) {
	switch {
	case addr >= niu0Base && addr < streamBase:
		noc := int(addr-niu0Base) / (niu1Base - niu0Base)
		if i := addr % (niu1Base - niu0Base) / 4; i >= 0x200/4+cntSlaveAtomicResp && i < 0x200/4+0x40 {
			return classServed0 << noc, true
		}
		return classNIU0 << noc, true
	case addr >= streamBase && addr < streamEnd:
		return classStream, true
	case t.kind == chip.Ethernet && addr >= ethTxBase:
		return classConfig, true
	case addr >= debugBase && addr < debugBase+0x1000:
		off := addr - debugBase
		return classConfig, off < regWallClockLow || off > regWallClockLatched
	case addr >= gprBase && addr < gprBase+0x1000, addr >= configBase && addr < configBase+0x1000:
		return classConfig, true
	case addr >= pcBufBase && addr < pcBufBase+0x1000:
		return classMailbox, true
	case addr >= mailboxBase && addr < mailboxBase+0x4000:
		return classMailbox, addr&4 != 0
	}
	return 0, false
}

// unmapped refuses an access to an address at which nothing answers.
func (t *tile) unmapped(o origin, what string, addr uint32) slowResult {
	t.chip.refuse(o, UnimplementedFunctionality, "mmio", uint64(addr), "%s %s tile %v, %s: nothing answers at this address",
		what, t.kind, t.xy, fmt.Sprintf("L1 ends at %#x", t.bytes()))
	return slowHalt
}

// load reads the register at addr, a multiple of 4, for o: a core of this tile, or the NoC or host
// if o.core is nil.
func (t *tile) load(o origin, addr uint32) (uint32, slowResult) {
	switch {
	case addr >= niu0Base && addr < niu1Base:
		return t.niuLoad(o, 0, addr-niu0Base)
	case addr >= niu1Base && addr < streamBase:
		return t.niuLoad(o, 1, addr-niu1Base)
	case addr >= streamBase && addr < streamEnd:
		return t.streamLoad(o, addr-streamBase)
	case addr >= debugBase && addr < debugBase+0x1000:
		return t.debugLoad(o, addr-debugBase)
	case o.isHostLoad() && addr >= picBase && addr < picBase+0x1000: // the interrupt controller
		return 0, slowDone
	}
	if t.kind == chip.Ethernet {
		return t.ethLoad(o, addr)
	}
	switch {
	case addr >= tdmaBase && addr < tdmaBase+0x1000:
		return t.tdmaLoad(o, addr-tdmaBase)
	case addr >= gprBase && addr < gprBase+0x1000:
		return t.gprLoad(o, addr-gprBase)
	case addr >= pcBufBase && addr < pcBufBase+0x1000:
		return t.pcBufLoad(o, addr-pcBufBase)
	case addr >= mailboxBase && addr < mailboxBase+0x4000:
		return t.mailboxLoad(o, addr-mailboxBase)
	case addr >= configBase && addr < configBase+0x1000:
		return t.configLoad(o, addr-configBase)
	}
	if k, w := t.localAt(o, addr); k != nil {
		return k.local[w], slowDone
	}
	return 0, t.unmapped(o, "load from", addr)
}

// store writes the register at addr, a multiple of 4, for o.
func (t *tile) store(o origin, addr, v uint32) slowResult {
	switch {
	case addr >= niu0Base && addr < niu1Base:
		return t.niuStore(o, 0, addr-niu0Base, v)
	case addr >= niu1Base && addr < streamBase:
		return t.niuStore(o, 1, addr-niu1Base, v)
	case addr >= streamBase && addr < streamEnd:
		return t.streamStore(o, addr-streamBase, v)
	}
	if t.kind == chip.Ethernet {
		return t.ethStore(o, addr, v)
	}
	switch {
	case addr >= debugBase && addr < debugBase+0x1000:
		return t.debugStore(o, addr-debugBase, v)
	case addr >= tdmaBase && addr < tdmaBase+0x1000:
		return t.tdmaStore(o, addr-tdmaBase, v)
	case addr >= mopBase && addr < mopBase+0x1000:
		return t.mopStore(o, addr-mopBase, v)
	case addr >= gprBase && addr < gprBase+0x1000:
		return t.gprStore(o, addr-gprBase, v)
	case addr >= pushBase && addr < pushBase+0x30000 && addr&0xF000 == 0:
		return t.pushStore(o, addr, v)
	case addr >= pcBufBase && addr < pcBufBase+0x1000:
		return t.pcBufStore(o, addr-pcBufBase, v)
	case addr >= mailboxBase && addr < mailboxBase+0x4000:
		return t.mailboxStore(o, addr-mailboxBase, v)
	case addr >= configBase && addr < configBase+0x1000:
		return t.configStore(o, addr-configBase, v)
	}
	if k, w := t.localAt(o, addr); k != nil {
		k.storeLocal(w, v)
		return slowDone
	}
	return t.unmapped(o, "store to", addr)
}
