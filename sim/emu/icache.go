package emu

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// writer is the agent that last changed something.
type writer struct {
	core *core // nil: the host
	pc   uint32
	noc  bool // through a NoC
}

func writerOf(o origin) writer {
	w := writer{core: o.core, noc: o.core != nil}
	if o.core != nil {
		w.pc = o.core.pc
	}
	return w
}

func (w writer) String() string {
	if w.core == nil {
		return "the host"
	}
	s := fmt.Sprintf("tile %v %v pc=%#x", w.core.tile.xy, w.core.proc, w.pc)
	if w.noc {
		s += " through a NoC"
	}
	return s
}

// codeShift gives the bytes of L1 whose changes are told apart for code: half of a line of 64, since tt-metal's data may begin in
// the line in which its code ends. Caches take 16 bytes at a time (tt-isa-documentation WormholeB0/TensixTile/L1.md).
const codeShift = 5

// writers records for each half line of a tile's L1 how often it was changed, and which agent changed it last.
type writers struct {
	version []uint32
	last    []writer
}

func newWriters(t *tile) *writers { return &writers{version: make([]uint32, t.size>>codeShift)} }

func (w *writers) note(by writer, addr uint32, n int) {
	if w.last == nil {
		w.last = make([]writer, len(w.version))
	}
	for line := addr >> codeShift; line <= (addr+uint32(n)-1)>>codeShift; line++ {
		w.version[line]++
		w.last[line] = by
	}
}

// instructionCache holds what a processor may have in its instruction cache: every half line that it has executed, or that
// the prefetcher may have taken along, since its cache was last emptied (tt-isa-documentation
// */TensixTile/BabyRISCV/InstructionCache.md). It never forgets a line for lack of room: which lines silicon drops
// depends on what else runs, so no program may rely on it.
type instructionCache struct {
	lines    map[uint32]cachedLine
	prefetch uint32 // lines

	line    uint32 // that the last instruction came from
	version uint32 // of that line, if any
	valid   bool
}

type cachedLine struct {
	version  uint32
	executed bool
}

// newInstructionCache returns the cache of a processor. Wormhole's sizes are taken for both architectures
// (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/InstructionCache.md).
func newInstructionCache(p chip.Processor) *instructionCache {
	size := 2048
	if p == chip.TRISC1 || p == chip.NCRISC {
		size = 512
	}
	return &instructionCache{lines: map[uint32]cachedLine{}, prefetch: uint32(size >> codeShift)}
}

func (i *instructionCache) invalidate() {
	clear(i.lines)
	i.valid = false
}

// fetch notes that core k fetches the instruction at its pc, and refuses one that may be an old one.
func (i *instructionCache) fetch(k *core) bool {
	w, line := k.tile.writers, k.pc>>codeShift
	v := w.version[line]
	if i.valid && i.line == line && i.version == v {
		return true
	}
	have, ok := i.lines[line]
	if ok && have.version != v {
		how := "has executed this line"
		if !have.executed {
			how = "may have prefetched this line"
		}
		k.refuse(UndefinedBehavior, uint64(k.pc),
			"stale code: the processor %s since its instruction cache was last emptied (RISCV_IC_INVALIDATE or reset), and %v has changed it since",
			how, w.last[line])
		return false
	}
	i.line, i.version, i.valid = line, v, true
	if have.executed {
		return true
	}
	i.lines[line] = cachedLine{v, true}
	if _, ok := i.lines[line^1]; !ok { // the other half came along
		i.lines[line^1] = cachedLine{version: w.version[line^1]}
	}
	first, last := line+1, min(line+i.prefetch, uint32(len(w.version))-1)
	if i.lines[line-1].executed {
		first = last // the lines between came along with that one
	}
	for l := first; l <= last; l++ {
		if _, ok := i.lines[l]; !ok {
			i.lines[l] = cachedLine{version: w.version[l]}
		}
	}
	return true
}

// changedWords reports whether n bytes of memory at addr differ from those in buf, which is aligned as memory is.
func changedWords(l1 []uint32, addr uint32, buf []uint32, n int) bool {
	k := span(uint64(addr), n)
	return !slices.Equal(l1[addr>>2:][:k], buf[:k])
}
