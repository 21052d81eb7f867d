package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// tile is a Tensix or Ethernet tile: L1, registers, two NIUs and stream counters, and in a Tensix
// tile five cores.
type tile struct {
	// What a write of another tile looks at is adjacent: a multicast goes to all of them.
	l1       []uint32         // as far as it was ever used: see memory
	flags    *[maxLines]uint8 // by line
	niuWords *[2]niuWords     // of its tileWords, as are streams
	newest   uint64           // see clock.go
	size     uint32           // of L1, bytes
	classes  class            // what parked cores of the tile wait for, at least
	kind     chip.TileKind
	xy       chip.XY // raw NoC 0 coordinate

	// What waking a core looks at is, too.
	chip   *Chip
	outbox *outbox                   // while the tile runs in a window
	polls  []poll                    // of parked cores; also some of cores that no longer wait
	cores  []*core                   // B, T0, T1, T2, NC
	room   [chip.NumProcessors]*core // what cores is a slice of
	number int                       // of the chip's tiles
	id     [2]uint32                 // NOC_ID_LOGICAL by NoC: y<<6 | x
	code   []*codePage
	// By option, or nil.
	known   []uint64 // one bit per word of L1 that was ever written
	writers *check.Writers
	check   *check.Tile

	iram      []uint32   // of Wormhole's NCRISC, and of its Ethernet tiles; nil until it is first filled
	iramCode  []codePage // the same
	iramKnown []uint64   // with RefuseUnwritten: one bit per word that was ever filled with memory that was

	niu     [2]niu
	streams []stream
	slots   *translate.Registers
	data    []uint32 // room for those of a request that is being performed
	debug   debugRegs
	tensix  coprocessor
	eth     ethernet // of an Ethernet tile
}

// hwOrder is the order in which hardware numbers the processors of a tile (ttsim src/config.h).
var hwOrder = [chip.NumProcessors]chip.Processor{chip.BRISC, chip.TRISC0, chip.TRISC1, chip.TRISC2, chip.NCRISC}

// slotsFor returns the slots of a tile of the chip with so many streams.
func (c *Chip) slotsFor(streams int) *translate.Registers {
	cfg := &c.cfg
	k := slotsKey{c.arch, streams, cfg.RefuseCounters || cfg.RefuseRaces, cfg.Parallel, cfg.Delay > 0, c.bare}
	return slotsOf(k, &c.layout)
}

func (t *tile) addCore(p chip.Processor, hw uint8) {
	k := &core{tile: t, proc: p, hw: hw, number: uint8(len(t.cores)), queueIndex: -1}
	k.SetRegisters(&t.niuWords[0].buf[0][0], t.slots, p == chip.BRISC)
	t.cores = append(t.cores, k)
}

// core returns the core that runs as processor p.
func (t *tile) core(p chip.Processor) *core {
	for _, c := range t.cores {
		if c.proc == p {
			return c
		}
	}
	return nil
}

// bytes is the size of L1.
func (t *tile) bytes() uint64 { return uint64(t.size) }

// memory returns L1, at least up to the byte address end, which is inside it. It takes host memory
// when it is used: a chip has some 200 MB of L1, of which most tiles use what firmware and programs
// take at its start. All else that reads l1 does so as far as it goes, and asks for more if an
// address lies after its end and before size.
func (t *tile) memory(end uint32) []uint32 {
	if t.l1 == nil || int(end) > 4*len(t.l1) {
		t.grow(end)
	}
	return t.l1
}

// view returns n bytes of L1 where they are.
func (t *tile) view(addr uint32, n int) []uint32 {
	return t.memory(addr + uint32(n))[addr>>2:][:word.Span(uint64(addr), n)]
}

// firstL1 is how much of L1 there is from its first use on: base firmware and the ring of programs'
// kernels fit.
const firstL1 = 128 << 10

// grow makes L1 reach to end. In Ethernet tiles, of which there are few, it is all there at once.
func (t *tile) grow(end uint32) {
	first, size := t.l1 == nil, t.size
	if t.kind != chip.Ethernet {
		for size = firstL1; size < end; size *= 2 {
		}
		size = min(size, t.size)
	}
	l1 := make([]uint32, size/4)
	copy(l1, t.l1)
	t.l1 = l1
	if t.flags == nil {
		t.flags = new([maxLines]uint8)
	}
	for _, c := range t.cores {
		c.SetL1(t.l1, &t.flags[0])
	}
	if first && t.kind == chip.Ethernet {
		t.eth.init()
	}
}

// stored is called after n bytes of L1 at addr were written by something other than the fast path
// of a core.
func (t *tile) stored(addr uint32, n int) {
	t.nowKnown(addr, n)
	for line := addr >> lineShift; line <= (addr+uint32(n)-1)>>lineShift; line++ {
		if t.flags[line]&(flagCode|flagWatch) != 0 {
			t.touched(line)
		}
	}
}

// take puts what a request brings into L1, of which nothing is checked. Kernels are often rewritten
// unchanged: their decoded and translated code is kept then.
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
		if t.flags[line]&(flagCode|flagWatch) != 0 {
			t.touched(line)
		}
	}
}

// nowKnown notes that n bytes of L1 at addr were written.
func (t *tile) nowKnown(addr uint32, n int) {
	if t.known != nil {
		for w := addr >> 2; w <= (addr+uint32(n)-1)>>2; w++ {
			t.known[w>>6] |= 1 << (w & 63)
		}
	}
}

// unwritten returns the first address in [addr, addr+n) whose word was never written.
func (t *tile) unwritten(addr uint32, n int) (uint32, bool) {
	for w := addr >> 2; w <= (addr+uint32(n)-1)>>2; w++ {
		if t.known[w>>6]>>(w&63)&1 == 0 {
			return w << 2, true
		}
	}
	return 0, false
}

// ethernet is what an Ethernet tile has beside other tiles: registers, links, and base firmware,
// which isn't code.
type ethernet interface {
	// load and store access a register that other tiles don't have, and store the soft reset.
	load(o origin, addr uint32) (uint32, slowResult)
	store(o origin, addr, v uint32) slowResult
	// resetPC is where a processor starts, and starts whether it runs there.
	resetPC(p chip.Processor) uint32
	starts(k *core) bool
	// init is called when L1 is first used, beat before another agent loads a word of it, and told
	// after one has written to it; told reports whether the chip still works.
	init()
	beat(addr uint32)
	told(o origin, addr uint32, n int) bool
}
