package translate

import "github.com/reprise-tt/reprise/sim/emu/internal/rv32"

const (
	rax = 0 // next
	rcx = 1 // why
	rdx = 2
	rbx = 3
	rsp = 4
	rsi = 6  // L1
	rdi = 7  // registers, with the rest of the machine before them
	r9  = 9  // local RAM
	r15 = 15 // end: see Code.Run
)

// x86Homes hold the emulated registers that a range uses most.
var x86Homes = [...]uint8{rbx, 8, 10, 11, 12, 13, 14}

// Opcodes with a register and a register or memory.
const (
	xADD   = 0x03
	xOR    = 0x0B
	xAND   = 0x23
	xSUB   = 0x2B
	xXOR   = 0x33
	xCMP   = 0x3B
	xTEST  = 0x85
	xSTORE = 0x89
	xMOV   = 0x8B
	xLEA   = 0x8D
	xIMUL  = 0x0FAF
	xBSF   = 0x0FBC
	xBSR   = 0x0FBD
	xMOVZB = 0x0FB6
	xMOVZW = 0x0FB7
	xMOVSB = 0x0FBE
	xMOVSW = 0x0FBF
)

// Conditions, the low bits of jumps, sets and moves.
const (
	xB  = 2
	xAE = 3
	xE  = 4
	xNE = 5
	xA  = 7
	xL  = 12
	xGE = 13
	xLE = 14
	xG  = 15
)

// x86 makes code for amd64.
type x86 struct{ emitter }

func newX86(p *program) *x86 {
	e := &x86{newEmitter(p, x86Homes[:])}
	e.backend = e
	return e
}

func (e *x86) enter()              { e.byte(0xFF, 0xE0) } // jmp rax
func (e *x86) ret()                { e.byte(0xC3) }       // ret
func (e *x86) fetch(reg, r uint8)  { e.mem(xMOV, reg, rdi, int32(r)*4) }
func (e *x86) keep(reg, r uint8)   { e.mem(xSTORE, reg, rdi, int32(r)*4) }
func (e *x86) move(to, from uint8) { e.reg(xMOV, to, from) }

func (e *x86) align() {
	for len(e.b)%4 != 0 {
		e.byte(0xCC)
	}
}

func (e *x86) link(at, to int) { e.set(at, uint32(to-at-4)) }

// rex emits the prefix for the registers of an instruction, if it needs one.
func (e *x86) rex(reg, index, base uint8) {
	if v := reg>>3<<2 | index>>3<<1 | base>>3; v != 0 {
		e.byte(0x40 | v)
	}
}

func (e *x86) opcode(op int) {
	if op > 0xFF {
		e.byte(byte(op >> 8))
	}
	e.byte(byte(op))
}

func (e *x86) reg(op int, reg, rm uint8) {
	e.rex(reg, 0, rm)
	e.opcode(op)
	e.byte(0xC0 | reg&7<<3 | rm&7)
}

// mem emits an instruction with a register and memory at base + disp.
func (e *x86) mem(op int, reg, base uint8, disp int32) {
	e.rex(reg, 0, base)
	e.opcode(op)
	e.modrm(reg, base, disp)
}

func (e *x86) modrm(reg, base uint8, disp int32) {
	mod := byte(0x80)
	switch {
	case disp == 0 && base&7 != 5:
		mod = 0
	case disp == int32(int8(disp)):
		mod = 0x40
	}
	e.byte(mod | reg&7<<3 | base&7)
	if base&7 == rsp {
		e.byte(0x24)
	}
	switch mod {
	case 0x40:
		e.byte(byte(disp))
	case 0x80:
		e.word(uint32(disp))
	}
}

// indexed is mem at base + index; base is none that needs a displacement.
func (e *x86) indexed(op int, reg, base, index uint8) {
	e.rex(reg, index, base)
	e.opcode(op)
	e.byte(reg&7<<3|4, index&7<<3|base&7)
}

// guest emits an instruction with a host and an emulated register.
func (e *x86) guest(op int, reg, r uint8) {
	if h := e.home[r]; h != none {
		e.reg(op, reg, h)
	} else {
		e.mem(op, reg, rdi, int32(r)*4)
	}
}

