package emu

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

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

// adopt uses another tile's translation with a line, if the instructions are the same.
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

// mayWait reports whether decoded instruction i jumps back in a loop that may wait, and watches the
// loop's lines.
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

func (t *tile) instructions(pc uint32, n int) []rv32.Op {
	ops := make([]rv32.Op, n)
	for k, w := range t.words(pc, n) {
		ops[k] = rv32.Decode(t.chip.arch, w, pc+uint32(k)*4).Op()
	}
	return ops
}
