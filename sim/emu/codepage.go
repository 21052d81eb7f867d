package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// codePage holds the decoded instructions of one page, shared by a tile's cores.
type codePage struct {
	code   [pageLines]*translate.Code // by line; first, so that Go's collector scans nothing else
	heat   [pageLines]uint32          // interpreted instructions that ended there
	looked [pageLines]uint32          // translations of the chip when none fitted
	stored [pageLines]bool            // decoded, then stored to
	loops  loops
	ops    [pageOps]rv32.Op
}

const hot = 250

// loops is what is known of a page's loops. A slice ends early at a jump back in a loop that may do
// nothing but wait (translate.MayWait). A loop that jumps back twice in a row without waiting is
// busy.
type loops struct {
	waits  translate.Marks // jumps back of loops that may wait
	plain  translate.Marks // jumps back of loops that may not
	doubts translate.Marks // targets of a jump back without waiting
	busy   translate.Marks // targets of two in a row
}

var allMarks = func() (m translate.Marks) {
	for i := range m {
		m[i] = ^uint64(0)
	}
	return m
}()

// isBusy reports whether a loop turned out to do something. Loops that begin before the page are
// not noted.
func (l *loops) isBusy(head int) bool { return head >= 0 && l.busy.Has(head) }

// back returns the target of instruction i, maybe before the page, if it jumps back by its offset.
func (p *codePage) back(i int) (head int, ok bool) {
	o := p.ops[i].Inst()
	head = i + int(o.Imm)
	return head, (o.Code.IsBranch() || o.Code == rv32.JAL) && o.Imm <= 0
}

// waited notes whether a core waited that jumped back to head.
func (p *codePage) waited(head int, waiting bool) {
	l := &p.loops
	switch {
	case waiting:
		l.doubts.Clear(head, 1)
		return
	case !l.doubts.Has(head):
		l.doubts.Set(head)
		return
	}
	l.busy.Set(head)
	l.waits, l.plain = translate.Marks{}, translate.Marks{}
	for line := 0; line < pageLines; line++ {
		code := p.code[line]
		if code == nil {
			continue
		}
		if leaves(code, head) {
			p.forget(line)
			for l := code.First / lineWords; l < code.End/lineWords; l++ {
				p.heat[l] = hot
			}
		}
		line = code.End/lineWords - 1
	}
}

func leaves(code *translate.Code, head int) bool {
	return slices.ContainsFunc(code.Waits, func(i int) bool { return code.Target(i) == head })
}

func (p *codePage) decoded(line int) bool { return p.ops[line*lineWords].Code() != rv32.Undecoded }

// data reports whether a line was decoded, stored to and not executed since.
func (p *codePage) data(line int) bool { return p.stored[line] && !p.decoded(line) }

// around returns the lines to translate with a hot one: all executed ones of the page that no data
// separates, and those between.
func (p *codePage) around(line int) (first, end int) {
	first, end = line, line+1
	for l := line - 1; l >= 0 && !p.data(l); l-- {
		if p.decoded(l) {
			first = l
		}
	}
	for l := end; l < pageLines && !p.data(l); l++ {
		if p.decoded(l) {
			end = l + 1
		}
	}
	return first, end
}

// whole extends a range of lines by the translations that it overlaps.
func (p *codePage) whole(first, end int) (int, int) {
	if code := p.code[first]; code != nil {
		first = code.First / lineWords
	}
	if code := p.code[end-1]; code != nil {
		end = code.End / lineWords
	}
	return first, end
}

// contains reports whether a range of lines contains wholly each translation that it overlaps.
func (p *codePage) contains(first, end int) bool {
	f, e := p.whole(first, end)
	return f == first && e == end
}

// use replaces all translations that overlap one.
func (p *codePage) use(code *translate.Code) {
	first, end := code.First/lineWords, code.End/lineWords
	for l := first; l < end; l++ {
		p.forget(l)
	}
	for l := first; l < end; l++ {
		p.code[l] = code
	}
}

func (p *codePage) forget(line int) {
	p.heat[line] = 0
	if code := p.code[line]; code != nil {
		clear(p.code[code.First/lineWords : code.End/lineWords])
	}
}

func (p *codePage) untranslate() {
	clear(p.code[:])
	clear(p.heat[:])
	clear(p.looked[:])
}

// sameLine is how many translations of a line are kept for other tiles.
const sameLine = 8

// translations are those of a chip. Most tiles run the same code at the same address.
type translations struct {
	memory translate.Memory
	byLine map[uint32][]*translation // by address / lineBytes, newest first
	made   uint32
	hot    uint32 // see the constant; lower in tests
	off    bool
}

type translation struct {
	code  *translate.Code
	base  uint32 // of its page
	words []uint32
	busy  []int // targets of its busy loops
}

// suits reports whether its loops are those of a page.
func (tr *translation) suits(p *codePage) bool {
	for _, head := range tr.busy {
		if !p.loops.busy.Has(head) {
			return false
		}
	}
	if p.loops.busy == (translate.Marks{}) {
		return true
	}
	return !slices.ContainsFunc(tr.code.Waits, func(i int) bool { return p.loops.isBusy(tr.code.Target(i)) })
}
