package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

type coreState uint8

const (
	inReset coreState = iota
	runnable
	parked  // waits for a change of something that it read
	blocked // waits in an instruction
	paused  // by the debug interface
	lost    // the host has overwritten its code
	held    // by a schedule
)

func (s coreState) String() string {
	return [...]string{"in reset", "runnable", "parked", "blocked", "paused by a debugger", "lost: the host has overwritten its code",
		"held by a schedule"}[s]
}

// maxWatch is how many lines a waiting loop may read; with more it is never parked.
const maxWatch = 24

// core is one RISC-V processor. Fields of every slice are adjacent: slices start with cold caches.
type core struct {
	translate.Machine // registers and memory for translated code
	pc                uint32
	pageBase          uint32
	page              *codePage // the last one in L1, at pageBase
	otherBase         uint32
	other             *codePage // the one before: cores alternate between firmware and kernel
	tile              *tile
	local             []uint32

	budget, left, used int
	from               int    // index of the jump back that ended interpretation
	base               int    // executed in the slice, or window, before the budget
	ahead              uint64 // of its slice's clock, in what it reads of wall clocks
	retired            uint64
	until              uint64 // with Config.Launches: the clock up to which it has executed

	state       coreState
	proc        chip.Processor
	hw          uint8 // 0 B, 1 T0, 2 T1, 3 T2, 4 NC (ttsim src/config.h)
	number      uint8 // among the cores of its tile
	checked     bool  // runs one instruction at a time
	debugging   bool
	overwritten bool // the host has stored near pc since reset

	listed     bool // has a turn in the window
	probeFirst bool
	probeSkip  int32
	probeDelay int32
	slice      int
	queueIndex int
	quiet      int  // slices since it was woken or stored to a register
	ends       bool // its slice ends: see together

	seen    *seenWaits
	inLoop  bool  // its last wait was in a loop that may wait
	again   uint8 // 1 + the index in seen of its wait, if kept
	noted   uint8 // the same of the wait whose polls are noted
	classes class
	wait    wait
	watched int
	watch   [maxWatch]uint32 // L1 lines, if the wait isn't known
	polls   int
	polled  [maxReads]uint32 // the first registers that the wait reads, for reports
	cache   *dataCache       // by option
	shown   int              // how far shownPC has gone round the loop

	cfg0       uint32     // CSR 0x7C0
	predicts   prediction // with RefuseRaces
	polluted   uint32     // last pc of the sequence that resets prediction
	icache     *check.InstructionCache
	check      *check.Core
	thread     *schedules.Thread // with a Schedule
	assumed    map[uint32]waived // by pc
	profile    *profile
	debug      *coreDebug
	stack      *check.Stack
	localKnown bitset // what was written
}

// class is a set of kinds of register that a core has read.
type class uint8

const (
	classNIU0 class = 1 << iota
	classNIU1
	classStream
	classConfig  // soft reset, Tensix configuration and other stored registers
	classMailbox // mailboxes and Tensix semaphores
	classServed0 // counters of requests served by NIU 0
	classServed1
)

// localBytes is the size of local RAM; Ethernet tiles have as much as BRISC (ttsim src/config.h).
func (c *core) localBytes() uint32 {
	p := c.proc
	if p == chip.ERISC0 || p == chip.ERISC1 {
		p = chip.BRISC
	}
	return c.tile.chip.params.LocalRAMSize[p]
}

func (c *core) flag(name string, cat Category, addr uint64, format string, args ...any) bool {
	return c.tile.chip.flag(origin{tile: c.tile, core: c}, name, cat, "riscv", addr, format, args...)
}

func (c *core) refuse(cat Category, addr uint64, format string, args ...any) slowResult {
	c.tile.chip.refuse(origin{tile: c.tile, core: c}, cat, "riscv", addr, format, args...)
	return slowHalt
}

// mayCache is how far from pc cached instructions may be (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/InstructionCache.md).
const mayCache = 2048

// overwrites notes which cores execute code that the host is about to overwrite. A tool's user
// learns of such a core by what stops the chip.
func (t *tile) overwrites(addr uint32, n int) {
	if t.chip.observed != nil {
		return
	}
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

// loses stops a core at what is no instruction if the host has overwritten its code, as tt-umd's
// tests do (TestRiscProgram). Silicon runs on with cached or other instructions until the next
// reset (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/README.md).
func (c *core) loses() bool {
	if !c.overwritten || c.tile.chip.cfg.RefuseUnmapped {
		return false
	}
	c.tile.chip.dequeue(c)
	c.state = lost
	return true
}

// reset gives a core its state after a reset (tt-isa-documentation */TensixTile/SoftReset.md).
func (c *core) reset(pc uint32, clearLocal bool) {
	if c.local == nil {
		c.local = make([]uint32, c.localBytes()/4)
	}
	c.SetLocal(c.local)
	c.SetL1(c.tile.fast, &c.tile.flags[0])
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

// dataCache is the L0 data cache of a Blackhole processor (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/README.md). The seed draws which addresses share a line.
type dataCache struct {
	tag  [4]uint32 // address / 16 + 1, or 0
	word [4][4]uint32
}

// cfg0NoCache turns the cache off (tt-isa-documentation BlackholeA0/TensixTile/BabyRISCV/CSRs.md).
const cfg0NoCache = 1 << 3

func cachePlace(tag uint32, seed uint64) int {
	return int((uint64(tag)*0x9E3779B97F4A7C15 ^ seed*0xD1B54A32D192ED03) * 0xBF58476D1CE4E5B9 >> 62)
}

func (d *dataCache) load(l1 []uint32, addr uint32, seed uint64) uint32 {
	tag := addr>>4 + 1
	i := cachePlace(tag, seed)
	if d.tag[i] != tag {
		d.tag[i] = tag
		copy(d.word[i][:], l1[addr>>4<<2:])
	}
	return d.word[i][addr>>2&3]
}

// store writes through.
func (d *dataCache) store(addr, v, shift, mask uint32) {
	for i, have := range d.tag {
		if have == addr>>4+1 {
			w := &d.word[i][addr>>2&3]
			*w = word.Insert(*w, v, shift, mask)
		}
	}
}

type prediction uint8

// changedLoops forgets the loops that a changed line may be part of, also those that end in the
// next page.
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
	predictsL1 prediction = iota // out of the instruction RAM since reset, or has forgotten it
	// + executed instructions of the sequence that makes it forget
	predictsIRAM
)