func (e *x86) constant(reg uint8, v uint32) {
	if v == 0 {
		e.reg(xXOR, reg, reg)
		return
	}
	e.rex(0, 0, reg)
	e.byte(0xB8 | reg&7)
	e.word(v)
}

// immediate emits an operation with a constant: n is 0 add, 1 or, 4 and, 5 sub, 6 xor, 7 cmp.
func (e *x86) immediate(n, reg uint8, v int32) {
	e.rex(0, 0, reg)
	if v == int32(int8(v)) {
		e.byte(0x83, 0xC0|n<<3|reg&7, byte(v))
		return
	}
	e.byte(0x81, 0xC0|n<<3|reg&7)
	e.word(uint32(v))
}

// shift emits a shift by a constant, or by cl if negative: n is 0 rol, 1 ror, 4 shl, 5 shr, 7 sar.
func (e *x86) shift(n, reg uint8, by int) {
	e.rex(0, 0, reg)
	if by < 0 {
		e.byte(0xD3, 0xC0|n<<3|reg&7)
		return
	}
	e.byte(0xC1, 0xC0|n<<3|reg&7, byte(by))
}

// unary emits an operation of group 3: n is 2 not, 3 neg, 4 mul, 5 imul, 6 div, 7 idiv.
func (e *x86) unary(n, reg uint8) {
	e.rex(0, 0, reg)
	e.byte(0xF7, 0xC0|n<<3|reg&7)
}

func (e *x86) jump(label int) {
	e.byte(0xE9)
	e.refer(label)
	e.word(0)
}

func (e *x86) jumpIf(condition uint8, label int) {
	e.byte(0x0F, 0x80|condition)
	e.refer(label)
	e.word(0)
}

func (e *x86) moveEnd(by int32) {
	if by != 0 {
		e.immediate(0, r15, by)
	}
}

func (e *x86) ifEndAfter(i int32, label int) {
	e.immediate(7, r15, i)
	e.jumpIf(xG, label)
}

func (e *x86) jumpRegister(i int, o rv32.Inst) {
	e.guest(xMOV, rax, o.Rs1)
	if o.Imm != 0 {
		e.immediate(0, rax, o.Imm)
	}
	e.immediate(4, rax, -2)
	e.testLow(rax, 2)
	e.jumpIf(xNE, e.exit(i))
	e.returnTo(i, o.Rd, rcx)
	e.byte(0x2D) // sub eax, base
	e.word(e.base)
	e.shift(7, rax, 2)
	e.reg(xADD, r15, rax)
	e.immediate(0, r15, -int32(i+1))
	e.reg(xCMP, r15, rax)
	e.jumpIf(xLE, e.jumped)
	e.mem(xLEA, rcx, rax, -int32(e.first))
	e.immediate(7, rcx, int32(len(e.ops)))
	e.jumpIf(xAE, e.jumped)
	e.byte(0x48, 0x8D, 0x15) // lea rdx, [rip+table]
	e.refer(e.table)
	e.word(0)
	e.jumpTable()
}

// jumpTable emits a jump by the entry with index rcx of a table at rdx.
func (e *x86) jumpTable() {
	e.byte(0x48, 0x63, 0x0C, 0x8A) // movsxd rcx, [rdx+4*rcx]
	e.byte(0x48, 0x01, 0xD1)       // add rcx, rdx
	e.byte(0xFF, 0xE1)             // jmp rcx
}

var x86Branches = map[rv32.Opcode]uint8{rv32.BEQ: xE, rv32.BNE: xNE, rv32.BLT: xL, rv32.BGE: xGE, rv32.BLTU: xB, rv32.BGEU: xAE}

func (e *x86) branch(i int, o rv32.Inst) {
	a := e.home[o.Rs1]
	if a == none {
		a = rax
		e.guest(xMOV, a, o.Rs1)
	}
	if o.Rs2 == 0 {
		e.reg(xTEST, a, a)
	} else {
		e.guest(xCMP, a, o.Rs2)
	}
	e.takeIf(i, o.Imm, x86Branches[o.Code])
}

