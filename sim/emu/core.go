package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
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

// dataCache is the L0 data cache of one of Blackhole's processors (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/README.md). Which line makes room for which is drawn from the
// seed by address: so a line may be kept for as long as no fence comes, or for one load only.
type dataCache struct {
	tag  [4]uint32 // address / 16, plus 1; 0 is an empty line
	word [4][4]uint32
}

// cfg0NoCache is the bit of cfg0 that turns the cache off (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/CSRs.md).
const cfg0NoCache = 1 << 3

func cachePlace(tag uint32, seed uint64) int {
	return int((uint64(tag)*0x9E3779B97F4A7C15 ^ seed*0xD1B54A32D192ED03) * 0xBF58476D1CE4E5B9 >> 62)
}

// load returns the word that holds addr as the processor sees it.
func (d *dataCache) load(l1 []uint32, addr uint32, seed uint64) uint32 {
	tag := addr>>4 + 1
	i := cachePlace(tag, seed)
	if d.tag[i] != tag {
		d.tag[i] = tag
		copy(d.word[i][:], l1[addr>>4<<2:])
	}
	return d.word[i][addr>>2&3]
}

// store writes through: the processor sees its own store.
func (d *dataCache) store(addr, v, shift, mask uint32) {
	for i, have := range d.tag {
		if have == addr>>4+1 {
			w := &d.word[i][addr>>2&3]
			*w = word.Insert(*w, v, shift, mask)
		}
	}
}

// prediction is where the branch predictor of a processor may make it fetch from.
type prediction uint8

// changedLoops forgets what is known of a line of a page, which has other instructions now, and of
// the loops that it may be part of. Those that end in the next page are among them.
func (t *tile) changedLoops(page int, line int) {
	l := &t.code[page].loops
	l.waits, l.plain = translate.Marks{}, translate.Marks{}
	l.doubts.Clear(line*lineWords, lineWords)
	l.busy.Clear(line*lineWords, lineWords)
	if n := page + 1; line >= pageLines-translate.LongestWait/lineWords && n < len(t.code) && t.code[n] != nil {
		l := &t.code[n].loops
		l.waits, l.plain = translate.Marks{}, translate.Marks{}
	}
}

const (
	predictsL1 prediction = iota // it has not been in the instruction RAM since it was reset, or has forgotten
	// predictsIRAM and beyond: as many instructions of the sequence that makes it forget are
	// executed.
	predictsIRAM
)
