package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

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

// interpret does what exec does where there is no translated code, and notes how much was
// interpreted.
func (c *core) interpret(pg *codePage, ops []rv32.Op, base uint32, idx, m int) (int, int, translate.Exit) {
	next, end, why := exec(c, ops, &pg.loops.plain, base, idx, m)
	for why == translate.Waits && !c.tile.mayWait(pg, base, c.from) {
		next, end, why = exec(c, ops, &pg.loops.plain, base, next, end)
	}
	if pg.code[idx/lineWords] == nil && !c.tile.chip.translated.off {
		at := next
		if uint(next) >= pageOps || pg.code[next/lineWords] != nil {
			at = idx
		}
		c.warm(pg, base, at, m-idx-(end-next))
	}
	return next, end, why
}

// warm notes that n instructions were interpreted up to that with index idx, and translates its
// range when it is hot.
func (c *core) warm(pg *codePage, base uint32, idx, n int) {
	line := idx / lineWords
	t, all := c.tile, &c.tile.chip.translated
	if pg.heat[line] += uint32(n); pg.looked[line] == all.made && pg.heat[line] < all.hot || pg.code[line] != nil || !pg.decoded(line) ||
		t.adopt(pg, base, line) || pg.heat[line] < all.hot {
		return
	}
	pg.heat[line] = 0
	if t.outbox != nil {
		t.outbox.hot = append(t.outbox.hot, hotLine{pg, base, line})
		return
	}
	t.translate(pg, base, line)
}

// translate translates the range of a line.
func (t *tile) translate(pg *codePage, base uint32, line int) {
	all := &t.chip.translated
	first, end := pg.whole(pg.around(line))
	for l := first; l < end; l++ {
		if !pg.decoded(l) {
			t.decode(pg, base, l*lineWords)
		}
	}
	at := first * lineWords
	ops := pg.ops[at : end*lineWords]
	tr := &translation{base: base, words: slices.Clone(t.words(base+uint32(at)*4, len(ops)))}
	var waits []int
	for i := at; i < end*lineWords; i++ {
		if head, ok := pg.back(i); ok && head >= at {
			if t.mayWait(pg, base, i) {
				waits = append(waits, i)
			}
			if pg.loops.isBusy(head) {
				tr.busy = append(tr.busy, head)
			}
		}
	}
	registers := t.chip.slotsFor(leastStreams)
	tr.code = all.memory.Translate(base, at, ops, registers, waits)
	if tr.code == nil {
		t.chip.untranslate()
		if tr.code = all.memory.Translate(base, at, ops, registers, waits); tr.code == nil {
			all.off = true // this host gives no memory for code
			return
		}
	}
	pg.use(tr.code)
	all.made++
	if all.byLine == nil {
		all.byLine = map[uint32][]*translation{}
	}
	for l := first; l < end; l++ {
		pc := base>>lineShift + uint32(l)
		all.byLine[pc] = slices.Insert(all.byLine[pc], 0, tr)
		if len(all.byLine[pc]) > sameLine {
			all.byLine[pc] = all.byLine[pc][:sameLine]
		}
	}
}

// adopt uses the translation of a range with a line that another tile had, if this one has the same
// instructions there, and reports whether it did.
func (t *tile) adopt(pg *codePage, base uint32, line int) bool {
	pg.looked[line] = t.chip.translated.made
	for _, tr := range t.chip.translated.byLine[base>>lineShift+uint32(line)] {
		pc := tr.base + uint32(tr.code.First)*4
		if first, end := tr.code.First/lineWords, tr.code.End/lineWords; !pg.contains(first, end) || !tr.suits(pg) {
			continue
		}
		if words := t.words(pc, len(tr.words)); words == nil || !slices.Equal(words, tr.words) {
			continue
		}
		copy(pg.ops[tr.code.First:], tr.code.Ops)
		for l := range uint32(len(tr.words) / lineWords) {
			if pc < t.size {
				t.flags[pc>>lineShift+l] |= flagCode
			}
		}
		pg.use(tr.code)
		return true
	}
	return false
}

// words returns n words of memory at pc, or nil if they weren't used so far.
func (t *tile) words(pc uint32, n int) []uint32 {
	words, at := t.l1, pc/4
	if pc >= t.size {
		words, at = t.iram, (pc-iramBase)/4
	}
	if int(at)+n > len(words) {
		return nil
	}
	return words[at:][:n]
}

// untranslate drops all translations of a chip, and their memory.
func (c *Chip) untranslate() {
	for _, t := range c.tiles {
		for _, p := range t.code {
			if p != nil {
				p.untranslate()
			}
		}
		for i := range t.iramCode {
			t.iramCode[i].untranslate()
		}
	}
	c.translated.byLine = nil
	c.translated.memory.Close()
}

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

// mayWait reports whether the jump back with index i, which is decoded, is that of a loop that may
// wait. Lines on which that depends are watched like decoded ones.
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