// address returns the register with the address of a load or store, which leaves if misaligned.
func (e *x86) address(i int, o rv32.Inst) uint8 {
	a := e.home[o.Rs1]
	switch {
	case a != none && o.Imm == 0:
	case a != none:
		e.mem(xLEA, rax, a, o.Imm)
		a = rax
	default:
		a = rax
		e.guest(xMOV, a, o.Rs1)
		if o.Imm != 0 {
			e.immediate(0, a, o.Imm)
		}
	}
	if n := o.Code.Bytes(); n > 1 {
		e.testLow(a, byte(n-1))
		e.jumpIf(xNE, e.exit(i))
	}
	return a
}

// testLow emits a test of bits of a register's low byte, which without a prefix only the first four
// of those below 8 have: addresses are among them.
func (e *x86) testLow(reg, bits uint8) {
	e.rex(0, 0, reg)
	e.byte(0xF6, 0xC0|reg&7, bits)
}

// x86Place is memory at base + disp, base + index, or for a slot base + 4*index - 4.
type x86Place struct {
	base, index uint8
	disp        int32
	slot        bool
}

// at emits an instruction with a register and memory.
func (e *x86) at(op int, reg uint8, p x86Place) {
	switch {
	case p.slot:
		e.slot(op, reg, p.base, p.index)
	case p.index != none:
		e.indexed(op, reg, p.base, p.index)
	default:
		e.mem(op, reg, p.base, p.disp)
	}
}

// x86Ways emit a load or store by where its address is. slot 0 means that the slot is in rcx.
type x86Ways struct {
	l1, local func(p x86Place)
	register  func(p x86Place, slot uint32)
	ignored   func()
}

func (e *x86) access(i int, o rv32.Inst, s slotsOf, w x86Ways) {
	e.guessed(i, o, s, func(a area, at uint32) {
		switch a {
		case areaL1:
			w.l1(x86Place{base: rsi, index: none, disp: int32(at)})
		case areaLocal:
			w.local(x86Place{base: r9, index: none, disp: int32(at)})
		case areaRegisters:
			e.pointer(rdx, atRegisters)
			w.register(x86Place{base: rdx, index: none, disp: 4 * int32(at&^Narrow-1)}, at)
		case areaIgnored:
			w.ignored()
		}
	}, func() { e.anywhere(i, o, s, w) })
}

func (e *x86) isGuess(r uint8, v uint32) uint8 {
	if h := e.home[r]; h != none {
		e.immediate(7, h, int32(v))
	} else {
		e.byte(0x81)
		e.modrm(7, rdi, int32(r)*4)
		e.word(v)
	}
	return xE
}

// anywhere emits a load or store that finds out where its address is.
func (e *x86) anywhere(i int, o rv32.Inst, s slotsOf, w x86Ways) {
	a := e.address(i, o)
	e.look(i, o, func(otherwise int) {
		e.mem(xCMP, a, rdi, atL1Bytes)
		e.jumpIf(xAE, otherwise)
		w.l1(x86Place{base: rsi, index: a})
	}, func(otherwise int) {
		e.mem(xLEA, rcx, a, -(LocalBase - 1<<32))
		e.mem(xCMP, rcx, rdi, atLocalBytes)
		e.jumpIf(xAE, otherwise)
		w.local(x86Place{base: r9, index: rcx})
	}, func(otherwise int) {
		e.mem(xLEA, rcx, a, -(RegistersBase - 1<<32))
		e.immediate(7, rcx, RegistersBytes)
		e.jumpIf(xAE, otherwise)
		e.shift(5, rcx, 1)
		e.pointer(rdx, s.at())
		e.indexed(xMOVZW, rcx, rdx, rcx)
		e.reg(xTEST, rcx, rcx)
		e.jumpIf(xE, otherwise)
		e.pointer(rdx, atRegisters)
		w.register(x86Place{base: rdx, index: rcx, slot: true}, 0)
	})
}

var x86Loads = map[rv32.Opcode]int{rv32.LB: xMOVSB, rv32.LH: xMOVSW, rv32.LW: xMOV, rv32.LBU: xMOVZB, rv32.LHU: xMOVZW}

func (e *x86) load(i int, o rv32.Inst) {
	d, op := e.target(o.Rd), x86Loads[o.Code]
	get := func(p x86Place) { e.at(op, d, p) }
	e.access(i, o, loads, x86Ways{l1: get, local: get, register: func(p x86Place, _ uint32) { e.at(op, d, p) }})
	e.finish(o.Rd, d)
}

