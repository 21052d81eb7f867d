package translate

import (
	"math/bits"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Registers of arm64, which enter fills. The upper halves of 32-bit values are zero.
const (
	w0  = 0 // next
	w1  = 1 // why
	w2  = 2
	w3  = 3  // constants that don't fit into an instruction
	w4  = 4  // registers, with the rest of the machine before them
	w5  = 5  // L1
	w6  = 6  // local RAM
	w7  = 7  // flags
	w8  = 8  // bytes of L1
	w9  = 9  // bytes of local RAM
	w10 = 10 // end: see Code.Run

	zr = 31 // zero; in some instructions the stack pointer

	v0 = 0 // a scratch vector register
)

// armHomes hold the emulated registers that a range uses most. Not code's are r18, the platform's;
// r27, the assembler's; r28, g, also for signal handlers; r29, the frame; r30, the return address.
var armHomes = [...]uint8{11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26}

// Instructions with registers d, n and m, on 64 bits with an X. The second operand of the first
// eight can be shifted by armLSL.
const (
	aADD    = 0x0B000000
	aSUB    = 0x4B000000
	aSUBS   = 0x6B000000
	aAND    = 0x0A000000
	aORR    = 0x2A000000
	aORN    = 0x2A200000
	aEOR    = 0x4A000000
	aEON    = 0x4A200000
	aBIC    = 0x0A200000
	aBICS   = 0x6A200000
	aADDX   = 0x8B000000
	aLSLV   = 0x1AC02000
	aLSRV   = 0x1AC02400
	aASRV   = 0x1AC02800
	aRORV   = 0x1AC02C00
	aUDIV   = 0x1AC00800
	aSDIV   = 0x1AC00C00
	aMUL    = 0x1B007C00
	aMULX   = 0x9B007C00
	aMSUB   = 0x1B008000 // and a, by armA
	aSMULL  = 0x9B207C00
	aUMULL  = 0x9BA07C00
	aCSEL   = 0x1A800000 // and a condition, by armIf, as the next two
	aCSINC  = 0x1A800400
	aCSINV  = 0x5A800000
	aEXTR   = 0x13800000 // and a shift, by armLSL
	aSTRB   = 0x38204800 // n is a pointer and m an unsigned index, as in all loads and stores
	aSTRH   = 0x78204800
	aSTR    = 0xB8204800
	aLDRB   = 0x38604800
	aLDRSB  = 0x38E04800
	aLDRH   = 0x78604800
	aLDRSH  = 0x78E04800
	aLDR    = 0xB8604800
	aLDRSWX = 0xB8A05800 // m counts words
	aCMTST  = 0x0E208C00 // on vector registers of 8 bytes
)

const (
	aCLZ    = 0x5AC01000
	aRBIT   = 0x5AC00000
	aREV    = 0x5AC00800
	aSXTWX  = 0x93407C00
	aHIGHX  = 0xD360FC00 // lsr #32
	aFMOVTO = 0x1E270000 // d is a vector register
	aCNT    = 0x0E205800 // both are, of 8 bytes
	aADDV   = 0x0E31B800 // both are
	aFMOV   = 0x1E260000 // n is
)

// Instructions with registers d and n and a constant.
const (
	aADDI  = 0x11000000 // n and d may be the stack pointer, but not zero
	aSUBI  = 0x51000000
	aSUBSI = 0x71000000 // n may be
	aADDSI = 0x31000000
	aANDI  = 0x12000000 // d may be
	aORRI  = 0x32000000
	aEORI  = 0x52000000
	aANDSI = 0x72000000
)

// armScaled makes m of a load or store count elements.
const armScaled = 1 << 12

const (
	aCBZ  = 0x34000000
	aCBNZ = 0x35000000
)

const (
	aEQ = 0
	aNE = 1
	aHS = 2
	aLO = 3
	aHI = 8
	aGE = 10
	aLT = 11
	aGT = 12
	aLE = 13
)

// arm makes code for arm64. Conditional jumps reach 1 MB, more than a page's code.
type arm struct{ emitter }

func newArm(p *program) *arm {
	e := &arm{newEmitter(p, armHomes[:])}
	e.backend = e
	return e
}

func (e *arm) enter()              { e.word(0xD61F0000 | w0<<5) } // br
func (e *arm) ret()                { e.word(0xD65F03C0) }         // ret
func (e *arm) fetch(reg, r uint8)  { e.word(0xB9400000 | uint32(r)<<10 | w4<<5 | uint32(reg)) }
func (e *arm) keep(reg, r uint8)   { e.word(0xB9000000 | uint32(r)<<10 | w4<<5 | uint32(reg)) }
func (e *arm) move(to, from uint8) { e.op(aORR, to, zr, from) }
func (e *arm) align()              {}

func (e *arm) link(at, to int) {
	w, d := e.at(at), uint32(to-at)
	switch w >> 24 {
	case 0x14: // b
		w |= d >> 2 & (1<<26 - 1)
	case 0x10: // adr
		w |= d&3<<29 | d>>2&(1<<19-1)<<5
	default: // b.cond, cbz, cbnz
		w |= d >> 2 & (1<<19 - 1) << 5
	}
	e.set(at, w)
}

func (e *arm) op(op uint32, d, n, m uint8) {
	e.word(op | uint32(m)<<16 | uint32(n)<<5 | uint32(d))
}

func (e *arm) unary(op uint32, d, n uint8) { e.word(op | uint32(n)<<5 | uint32(d)) }

// armLSL shifts the last register, or is where extr begins.
func armLSL(n int) uint32 { return uint32(n) << 10 }

// armA is the register to which an instruction adds.
func armA(a uint8) uint32 { return uint32(a) << 10 }

func armIf(condition uint32) uint32 { return condition << 12 }

func (e *arm) constant(reg uint8, v uint32) {
	const movn, movz, movk, high = 0x12800000, 0x52800000, 0x72800000, 1 << 21
	move := func(op, v uint32) { e.word(op | v<<5 | uint32(reg)) }
	switch {
	case v>>16 == 0:
		move(movz, v)
	case v&0xFFFF == 0:
		move(movz|high, v>>16)
	case ^v>>16 == 0:
		move(movn, ^v)
	case ^v&0xFFFF == 0:
		move(movn|high, ^v>>16)
	default:
		move(movz, v&0xFFFF)
		move(movk|high, v>>16)
	}
}

// add adds a constant. Neither register is zero.
func (e *arm) add(d, n uint8, v int32) {
	op, u := uint32(aADDI), uint32(v)
	if v < 0 {
		op, u = aSUBI, -u
	}
	switch {
	case v == 0 && d == n:
	case u < 1<<12:
		e.unary(op|armImmediate(u), d, n)
	case u < 1<<24:
		e.unary(op|1<<22|armImmediate(u>>12), d, n)
		if u&0xFFF != 0 {
			e.unary(op|armImmediate(u&0xFFF), d, d)
		}
	default:
		e.constant(w3, uint32(v))
		e.op(aADD, d, n, w3)
	}
}

func armImmediate(v uint32) uint32 { return v << 10 }

// compare compares a register that isn't zero with a constant of less than 12 bits and a sign.
func (e *arm) compare(n uint8, v int32) {
	if v < 0 {
		e.unary(aADDSI|armImmediate(uint32(-v)), zr, n)
	} else {
		e.unary(aSUBSI|armImmediate(uint32(v)), zr, n)
	}
}

// armMask is a constant for operations on bits, if its ones are neighbours when bit 0 follows bit
// 31. (No instruction has the others, which repeat.)
func armMask(v uint32) (uint32, bool) {
	n := bits.OnesCount32(v)
	if n == 0 || n == 32 {
		return 0, false
	}
	turn := bits.LeadingZeros32(^v) // how many ones are at the top
	if turn == 0 {
		turn = (32 - bits.TrailingZeros32(v)) % 32
	}
	if bits.RotateLeft32(1<<n-1, -turn) != v {
		return 0, false
	}
	return uint32(turn)<<16 | uint32(n-1)<<10, true
}

// shift emits a shift by a constant: op is that of the same shift by a register.
func (e *arm) shift(op uint32, d, n uint8, by int) {
	const ubfm, sbfm = 0x53000000, 0x13000000
	field := func(op uint32, first, last int) { e.unary(op|uint32(first)<<16|uint32(last)<<10, d, n) }
	switch op {
	case aLSLV:
		field(ubfm, -by&31, 31-by)
	case aLSRV:
		field(ubfm, by, 31)
	case aASRV:
		field(sbfm, by, 31)
	case aRORV:
		e.op(aEXTR|armLSL(by), d, n, n)
	}
}

// extend sign-extends the low bits of a register.
func (e *arm) extend(d, n uint8, bits uint32) { e.unary(0x13000000|(bits-1)<<10, d, n) }

func (e *arm) jump(label int) { e.to(0x14000000, label) }

func (e *arm) jumpIf(condition uint8, label int) { e.to(0x54000000|uint32(condition), label) }

func (e *arm) to(op uint32, label int) {
	e.refer(label)
	e.word(op)
}

// read returns the register that holds r, loaded into scratch if it has no home.
func (e *arm) read(r, scratch uint8) uint8 {
	if r == 0 {
		return zr
	}
	if h := e.home[r]; h != none {
		return h
	}
	e.fetch(scratch, r)
	return scratch
}

func (e *arm) moveEnd(by int32) { e.add(w10, w10, by) }

func (e *arm) ifEndAfter(i int32, label int) {
	e.compare(w10, i)
	e.jumpIf(aGT, label)
}

func (e *arm) jumpRegister(i int, o rv32.Inst) {
	e.sum(w0, o)
	even, _ := armMask(^uint32(1))
	e.unary(aANDI|even, w0, w0)
	odd, _ := armMask(2)
	e.unary(aANDSI|odd, zr, w0)
	e.jumpIf(aNE, e.exit(i))
	e.returnTo(i, o.Rd, w1)
	e.constant(w1, e.base)
	e.op(aSUB, w0, w0, w1)
	e.shift(aASRV, w0, w0, 2)
	e.op(aADD, w10, w10, w0)
	e.add(w10, w10, -int32(i+1))
	e.op(aSUBS, zr, w10, w0)
	e.jumpIf(aLE, e.jumped)
	e.add(w1, w0, -int32(e.first))
	e.compare(w1, int32(len(e.ops)))
	e.jumpIf(aHS, e.jumped)
	e.to(0x10000000|w2, e.table) // adr
	e.op(aLDRSWX, w1, w2, w1)
	e.op(aADDX, w1, w1, w2)
	e.word(0xD61F0000 | w1<<5) // br
}

// sum puts o.Rs1 + o.Imm into d.
func (e *arm) sum(d uint8, o rv32.Inst) {
	if o.Rs1 == 0 {
		e.constant(d, uint32(o.Imm))
		return
	}
	e.add(d, e.read(o.Rs1, d), o.Imm)
}

var armBranches = map[rv32.Opcode]uint8{rv32.BEQ: aEQ, rv32.BNE: aNE, rv32.BLT: aLT, rv32.BGE: aGE, rv32.BLTU: aLO, rv32.BGEU: aHS}

func (e *arm) branch(i int, o rv32.Inst) {
	e.op(aSUBS, zr, e.read(o.Rs1, w0), e.read(o.Rs2, w1))
	e.takeIf(i, o.Imm, armBranches[o.Code])
}

// address returns the register with the address of a load or store, which leaves if misaligned.
func (e *arm) address(i int, o rv32.Inst) uint8 {
	a := uint8(w0)
	if h := e.home[o.Rs1]; h != none && o.Imm == 0 {
		a = h
	} else {
		e.sum(a, o)
	}
	if n := o.Code.Bytes(); n > 1 {
		low, _ := armMask(n - 1)
		e.unary(aANDSI|low, zr, a)
		e.jumpIf(aNE, e.exit(i))
	}
	return a
}

// armWays emit a load or store by where its address is. They get the register with the index of the
// byte, or of a tile register's word after w2. slot 0 means that w1 may still have the mark of
// narrow values.
type armWays struct {
	l1, local func(index uint8)
	register  func(index uint8, slot uint32)
	ignored   func()
}

func (e *arm) isGuess(r uint8, v uint32) uint8 {
	e.constant(w3, v)
	e.op(aSUBS, zr, e.read(r, w0), w3)
	return aEQ
}

func (e *arm) access(i int, o rv32.Inst, s slotsOf, w armWays) {
	e.guessed(i, o, s, func(a area, at uint32) {
		switch a {
		case areaL1:
			e.constant(w0, at)
			w.l1(w0)
		case areaLocal:
			e.constant(w1, at)
			w.local(w1)
		case areaRegisters:
			e.constant(w1, at&^Narrow-1)
			e.pointer(w2, atRegisters)
			w.register(w1, at)
		case areaIgnored:
			w.ignored()
		}
	}, func() { e.anywhere(i, o, s, w) })
}

// anywhere emits a load or store that finds out where its address is.
func (e *arm) anywhere(i int, o rv32.Inst, s slotsOf, w armWays) {
	a := e.address(i, o)
	e.look(i, o, func(otherwise int) {
		e.op(aSUBS, zr, a, w8)
		e.jumpIf(aHS, otherwise)
		w.l1(a)
	}, func(otherwise int) {
		e.add(w1, a, -(LocalBase - 1<<32))
		e.op(aSUBS, zr, w1, w9)
		e.jumpIf(aHS, otherwise)
		w.local(w1)
	}, func(otherwise int) {
		e.add(w1, a, -(RegistersBase - 1<<32))
		e.shift(aLSRV, w2, w1, registersShift)
		e.to(aCBNZ|w2, otherwise)
		e.shift(aLSRV, w1, w1, 2)
		e.pointer(w2, s.at())
		e.op(aLDRH|armScaled, w1, w2, w1)
		e.to(aCBZ|w1, otherwise)
		e.add(w1, w1, -1)
		e.pointer(w2, atRegisters)
		w.register(w1, 0)
	})
}

// pointer loads a pointer of the machine at an offset from X.
func (e *arm) pointer(reg uint8, at int32) {
	e.word(0xF8400000 | uint32(at)&(1<<9-1)<<12 | w4<<5 | uint32(reg)) // ldur
}

// field is pointer for 32 bits.
func (e *arm) field(reg uint8, at int32) {
	e.word(0xB8400000 | uint32(at)&(1<<9-1)<<12 | w4<<5 | uint32(reg))
}

var armLoads = map[rv32.Opcode]uint32{rv32.LB: aLDRSB, rv32.LH: aLDRSH, rv32.LW: aLDR, rv32.LBU: aLDRB, rv32.LHU: aLDRH}

func (e *arm) load(i int, o rv32.Inst) {
	d, op := e.target(o.Rd), armLoads[o.Code]
	e.access(i, o, loads, armWays{
		l1:       func(a uint8) { e.op(op, d, w5, a) },
		local:    func(a uint8) { e.op(op, d, w6, a) },
		register: func(w uint8, _ uint32) { e.op(op|armScaled, d, w2, w) },
	})
	e.finish(o.Rd, d)
}

// narrow leaves if the slot, whose index is in w1, is for narrow values and a register has another
// one.
func (e *arm) narrow(i int, v uint8) {
	wide := e.label()
	index, _ := armMask(Narrow - 1)
	e.shift(aLSRV, w3, w1, 15)
	e.to(aCBZ|w3, wide)
	e.onlyNarrow(i, v)
	e.unary(aANDI|index, w1, w1)
	e.place(wide)
}

func (e *arm) onlyNarrow(i int, v uint8) {
	e.constant(w3, NarrowBits)
	e.op(aBICS, zr, v, w3)
	e.jumpIf(aNE, e.exit(i))
}

var armStores = map[rv32.Opcode]uint32{rv32.SB: aSTRB, rv32.SH: aSTRH, rv32.SW: aSTR}

func (e *arm) store(i int, o rv32.Inst) {
	op := armStores[o.Code]
	e.access(i, o, stores, armWays{l1: func(a uint8) {
		put := func() { e.op(op, e.read(o.Rs2, w1), w5, a) }
		flagged, done := e.label(), e.label()
		e.shift(aLSRV, w1, a, LineShift)
		e.op(aLDRB, w1, w7, w1)
		e.to(aCBNZ|w1, flagged)
		put()
		e.place(done)
		e.cold = append(e.cold, func() {
			e.place(flagged)
			e.watched(i, a)
			put()
			e.jump(done)
		})
	}, local: func(a uint8) {
		e.op(op, e.read(o.Rs2, w2), w6, a)
	}, register: func(w uint8, slot uint32) {
		v := e.read(o.Rs2, w0)
		switch {
		case slot == 0:
			e.narrow(i, v)
		case slot&Narrow != 0:
			e.onlyNarrow(i, v)
		}
		e.op(op|armScaled, v, w2, w)
	}, ignored: func() {
		e.constant(w1, e.registers.Ignored)
		e.field(w2, atIgnored)
		e.op(aSUBS, zr, w2, w1)
		e.jumpIf(aNE, e.exit(i))
		e.constant(w1, 1)
		e.op(aSUB, w1, e.read(o.Rs2, w2), w1)
		e.compare(w1, MostIgnored)
		e.jumpIf(aHS, e.exit(i))
	}})
}

// watched leaves if w1 has flags other than of watched words, or the word at the address in a is
// watched.
func (e *arm) watched(i int, a uint8) {
	others, _ := armMask(^uint32(Watched))
	low, _ := armMask(3)
	first, _ := armMask(1)
	e.unary(aANDSI|others, zr, w1)
	e.jumpIf(aNE, e.exit(i))
	e.shift(aLSRV, w2, a, 2)
	e.unary(aANDI|low, w2, w2)
	e.op(aLSRV, w1, w1, w2)
	e.unary(aANDSI|first, zr, w1)
	e.jumpIf(aNE, e.exit(i))
}
