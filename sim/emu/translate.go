package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

const (
	// hot is how many instructions are interpreted in a line before it is translated.
	hot = 250
	// sameLine is how many translations of a line, as different programs had it, are kept for other
	// tiles.
	sameLine = 8
)

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