func (e *x86) store(i int, o rv32.Inst) {
	value := func(by uint8) uint8 {
		if v := e.home[o.Rs2]; v != none {
			return v
		}
		if o.Rs2 == 0 {
			e.constant(by, 0)
		} else {
			e.guest(xMOV, by, o.Rs2)
		}
		return by
	}
	put := func(p x86Place) { e.put(o.Code.Bytes(), value(rdx), p) }
	e.access(i, o, stores, x86Ways{l1: func(p x86Place) {
		if p.index == none {
			e.pointer(rdx, atFlags)
			e.byte(0xF6) // test byte [rdx+line]
			e.modrm(0, rdx, p.disp>>LineShift)
			e.byte(^byte(Watched) | 1<<(p.disp>>2&3))
			e.jumpIf(xNE, e.exit(i))
			put(p)
			return
		}
		flagged, done := e.label(), e.label()
		e.reg(xMOV, rcx, p.index)
		e.shift(5, rcx, LineShift)
		e.testFlag()
		e.jumpIf(xNE, flagged)
		put(p)
		e.place(done)
		e.cold = append(e.cold, func() {
			e.place(flagged)
			e.watched(i, p.index)
			put(p)
			e.jump(done)
		})
	}, local: put, register: func(p x86Place, slot uint32) {
		v := value(rax)
		switch {
		case slot == 0:
			e.narrow(i, v)
		case slot&Narrow != 0:
			e.onlyNarrow(i, v)
		}
		e.at(xSTORE, v, p)
	}, ignored: func() {
		e.byte(0x81) // cmp
		e.modrm(7, rdi, atIgnored)
		e.word(e.registers.Ignored)
		e.jumpIf(xNE, e.exit(i))
		e.mem(xLEA, rcx, value(rcx), -1)
		e.immediate(7, rcx, MostIgnored)
		e.jumpIf(xAE, e.exit(i))
	}})
}

// watched leaves if line rcx, with flags at rdx, has flags other than of watched words, or the word
// at the address in a is watched.
func (e *x86) watched(i int, a uint8) {
	e.indexed(xMOVZB, rdx, rdx, rcx)
	e.testLow(rdx, ^uint8(Watched))
	e.jumpIf(xNE, e.exit(i))
	e.reg(xMOV, rcx, a)
	e.shift(5, rcx, 2)
	e.immediate(4, rcx, 3)
	e.byte(0x0F, 0xA3, 0xCA) // bt edx, ecx
	e.jumpIf(xB, e.exit(i))
}

// pointer loads a pointer of the machine at an offset from X.
func (e *x86) pointer(reg uint8, at int32) {
	e.byte(0x48)
	e.mem(xMOV, reg, rdi, at)
}

// narrow leaves if the slot in rcx is for narrow values and a register has another one.
func (e *x86) narrow(i int, v uint8) {
	wide := e.label()
	e.byte(0xF6, 0xC5, Narrow>>8) // test ch, 0x80
	e.jumpIf(xE, wide)
	e.onlyNarrow(i, v)
	e.immediate(4, rcx, Narrow-1)
	e.place(wide)
}

func (e *x86) onlyNarrow(i int, v uint8) {
	e.rex(0, 0, v)
	e.byte(0xF7, 0xC0|v&7) // test
	e.word(^uint32(NarrowBits))
	e.jumpIf(xNE, e.exit(i))
}

// slot emits an instruction with a register and word index-1 at base.
func (e *x86) slot(op int, reg, base, index uint8) {
	e.rex(reg, index, base)
	e.opcode(op)
	e.byte(0x40|reg&7<<3|4, 0x80|index&7<<3|base&7, 0xFC)
}

// testFlag tests the flags of the line whose index is in rcx.
func (e *x86) testFlag() {
	e.pointer(rdx, atFlags)
	e.byte(0x80, 0x3C, 0x0A, 0) // cmp byte [rdx+rcx], 0
}

// put emits a store of the low n bytes of a register, one that testLow takes.
func (e *x86) put(n uint32, v uint8, p x86Place) {
	switch n {
	case 1:
		e.at(0x88, v, p)
	case 2:
		e.byte(0x66)
		e.at(xSTORE, v, p)
	default:
		e.at(xSTORE, v, p)
	}
}
