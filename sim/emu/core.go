package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// coreState is what the scheduler does with a core.
type coreState uint8

const (
	inReset coreState = iota
	runnable
	parked  // waits for something that it read to change
	blocked // waits in a load or store of a mailbox
	paused  // by the debug interface
	lost    // the host has overwritten what it executed
)

func (s coreState) String() string {
	return [...]string{"in reset", "runnable", "parked", "blocked", "paused by a debugger", "lost: the host has overwritten its code"}[s]
}

// maxWatch is how many lines a waiting loop may read; with more it is never parked.
const maxWatch = 24

// core is one RISC-V processor. The fields that every slice uses are adjacent: hundreds of
// processors take turns, so each slice starts with cold caches.
type core struct {
	translate.Machine // its registers, and what translated code finds of its memory
	pc                uint32
	pageBase          uint32
	page              *codePage // of L1 in which it was last, at pageBase
	otherBase         uint32
	other             *codePage // in which it was before: it goes from firmware to a kernel and back
	tile              *tile
	local             []uint32

	budget, left, used int
	from               int    // the index of the jump back after which it was last interpreted no further
	base               int    // executed in this slice, and in earlier ones of the window, before the current budget
	ahead              uint64 // of the clock of its slice, what it reads of wall clocks
	retired            uint64

	state       coreState
	proc        chip.Processor
	hw          uint8 // 0 B, 1 T0, 2 T1, 3 T2, 4 NC: the order of hardware (ttsim src/config.h)
	number      uint8 // among the cores of its tile
	checked     bool  // runs one instruction at a time, in runChecked
	debugging   bool  // by a debugger
	overwritten bool  // the host has stored over code around pc since the core left reset

	// Scheduling: where in the run queue, next slice, how often to probe for a wait.
	listed     bool // in the window that runs, it is to have its turn
	probeFirst bool
	probeSkip  int32
	probeDelay int32
	slice      int
	queueIndex int
	quiet      int  // slices since it was woken, or stored to a register
	ends       bool // its slice, after this instruction: see together

	// What a parked core waits for.
	seen    *seenWaits // nil before the first
	inLoop  bool       // its last wait was found in a loop that may wait
	again   uint8      // 1 + the number of that in which it is, if it is one of them
	noted   uint8      // the same of that for which its polls are noted
	classes class
	wait    wait
	watched int
	watch   [maxWatch]uint32 // L1 lines, if the wait isn't known: see reads
	cache   *dataCache       // by option, or nil

	cfg0     uint32     // CSR 0x7C0
	predicts prediction // with RefuseRaces
	polluted uint32     // pc of the last instruction of the sequence of prediction
	// By option, or nil.
	icache     *check.InstructionCache
	check      *check.Core
	assumed    map[uint32]waived // by pc
	profile    *profile          // once it was asked for
	debug      *coreDebug        // once a debugger has written to it
	stack      *check.Stack
	localKnown []uint64 // one bit per word of local RAM that was ever written
}

// class is a set of kinds of register that a core has read.
type class uint8

const (
	classNIU0 class = 1 << iota
	classNIU1
	classStream
	classConfig  // soft reset, Tensix configuration and other registers that only stores change
	classMailbox // mailboxes and Tensix semaphores
	classServed0 // counters of NIU 0 of what others asked for, which every store of the host changes
	classServed1
)

// localBytes is the size of the core's local RAM. Those of Ethernet tiles are as large as BRISC's
// (ttsim src/config.h).
func (c *core) localBytes() uint32 {
	p := c.proc
	if p == chip.ERISC0 || p == chip.ERISC1 {
		p = chip.BRISC
	}
	return c.tile.chip.params.LocalRAMSize[p]
}

func (c *core) refuse(cat Category, addr uint64, format string, args ...any) {
	c.tile.chip.refuse(origin{tile: c.tile, core: c}, cat, "riscv", addr, format, args...)
}

// codePage returns the decoded page around pc, or nil after refusing to fetch from there.
func (c *core) codePage(pc uint32) *codePage {
	base := pc &^ (pageBytes - 1)
	if c.pageBase == base && c.page != nil {
		return c.page
	}
	if c.otherBase == base && c.other != nil {
		c.page, c.pageBase, c.other, c.otherBase = c.other, c.otherBase, c.page, c.pageBase
		return c.page
	}
	t := c.tile
	if pc < t.size {
		t.memory(pc + 1)
		p := t.code[pc/pageBytes]
		if p == nil {
			p = new(codePage)
			t.code[pc/pageBytes] = p
		}
		c.page, c.pageBase, c.other, c.otherBase = p, base, c.page, c.pageBase
		return p
	}
	if t.iram != nil && (c.proc == chip.NCRISC || c.proc == chip.ERISC0) && pc-iramBase < iramBytes {
		if t.check != nil && !c.entersIRAM(pc) {
			return nil
		}
		return &t.iramCode[(pc-iramBase)/pageBytes]
	}
	c.pc = pc
	if c.loses() {
		return nil
	}
	c.refuse(UndefinedBehavior, uint64(pc), "instruction fetch from %#x: instructions are fetched from L1 only%s", pc,
		map[bool]string{true: ", and by NCRISC and Ethernet tiles from 0xffc00000, once that is filled", false: ""}[t.chip.arch == chip.Wormhole])
	return nil
}

