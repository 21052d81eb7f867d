package emu

import (
	"math/bits"

	"github.com/reprise-tt/reprise/chip"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// extend returns what a load makes of the word that holds addr.
func extend(o rv32.Opcode, w, addr uint32) uint32 {
	switch o {
	case rv32.LB:
		return uint32(int8(w >> (addr & 3 * 8)))
	case rv32.LBU:
		return w >> (addr & 3 * 8) & 0xFF
	case rv32.LH:
		return uint32(int16(w >> (addr & 2 * 8)))
	case rv32.LHU:
		return w >> (addr & 2 * 8) & 0xFFFF
	}
	return w
}

// slow executes the instruction at c.pc, which exec does not.
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
		return c.refuse(undefined, uint64(target), "jump to %#x, which is not a multiple of 4", target)
	case rv32.Skewed:
		if w, target := c.word(c.pc), c.pc+uint32(o.Imm); takes(w>>12&7, c.X[o.Rs1], c.X[o.Rs2]) {
			return c.refuse(undefined, uint64(target), "branch to %#x, which is not a multiple of 4", target)
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
		return c.refuse(cat, uint64(c.pc), "instruction %#08x: %s", w, why)
	case rv32.Illegal:
		if c.loses() {
			return slowHalt
		}
		w := c.word(c.pc)
		cat, why := explain(c.tile.chip.arch, w)
		return c.refuse(cat, uint64(c.pc), "instruction %#08x: %s", w, why)
	}
	return c.amo(o)
}

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
		return c.refuse(unsupported, rv32.Cfg0, "cfg0 = %#x: only bits %#x may be set", v, uint32(csrCfg0Bits))
	}
	c.X[o.Rd] = c.cfg0
	c.cfg0 = v
	return slowDone
}

func (c *core) slowLoad(o rv32.Inst, addr uint32) slowResult {
	n := o.Code.Bytes()
	if addr&(n-1) != 0 {
		return c.refuse(nonContractual, uint64(addr), "load of %d bytes from an address that is not a multiple of that", n)
	}
	if t := c.tile; addr < t.size { // beyond what of L1 was used so far, or tracked
		c.X[o.Rd] = extend(o.Code, t.memory(addr + n)[addr>>2], addr)
		t.use(addr, int(n), false)
		return slowDone
	}
	if n != 4 {
		return c.refuse(untested, uint64(addr), "load of %d bytes from registers: want 4", n)
	}
	v, st := c.tile.load(origin{tile: c.tile, core: c}, addr)
	if st == slowDone {
		c.X[o.Rd] = v
	}
	return st
}

func (c *core) slowStore(o rv32.Inst, addr uint32) slowResult {
	n := o.Code.Bytes()
	if addr&(n-1) != 0 {
		return c.refuse(nonContractual, uint64(addr), "store of %d bytes to an address that is not a multiple of that", n)
	}
	t := c.tile
	v := c.X[o.Rs2]
	if addr-niu0Base < streamBase-niu0Base && n == 4 && !t.outbox.full() { // most requests begin with these
		return c.afterStore(t.niuStore(origin{tile: t, core: c}, int(addr-niu0Base)/(niu1Base-niu0Base), addr%(niu1Base-niu0Base), v))
	}
	if w := addr >> 2; addr < t.size { // in a flagged line, or beyond what was used so far, or tracked
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
		t.use(addr, int(n), true)
		return slowDone
	}
	if n != 4 {
		return c.refuse(unsupported, uint64(addr), "store of %d bytes to registers: want 4", n)
	}
	if t.outbox.full() {
		return slowAgain
	}
	return c.afterStore(t.store(origin{tile: t, core: c}, addr, v))
}

func (c *core) afterStore(st slowResult) slowResult {
	c.quiet = 0
	if st == slowDone && (c.state != runnable || *c.tile.fault() != nil) {
		return slowHalt
	}
	return st
}

// amo executes an atomic memory operation on L1 (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/README.md).
func (c *core) amo(o rv32.Inst) slowResult {
	t, addr := c.tile, c.X[o.Rs1]
	if addr&3 != 0 || addr >= t.size {
		return c.refuse(undefined, uint64(addr), "atomic memory operation: want a multiple of 4 inside L1")
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
	if t.known != nil && !t.written(origin{tile: t, core: c}, "riscv", addr, 4, "atomic memory operation on") {
		return slowHalt
	}
	t.use(addr, 4, false)
	if v != old {
		l1[addr>>2] = v
		t.stored(addr, 4)
	}
	t.use(addr, 4, true)
	c.X[o.Rd] = old
	return slowDone
}

const csrCfg0Bits = 0x0104000A

// explain says why an instruction is refused.
func explain(arch chip.Arch, w uint32) (Category, string) {
	f3, csr := w>>12&7, w>>20
	wh := arch == chip.Wormhole
	switch w & 0x7F {
	case 0x0F:
		switch {
		case f3 == 1:
			return unsupported, "fence.i does not flush the instruction cache and should not be used"
		case f3 == 0 && wh:
			return unsupported, "fence does not order memory accesses on Wormhole and should not be used"
		case f3 == 0:
			return unsupported, "fence with an ordering that has not been validated: want 0x23, 0x31, 0x33 or 0xFF in bits 31:20"
		}
	case 0x2F:
		switch {
		case wh:
			return undefined, "Wormhole has no atomic memory operations"
		case w>>27 == 2 || w>>27 == 3:
			return undefined, "lr.w and sc.w do not exist: only the single-instruction atomics do"
		}
	case 0x73:
		switch {
		case f3 == 0 && w == 0x73:
			return misconfigured, "ecall: there is no semihosting"
		case f3 == 0:
			return unsupported, "ebreak or another system instruction: nothing would resume a processor that no debugger put into slow execution mode"
		case wh:
			return undefined, "Wormhole has no CSRs"
		case csr != rv32.Cfg0:
			return unsupported, "a CSR other than cfg0 (0x7C0)"
		default:
			return untested, "a form of CSR access that has not been validated"
		}
	case 0x07, 0x27, 0x43, 0x47, 0x4B, 0x4F, 0x53, 0x57:
		if wh {
			return undefined, "Wormhole has no floating-point or vector instructions"
		}
		return unimplemented, "floating-point and vector instructions are not emulated"
	case 0x13, 0x33:
		return undefined, "an ALU operation that the processor does not have"
	case 0x6F:
		return undefined, "a jump to an address that is not a multiple of 4"
	}
	return undefined, "not an instruction"
}
