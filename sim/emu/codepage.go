package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// codePage holds the decoded instructions of one page, and what is known of its lines. All cores of
// a tile share it.
type codePage struct {
	code   [pageLines]*translate.Code // the translation that the line is in, if any; first, so that Go's collector scans nothing else
	heat   [pageLines]uint32          // how many instructions were interpreted that ended there
	looked [pageLines]uint32          // how many translations the chip had when none of them was that of the line
	stored [pageLines]bool            // that were decoded and then stored to
	loops  loops
	ops    [pageOps]rv32.Op
}

// hot is how many instructions are interpreted in a line before it is translated.
const hot = 250

// loops is what is known of the loops of a page. A slice ends early when an instruction jumps back
// in a loop that may do nothing but wait. Which loops may wait follows from their instructions
// (translate.MayWait), so interpreted and translated code agree. A loop that twice in a row jumps
// back without waiting is busy.
type loops struct {
	waits  translate.Marks // jumps back of which it is known that their loop may wait
	plain  translate.Marks // of which it is known that it may not
	doubts translate.Marks // instructions to which a core jumped back, without waiting
	busy   translate.Marks // to which one did so twice, one after the other
}

// allMarks are all instructions of a page.
var allMarks = func() (m translate.Marks) {
	for i := range m {
		m[i] = ^uint64(0)
	}
	return m
}()

// isBusy reports whether a loop that begins with an instruction turned out to do something. Loops
// that begin before the page are not noted.
func (l *loops) isBusy(head int) bool { return head >= 0 && l.busy.Has(head) }

// back returns the instruction to which that with index i jumps back by its offset, if it does. The
// target may be before the page.
func (p *codePage) back(i int) (head int, ok bool) {
	o := p.ops[i].Inst()
	head = i + int(o.Imm)
	return head, (o.Code >= rv32.BEQ && o.Code <= rv32.BGEU || o.Code == rv32.JAL) && o.Imm <= 0
}

// waited notes whether a core that jumped back to an instruction of a loop that may wait did wait.
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

// leaves reports whether code is left after a jump back to an instruction.
func leaves(code *translate.Code, head int) bool {
	return slices.ContainsFunc(code.Waits, func(i int) bool { return code.Target(i) == head })
}

// decoded reports whether the instructions of a line are.
func (p *codePage) decoded(line int) bool { return p.ops[line*lineWords].Code() != rv32.Undecoded }

// data reports whether a line was stored to after it had been decoded with others, and hasn't been
// executed since.
func (p *codePage) data(line int) bool { return p.stored[line] && !p.decoded(line) }

// around returns the lines that are translated with one that is hot: all of the page from the first
// that was executed to the last, but none beyond data. What was not executed so far between others
// is translated with them, since jumps over it would leave the code.
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

// whole extends a range of lines by those of all translations that it overlaps.
func (p *codePage) whole(first, end int) (int, int) {
	if code := p.code[first]; code != nil {
		first = code.First / lineWords
	}
	if code := p.code[end-1]; code != nil {
		end = code.End / lineWords
	}
	return first, end
}

// contains reports whether a range of lines contains all of each translation that it overlaps. In
// place of others it would leave lines without one, which would take the others again.
func (p *codePage) contains(first, end int) bool {
	f, e := p.whole(first, end)
	return f == first && e == end
}

// use uses a translation in place of all that overlap it.
func (p *codePage) use(code *translate.Code) {
	first, end := code.First/lineWords, code.End/lineWords
	for l := first; l < end; l++ {
		p.forget(l)
	}
	for l := first; l < end; l++ {
		p.code[l] = code
	}
}

// forget drops the translation that a line is in.
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

// sameLine is how many translations of a line, as different programs had it, are kept for other
// tiles.
const sameLine = 8

// translations are those of a chip. Most tiles run the same code at the same address, so each range
// is translated once.
type translations struct {
	memory translate.Memory
	byLine map[uint32][]*translation // by the address of a line / its size, newest first
	made   uint32
	hot    uint32 // see the constant; lower in tests
	off    bool
}

// translation is the code of a range with what it was made of.
type translation struct {
	code  *translate.Code
	base  uint32 // of its page
	words []uint32
	busy  []int // the instructions to which it jumps back in loops that turned out to do something
}

// suits reports whether it is code for a page as far as loops are concerned.
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