// word returns the instruction at pc, which codePage has accepted.
func (c *core) word(pc uint32) uint32 {
	if w := pc >> 2; w < uint32(len(c.tile.l1)) {
		return c.tile.l1[w]
	}
	return c.tile.iram[(pc-iramBase)>>2]
}

// decodeAt decodes the line of the instruction at index idx of the page at base. What is never
// executed is never refused, so that data which is decoded along with it does no harm.
func (c *core) decodeAt(p *codePage, base uint32, idx int) {
	p.stored[idx/lineWords] = false
	if !c.tile.adopt(p, base, idx/lineWords) {
		c.tile.decode(p, base, idx&^(lineWords-1))
	}
}

// decode decodes the line that begins with the instruction at index first.
func (t *tile) decode(p *codePage, base uint32, first int) {
	pc := base + uint32(first)<<2
	words := t.iram
	at := (pc - iramBase) >> 2
	if w := pc >> 2; w < uint32(len(t.l1)) {
		words, at = t.l1, w
		t.flags[pc>>lineShift] |= flagCode
	}
	h := t.hand()
	if h.lines == nil {
		h.lines = new([decodedLines]decodedLine)
	}
	l := &h.lines[pc>>lineShift%decodedLines]
	from := (*[lineWords]uint32)(words[at:])
	if l.pc != pc || !l.valid || l.words != *from {
		l.pc, l.valid, l.words = pc, true, *from
		for i, w := range l.words {
			l.ops[i] = rv32.Decode(t.chip.arch, w, pc+uint32(i)<<2).Op()
		}
	}
	*(*[lineWords]rv32.Op)(p.ops[first:]) = l.ops
}

// decodedLine is a line of code that some tile has, and its instructions: most tiles run the same,
// at the same place.
type decodedLine struct {
	pc    uint32
	valid bool
	words [lineWords]uint32
	ops   [lineWords]rv32.Op
}

// mayCache is how far from pc an instruction can be that a processor's cache holds
// (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/InstructionCache.md, the largest).
const mayCache = 2048

// overwrites notes which cores execute code that the host is about to overwrite: it has decoded
// lines in n bytes at addr.
func (t *tile) overwrites(addr uint32, n int) {
	for line := addr >> lineShift; line <= (addr+uint32(n)-1)>>lineShift; line++ {
		if t.flags[line]&flagCode == 0 {
			continue
		}
		for _, c := range t.cores {
			if at := int64(line) << lineShift; c.state != inReset && int64(c.pc) > at-mayCache && int64(c.pc) < at+mayCache {
				c.overwritten = true
			}
		}
	}
}

// loses stops a core, and no more, that comes to what is no instruction after the host has
// overwritten its code: tt-umd's tests clear L1 under a processor (TestRiscProgram). Silicon goes
// on with what its cache holds, or executes some other instruction (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/README.md), and works after its next reset.
func (c *core) loses() bool {
	if !c.overwritten || c.tile.chip.cfg.RefuseUnmapped {
		return false
	}
	c.tile.chip.dequeue(c)
	c.state = lost
	return true
}

// reset does what holding a core in reset and releasing it does: GPRs become zero, its pc is
// loaded, and on Blackhole its local RAM is cleared unless software turned that off
// (tt-isa-documentation */TensixTile/SoftReset.md).
func (c *core) reset(pc uint32, clearLocal bool) {
	if c.local == nil {
		c.local = make([]uint32, c.localBytes()/4)
	}
	c.SetLocal(c.local)
	c.SetL1(c.tile.l1, &c.tile.flags[0])
	c.X = [256]uint32{}
	c.pc = pc
	c.cfg0 = 0
	c.predicts = predictsL1
	c.overwritten = false
	if c.cache != nil {
		*c.cache = dataCache{}
	}
	if c.icache != nil {
		c.icache.Invalidate()
	}
	if c.stack != nil {
		*c.stack = check.Stack{}
	}
	if clearLocal {
		clear(c.local)
		for i := range c.localKnown {
			c.localKnown[i] = ^uint64(0)
		}
	}
}
