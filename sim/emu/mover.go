package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// Wormhole's NCRISC and Ethernet processors have an instruction RAM. They can only fetch from it,
// and only the mover, or on Ethernet tiles a register, can fill it (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/InstructionRAM.md).
const (
	iramBase  = 0xFFC00000
	iramBytes = 16 << 10
	// moverIRAM is where the mover sees the instruction RAM, in units of 16 bytes.
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

	tdmaIdle   = 8    // status: no command queued, mover not busy
	tdmaMove   = 0x40 // command, of mover 0
	l1ToIRAM   = 1    // direction
	moverUnits = 16   // bytes of a unit of addresses and sizes
)

// mover is what software has told the mover of a tile.
type mover struct {
	source, size uint32 // units of 16 bytes
	unseen       bool   // a move that no load of the status has shown to be over: RefuseRaces
}

func (t *tile) tdmaLoad(o origin, off uint32) (uint32, slowResult) {
	if t.chip.arch == chip.Wormhole && off == tdmaStatus {
		t.tensix.mover.unseen = false
		return tdmaIdle, slowDone
	}
	if o.isHostLoad() && tdmaHas(off) {
		return 0, slowDone
	}
	t.chip.refuse(o, UnsupportedFunctionality, "tdma", uint64(tdmaBase+off), "load of a TDMA register that is not emulated")
	return 0, slowHalt
}

// tdmaHas reports whether there is a register at an offset (tt-isa-documentation
// WormholeB0/TensixTile/TDMA-RISC.md): those of the mover and of packer and unpacker 0, and from
// 0x100 on those of packer and unpacker 1.
func tdmaHas(off uint32) bool {
	if off >= 0x118 && off < 0x140 || off >= 0x158 && off < 0x160 || off >= 0x198 && off < 0x1A0 {
		off -= 0x100
	}
	return off < 0x40 || off >= 0x58 && off < 0x60 || off >= 0x98 && off < 0xA0
}

// tdmaStore handles the mover, as far as it fills NCRISC's instruction RAM, and the clock gates.
func (t *tile) tdmaStore(o origin, off, v uint32) slowResult {
	m := &t.tensix.mover
	if off == tdmaClockGate {
		return slowDone
	}
	bad := func(format string, args ...any) slowResult {
		t.chip.refuse(o, UnsupportedFunctionality, "tdma", uint64(tdmaBase+off), format, args...)
		return slowHalt
	}
	if t.chip.arch != chip.Wormhole {
		return bad("store to a TDMA register that is not emulated")
	}
	switch off {
	case tdmaSource:
		m.source = v
	case tdmaTarget:
		if v != moverIRAM {
			return bad("mover destination %#x: want %#x, the instruction RAM", v, moverIRAM)
		}
	case tdmaSize:
		m.size = v
	case tdmaDirection:
		if v != l1ToIRAM {
			return bad("mover direction %d: want 1, L1 to instruction RAM", v)
		}
	case tdmaCommand:
		if v != tdmaMove {
			return bad("TDMA command %#x: want 0x40, move", v)
		}
		return t.move(o)
	default:
		return bad("store to a TDMA register that is not emulated")
	}
	return slowDone
}

// move copies L1 to the instruction RAM. NCRISC may start it itself, from L1, but must not fetch
// from the instruction RAM while it is filled.
func (t *tile) move(o origin) slowResult {
	m, nc := &t.tensix.mover, t.cores[4]
	bad := func(format string, args ...any) slowResult {
		t.chip.refuse(o, UndefinedBehavior, "tdma", tdmaBase+tdmaCommand, format, args...)
		return slowHalt
	}
	switch {
	case m.size > iramBytes/moverUnits:
		return bad("move of %d bytes into an instruction RAM of %d", uint64(m.size)*moverUnits, iramBytes)
	case uint64(m.source)+uint64(m.size) > t.bytes()/moverUnits:
		return bad("move from %#x reaches beyond L1", uint64(m.source)*moverUnits)
	case nc.state == inReset:
	case nc.pc >= iramBase:
		return bad("move into the instruction RAM while NCRISC executes it (pc=%#x)", nc.pc)
	case nc.predicts != predictsL1:
		return bad("move into the instruction RAM while NCRISC's branch predictor may still fetch from there: since it left it, it was not reset, and has not executed the sequence that makes the predictor forget")
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

// fillIRAM copies n bytes of L1 at from to the start of the instruction RAM.
func (t *tile) fillIRAM(from, n uint32) {
	if t.iram == nil {
		t.iram = make([]uint32, iramBytes/4)
		t.iramCode = make([]codePage, iramBytes/pageBytes)
		if t.known != nil {
			t.iramKnown = make([]uint64, iramBytes/4/64)
		}
	}
	copy(t.iram[:n/4], t.memory(from + n)[from/4:])
	for i := range (n + pageBytes - 1) / pageBytes {
		t.iramCode[i] = codePage{}
	}
	for w := range uint32(len(t.iramKnown)) * 64 {
		if w < n/4 {
			at := from/4 + w
			t.iramKnown[w>>6] = t.iramKnown[w>>6]&^(1<<(w&63)) | t.known[at>>6]>>(at&63)&1<<(w&63)
		}
	}
}

// prediction is where the branch predictor of a processor may make it fetch from.
type prediction uint8

const (
	predictsL1 prediction = iota // it has not been in the instruction RAM since it was reset, or has forgotten
	// predictsIRAM and beyond: as many instructions of the sequence that makes it forget are
	// executed.
	predictsIRAM
)

// forgetful is the length of the sequence of instructions that makes the branch predictor forget
// the instruction RAM: pairs of branches with two other instructions between one pair and the next.
const forgetful = 54

// entersIRAM checks a fetch from the instruction RAM.
func (c *core) entersIRAM(pc uint32) bool {
	if c.tile.tensix.mover.unseen {
		c.refuse(UndefinedBehavior, uint64(pc), "fetch from the instruction RAM, and no load of RISCV_TDMA_REG_STATUS has shown that the mover is done")
		return false
	}
	if c.proc == chip.NCRISC {
		c.predicts = predictsIRAM
	}
	return true
}

// pollutes follows the sequence of instructions that makes the branch predictor forget the
// instruction RAM.
func (c *core) pollutes(o rv32.Inst) {
	k := c.predicts - predictsIRAM
	branch := o.Code >= rv32.BEQ && o.Code <= rv32.BGEU
	switch {
	case c.pc >= iramBase:
		k = 0
	case branch != (k%4 < 2) || o.Code == rv32.JAL || o.Code == rv32.JALR || k != 0 && c.pc != c.polluted+4:
		k = prediction(word.Bool(branch))
	default:
		k++
	}
	c.polluted, c.predicts = c.pc, predictsIRAM+k
	if k == forgetful {
		c.predicts = predictsL1
	}
}

// checkIRAM checks the fetch of the instruction at pc, which lies in the instruction RAM.
func (c *core) checkIRAM() bool {
	if w := (c.pc - iramBase) >> 2; c.tile.iramKnown != nil && c.tile.iramKnown[w>>6]>>(w&63)&1 == 0 {
		c.refuse(UnpredictableValueUsed, uint64(c.pc), "instruction fetch from instruction RAM that was never filled")
		return false
	}
	return true
}
