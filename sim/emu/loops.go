package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// A slice ends early when an instruction jumps back in a loop that may do nothing but wait: what
// would follow is most likely another round of it. Which loops those are follows from their
// instructions (translate.MayWait), so it is the same whether they are interpreted or translated. A
// loop in which a core jumps back without waiting, twice one after the other, is taken for one that
// does something.

// loops is what is known of the loops of a page.
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

// isBusy reports whether a loop that begins with an instruction turned out to do something. Of
// those that begin before the page that isn't noted.
func (l *loops) isBusy(head int) bool { return head >= 0 && l.busy.Has(head) }

// back returns the instruction to which that with index i jumps back by its offset, if it is a jump
// that does so. It may be before the page.
func (p *codePage) back(i int) (head int, ok bool) {
	o := p.ops[i].Inst()
	head = i + int(o.Imm)
	return head, (o.Code >= rv32.BEQ && o.Code <= rv32.BGEU || o.Code == rv32.JAL) && o.Imm <= 0
}

// mayWait reports whether the jump back with index i, which is decoded, is that of a loop that may
// wait. Stores to the lines on which that depends are seen, as if they were decoded; others may be
// data that the loop jumps over.
func (t *tile) mayWait(p *codePage, base uint32, i int) bool {
	l := &p.loops
	if l.waits.Has(i) || l.plain.Has(i) {
		return l.waits.Has(i)
	}
	if head, ok := p.back(i); ok && !l.isBusy(head) {
		if n, pc := i+1-head, base+uint32(head)*4; n <= translate.LongestWait {
			may, reached := translate.MayWait(t.instructions(pc, n))
			for k, r := range reached {
				if at := pc + uint32(k)*4; r && at < t.size && t.chip.bare {
					t.flags[at>>lineShift] |= flagCode
				}
			}
			if may {
				l.waits.Set(i)
				return true
			}
		}
	}
	l.plain.Set(i)
	return false
}

// instructions decodes n instructions from pc on.
func (t *tile) instructions(pc uint32, n int) []rv32.Op {
	ops := make([]rv32.Op, n)
	for k, w := range t.words(pc, n) {
		ops[k] = rv32.Decode(t.chip.arch, w, pc+uint32(k)*4).Op()
	}
	return ops
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
