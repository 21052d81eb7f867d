package check

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// Writer is the agent that last changed something: a processor, or the host.
type Writer struct {
	Host bool
	Tile chip.XY
	Core chip.Processor
	PC   uint32
	NoC  bool // through a NoC
}

// String names the agent.
func (w Writer) String() string {
	if w.Host {
		return "the host"
	}
	s := fmt.Sprintf("tile %v %v pc=%#x", w.Tile, w.Core, w.PC)
	if w.NoC {
		s += " through a NoC"
	}
	return s
}

// codeShift gives the bytes of L1 whose changes are told apart for code: 16, which is what one
// instruction fetch reads (tt-isa-documentation WormholeB0/TensixTile/L1.md, which is Blackhole's
// too). An instruction in 16 bytes that didn't change is the right one, however many of them a
// cache keeps together: tt-metal's data begin in the line of 64 in which its code ends.
const codeShift = 4

// groupFetches is how many fetches may come into a cache together. Documents name no line of the
// cache: 64 bytes are taken to be the most, as no line of L1 or of the NoC is larger.
const groupFetches = 64 >> codeShift

// Writers records for each 16 bytes of a tile's L1 how often they were changed, and which agent
// changed them last.
type Writers struct {
	version []uint32
	last    []*writerPage // of those that were changed
}

// writerLines is how many lines share a page.
const writerLines = 256

type writerPage [writerLines]Writer

// NewWriters returns the record of a tile with so many bytes of L1.
func NewWriters(size uint32) *Writers {
	n := size >> codeShift
	return &Writers{version: make([]uint32, n), last: make([]*writerPage, (n+writerLines-1)/writerLines)}
}

// Note records a change of n bytes at addr.
func (w *Writers) Note(by Writer, addr uint32, n int) {
	for line := addr >> codeShift; line <= (addr+uint32(n)-1)>>codeShift; line++ {
		w.version[line]++
		page, i := line/writerLines, line%writerLines
		if w.last[page] == nil {
			w.last[page] = new(writerPage)
		}
		w.last[page][i] = by
	}
}

// lastOf returns the agent that changed a line last, of those that were changed.
func (w *Writers) lastOf(line uint32) Writer {
	return w.last[line/writerLines][line%writerLines]
}

// InstructionCache holds what a processor may have in its instruction cache: every line of 16 bytes
// that it has executed, or that may have been taken along, since its cache was last emptied: the
// others of the same 64 bytes, and by the prefetcher as many after it as the cache holds
// (tt-isa-documentation */TensixTile/BabyRISCV/InstructionCache.md, which doesn't say how far it
// goes). It never forgets a line for lack of room: which lines silicon drops depends on what else
// runs, so no program may rely on it.
type InstructionCache struct {
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

// NewInstructionCache returns the cache of a processor. Wormhole's sizes are taken for both
// architectures (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/InstructionCache.md).
func NewInstructionCache(p chip.Processor) *InstructionCache {
	size := 2048
	if p == chip.TRISC1 || p == chip.NCRISC {
		size = 512
	}
	return &InstructionCache{lines: map[uint32]cachedLine{}, prefetch: uint32(size >> codeShift)}
}

// Invalidate empties the cache.
func (i *InstructionCache) Invalidate() {
	clear(i.lines)
	i.valid = false
}

// Fetch notes that the processor fetches the instruction at pc, and returns why that may be an old
// one, or "".
func (i *InstructionCache) Fetch(w *Writers, pc uint32) (stale string) {
	line := pc >> codeShift
	v := w.version[line]
	if i.valid && i.line == line && i.version == v {
		return ""
	}
	have, ok := i.lines[line]
	if ok && have.version != v {
		how := "has executed this line"
		if !have.executed {
			how = "may have prefetched this line"
		}
		return fmt.Sprintf("stale code: the processor %s since its instruction cache was last emptied "+
			"(RISCV_IC_INVALIDATE or reset), and %v has changed it since", how, w.lastOf(line))
	}
	i.line, i.version, i.valid = line, v, true
	if have.executed {
		return ""
	}
	i.lines[line] = cachedLine{v, true}
	for l := line &^ (groupFetches - 1); l < line; l++ {
		i.take(w, l)
	}
	first, last := line+1, min(line+i.prefetch, uint32(len(w.version))-1)
	if i.lines[line-1].executed {
		first = last // the lines between came along with that one
	}
	for l := first; l <= last; l++ {
		i.take(w, l)
	}
	return ""
}

// take notes that a line may have come into the cache.
func (i *InstructionCache) take(w *Writers, line uint32) {
	if _, ok := i.lines[line]; !ok {
		i.lines[line] = cachedLine{version: w.version[line]}
	}
}
