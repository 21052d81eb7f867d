package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// codePage returns the decoded page around pc, or nil if the fetch is refused.
func (c *core) codePage(pc uint32) *codePage {
	base := pc &^ (pageBytes - 1)
	if c.pageBase == base && c.page != nil {
		return c.page
	}
	if c.otherBase == base && c.other != nil {
		c.page, c.pageBase, c.other, c.otherBase = c.other, c.otherBase, c.page, c.pageBase
		return c.page
	}
	t := c.tile
	if pc < t.size {
		t.memory(pc + 1)
		p := t.code[pc/pageBytes]
		if p == nil {
			p = new(codePage)
			t.code[pc/pageBytes] = p
		}
		c.page, c.pageBase, c.other, c.otherBase = p, base, c.page, c.pageBase
		return p
	}
	if t.iram != nil && (c.proc == chip.NCRISC || c.proc == chip.ERISC0) && pc-iramBase < iramBytes {
		if t.check != nil && !c.entersIRAM(pc) {
			return nil
		}
		return &t.iramCode[(pc-iramBase)/pageBytes]
	}
	c.pc = pc
	if c.loses() {
		return nil
	}
	c.refuse(undefined, uint64(pc), "instruction fetch from %#x: instructions are fetched from L1 only%s", pc,
		map[bool]string{true: ", and by NCRISC and Ethernet tiles from 0xffc00000, once that is filled", false: ""}[t.wormhole()])
	return nil
}

func (c *core) word(pc uint32) uint32 {
	if w := pc >> 2; w < uint32(len(c.tile.l1)) {
		return c.tile.l1[w]
	}
	return c.tile.iram[(pc-iramBase)>>2]
}

// decodeAt decodes the line of instruction idx. Decoded data does no harm: only executed
// instructions are refused.
func (c *core) decodeAt(p *codePage, base uint32, idx int) {
	p.stored[idx/lineWords] = false
	if !c.tile.adopt(p, base, idx/lineWords) {
		c.tile.decode(p, base, idx&^(lineWords-1))
	}
}

// decode decodes the line from instruction first.
func (t *tile) decode(p *codePage, base uint32, first int) {
	pc := base + uint32(first)<<2
	words := t.iram
	at := (pc - iramBase) >> 2
	if w := pc >> 2; w < uint32(len(t.l1)) {
		words, at = t.l1, w
		t.flags[pc>>lineShift] |= flagCode
	}
	h := t.hand()
	if h.lines == nil {
		h.lines = new([decodedLines]decodedLine)
	}
	l := &h.lines[pc>>lineShift%decodedLines]
	from := (*[lineWords]uint32)(words[at:])
	if l.pc != pc || !l.valid || l.words != *from {
		l.pc, l.valid, l.words = pc, true, *from
		for i, w := range l.words {
			l.ops[i] = rv32.Decode(t.chip.arch, w, pc+uint32(i)<<2).Op()
		}
	}
	*(*[lineWords]rv32.Op)(p.ops[first:]) = l.ops
}

// forgetful is the length of the sequence that makes the branch predictor forget the instruction
// RAM: pairs of branches, with two other instructions between pairs.
const forgetful = 54

func (c *core) entersIRAM(pc uint32) bool {
	if m := &c.tile.tensix.mover; m.unseen {
		if !c.flag("races", undefined, uint64(pc),
			"fetch from the instruction RAM before RISCV_TDMA_REG_STATUS has shown that the mover is done") {
			return false
		}
		m.unseen = false
	}
	if c.proc == chip.NCRISC {
		c.predicts = predictsIRAM
	}
	return true
}

// pollutes follows that sequence.
func (c *core) pollutes(o rv32.Inst) {
	k := c.predicts - predictsIRAM
	branch := o.Code.IsBranch()
	switch {
	case c.pc >= iramBase:
		k = 0
	case branch != (k%4 < 2) || o.Code == rv32.JAL || o.Code == rv32.JALR || k != 0 && c.pc != c.polluted+4:
		k = prediction(word.Bool(branch))
	default:
		k++
	}
	c.polluted, c.predicts = c.pc, predictsIRAM+k
	if k == forgetful {
		c.predicts = predictsL1
	}
}

func (c *core) checkIRAM() bool {
	if w := (c.pc - iramBase) >> 2; c.tile.iramKnown != nil && !c.tile.iramKnown.has(w) {
		c.refuse(unpredictable, uint64(c.pc), "instruction fetch from instruction RAM that was never filled")
		return false
	}
	return true
}
