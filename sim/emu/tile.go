package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

type tile struct {
	// What other tiles' writes look at is adjacent, for multicasts.
	l1       []uint32         // as far as it was used: see memory
	fast     []uint32         // the part of l1 that cores use without a call
	flags    *[maxLines]uint8 // by line
	niuWords *[2]niuWords     // of its tileWords, as are streams
	newest   uint64           // see mergeTime
	size     uint32           // of L1, bytes
	classes  class            // what its parked cores wait for, at least
	kind     chip.TileKind
	xy       chip.XY // raw NoC 0 coordinate

	// What waking a core looks at.
	chip   *Chip
	outbox *outbox                   // while the tile runs in a window
	polls  []poll                    // of parked cores, and some of others
	cores  []*core                   // B, T0, T1, T2, NC
	room   [chip.NumProcessors]*core // the array of cores
	number int                       // of the chip's tiles
	id     [2]uint32                 // NOC_ID_LOGICAL by NoC: y<<6 | x
	code   []*codePage
	// By option, or nil.
	known   bitset // what was written
	writers *check.Writers
	check   *check.Tile
	track   *Track // of L1
	starts  *launches

	iram      []uint32 // of NCRISC and Wormhole's Ethernet tiles, once filled
	iramCode  []codePage
	iramKnown bitset // a bit per word

	niu     [2]niu
	streams []stream
	pagers  [maxStreams]pagers
	changes [32]change // of words through a NoC, the latest
	next    uint8      // of them
	slots   *translate.Registers
	data    []uint32 // for a request under way
	debug   debugRegs
	tensix  coprocessor
	eth     ethernet // of an Ethernet tile
}

// pagers are the cores that last put pages into a stream's circular buffer, and took some.
type pagers struct{ put, took *core }

// change is a request of a processor that changed one word of L1.
type change struct {
	word uint32
	by   *core
}

func (t *tile) changedBy(o origin, addr, n uint64) {
	if n == 4 && o.core != nil {
		t.changes[int(t.next)%len(t.changes)] = change{uint32(addr >> 2), o.core}
		t.next++
	}
}

func (t *tile) changer(word uint32) *core {
	for i := range t.changes {
		if c := t.changes[(int(t.next)-1-i)&(len(t.changes)-1)]; c.by != nil && c.word == word {
			return c.by
		}
	}
	return nil
}

// hwOrder is the hardware's order of processors (ttsim src/config.h).
var hwOrder = [chip.NumProcessors]chip.Processor{chip.BRISC, chip.TRISC0, chip.TRISC1, chip.TRISC2, chip.NCRISC}

func (c *Chip) slotsFor(streams int) *translate.Registers {
	cfg := &c.cfg
	k := slotsKey{c.arch, streams, cfg.RefuseCounters || cfg.RefuseRaces || cfg.Schedule != nil, cfg.Parallel, cfg.Delay > 0, c.bare}
	return slotsOf(k, &c.layout)
}

func (t *tile) wormhole() bool  { return t.chip.wormhole() }
func (t *tile) blackhole() bool { return t.chip.blackhole() }

func (t *tile) addCore(p chip.Processor, hw uint8) {
	k := &core{tile: t, proc: p, hw: hw, number: uint8(len(t.cores)), queueIndex: -1}
	k.SetRegisters(&t.niuWords[0].buf[0][0], t.slots, p == chip.BRISC)
	t.cores = append(t.cores, k)
}

func (t *tile) core(p chip.Processor) *core {
	for _, c := range t.cores {
		if c.proc == p {
			return c
		}
	}
	return nil
}

func (t *tile) bytes() uint64 { return uint64(t.size) }

// memory returns L1 at least up to byte address end, inside it. L1 of all tiles takes 200 MB, so it
// grows as it is used.
func (t *tile) memory(end uint32) []uint32 {
	if t.l1 == nil || int(end) > 4*len(t.l1) {
		t.grow(end)
	}
	return t.l1
}

func (t *tile) view(addr uint32, n int) []uint32 {
	return t.memory(addr + uint32(n))[addr>>2:][:word.Span(uint64(addr), n)]
}

// FirstL1 is how much of L1 holds base firmware and the ring of kernels, in bytes.
const FirstL1 = 128 << 10

// grow makes L1 reach to end, that of Ethernet tiles wholly.
func (t *tile) grow(end uint32) {
	first, size := t.l1 == nil, t.size
	if t.kind != chip.Ethernet {
		for size = FirstL1; size < end; size *= 2 {
		}
		size = min(size, t.size)
	}
	l1 := make([]uint32, size/4)
	copy(l1, t.l1)
	t.l1, t.fast = l1, l1
	if t.track != nil {
		t.fast = l1[:FirstL1/4]
	}
	if t.flags == nil {
		t.flags = new([maxLines]uint8)
	}
	for _, c := range t.cores {
		c.SetL1(t.fast, &t.flags[0])
	}
	if first && t.kind == chip.Ethernet {
		t.eth.init()
	}
}

// stored is called after n bytes of L1 were written other than by a core's fast path.
func (t *tile) stored(addr uint32, n int) {
	t.nowKnown(addr, n)
	for line := addr >> lineShift; line <= (addr+uint32(n)-1)>>lineShift; line++ {
		if t.flags[line]&flagNotify != 0 {
			t.touched(line)
		}
	}
}

// take writes a request's data to unchecked L1. Kernels are often rewritten unchanged: their
// decoded and translated code is kept.
func (t *tile) take(addr uint32, n int, data []uint32) {
	l1 := t.memory(addr + uint32(n))
	if (addr|uint32(n))&3 != 0 {
		word.Merge(l1, uint64(addr), data, n)
		t.stored(addr, n)
		return
	}
	data = data[:n>>2]
	there := l1[addr>>2:][:len(data)]
	if t.flags[addr>>lineShift]&flagCode != 0 && word.Equal(there, data) {
		return
	}
	copy(there, data)
	for line := addr >> lineShift; line <= (addr+uint32(n)-1)>>lineShift; line++ {
		if t.flags[line]&flagNotify != 0 {
			t.touched(line)
		}
	}
}

func (t *tile) nowKnown(addr uint32, n int) {
	if t.known != nil {
		for w := addr >> 2; w <= (addr+uint32(n)-1)>>2; w++ {
			t.known.set(w)
		}
	}
}

// written checks a read of n bytes of L1.
func (t *tile) written(o origin, where string, addr uint32, n int, what string) bool {
	a, unknown := t.unwritten(addr, n)
	if !unknown || t.chip.observed != nil {
		return true
	}
	t.nowKnown(addr, n)
	return t.chip.flag(o, "unwritten", unpredictable, where, uint64(a), "%s memory of tile %v that was never written", what, t.xy)
}

func (t *tile) unwritten(addr uint32, n int) (uint32, bool) {
	for w := addr >> 2; w <= (addr+uint32(n)-1)>>2; w++ {
		if !t.known.has(w) {
			return w << 2, true
		}
	}
	return 0, false
}

// ethernet is the part of Ethernet tiles that others lack: registers, links and base firmware.
type ethernet interface {
	// They access a register that other tiles don't have; store the soft reset, too.
	load(o origin, addr uint32) (uint32, slowResult)
	store(o origin, addr, v uint32) slowResult
	resetPC(p chip.Processor) uint32
	starts(k *core) bool
	// init is called on the first use of L1, beat before another agent's load, told after another
	// agent's write, false if the chip stopped.
	init()
	beat(addr uint32)
	told(o origin, addr uint32, n int) bool
}
