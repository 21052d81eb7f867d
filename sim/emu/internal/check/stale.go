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

// codeShift is log2 of the 16 bytes of one instruction fetch (tt-isa-documentation
// WormholeB0/TensixTile/L1.md, as Blackhole's), whose changes are told apart: tt-metal's data begin
// in the 64 bytes in which its code ends.
const codeShift = 4

// groupFetches is how many fetches may come into a cache together. Undocumented: at most 64 bytes,
// as no line of L1 or NoC is larger.
const groupFetches = 64 >> codeShift

// Writers records for each 16 bytes of L1 how often they were changed, and by whom last.
type Writers struct {
	version []uint32
	last    []*writerPage // of those that were changed
}

const writerLines = 256 // of a page, as of a page of cached lines

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

func (w *Writers) lastOf(line uint32) Writer {
	return w.last[line/writerLines][line%writerLines]
}

// InstructionCache holds what a processor may have cached since its cache was last emptied:
// executed lines of 16 bytes, the others of the same 64 bytes, and as many after them as the cache
// holds, by the prefetcher (tt-isa-documentation */TensixTile/BabyRISCV/InstructionCache.md, which
// names no bound). It never forgets a line for lack of room, on which no program may rely.
type InstructionCache struct {
	pages    []*cachedPage // of lines that it holds
	prefetch uint32        // lines

	recent [256]fetched // of the last instructions, by line
}

type fetched struct {
	line, version uint32
	valid         bool
}

type cachedPage [writerLines]cachedLine

type cachedLine struct {
	version        uint32
	held, executed bool
}

// NewInstructionCache returns the cache of a processor, with Wormhole's sizes (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/InstructionCache.md).
func NewInstructionCache(p chip.Processor) *InstructionCache {
	size := 2048
	if p == chip.TRISC1 || p == chip.NCRISC {
		size = 512
	}
	return &InstructionCache{prefetch: uint32(size >> codeShift)}
}

// Invalidate empties the cache.
func (i *InstructionCache) Invalidate() {
	for _, p := range i.pages {
		if p != nil {
			clear(p[:])
		}
	}
	clear(i.recent[:])
}

// Fetch notes that the processor fetches the instruction at pc, and returns why that may be an old
// one, or "".
func (i *InstructionCache) Fetch(w *Writers, pc uint32) (stale string) {
	line := pc >> codeShift
	v := w.version[line]
	last := &i.recent[line%uint32(len(i.recent))]
	if *last == (fetched{line, v, true}) {
		return ""
	}
	have := i.at(w, line)
	if have.held && have.version != v {
		how := "has executed this line"
		if !have.executed {
			how = "may have prefetched this line"
		}
		return fmt.Sprintf("stale code: the processor %s since its instruction cache was last emptied "+
			"(RISCV_IC_INVALIDATE or reset), and %v has changed it since", how, w.lastOf(line))
	}
	*last = fetched{line, v, true}
	if have.executed {
		return ""
	}
	*have = cachedLine{v, true, true}
	for l := line &^ (groupFetches - 1); l < line; l++ {
		i.take(w, l)
	}
	first, end := line+1, min(line+i.prefetch, uint32(len(w.version))-1)
	if line > 0 && i.at(w, line-1).executed {
		first = end // the lines between came along with that one
	}
	for l := first; l <= end; l++ {
		i.take(w, l)
	}
	return ""
}

func (i *InstructionCache) take(w *Writers, line uint32) {
	if l := i.at(w, line); !l.held {
		*l = cachedLine{version: w.version[line], held: true}
	}
}

func (i *InstructionCache) at(w *Writers, line uint32) *cachedLine {
	if i.pages == nil {
		i.pages = make([]*cachedPage, len(w.last))
	}
	p := &i.pages[line/writerLines]
	if *p == nil {
		*p = new(cachedPage)
	}
	return &(*p)[line%writerLines]
}
