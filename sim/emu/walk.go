package emu

import (
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// shownPC is the pc that a tool sees. A parked processor stands still where its waiting loop began;
// silicon goes round the loop. So each call is one instruction further, unless only the processor
// itself can execute it.
func (c *core) shownPC() uint32 {
	if c.state != parked {
		c.shown = 0
		return c.pc
	}
	k := *c
	for range c.shown {
		if !k.walk() || k.pc == c.pc {
			k.pc, c.shown = c.pc, 0
			break
		}
	}
	c.shown++
	return k.pc
}

// walk executes an instruction of a waiting loop on a copy of its processor, past all checks. It
// returns false if that could have an effect.
func (c *core) walk() bool {
	t, pg := c.tile, c.codePage(c.pc)
	if pg == nil {
		return false
	}
	i := int(c.pc % pageBytes >> 2)
	if pg.ops[i].Code() == rv32.Undecoded {
		c.decodeAt(pg, c.pc&^(pageBytes-1), i)
	}
	if !c.pure(pg.ops[i]) {
		return false
	}
	o := pg.ops[i].Inst()
	addr := c.X[o.Rs1] + uint32(o.Imm)
	switch w := (addr - localBase) >> 2; {
	case o.Code.IsStore(): // of what is there
	case !o.Code.IsLoad():
		next, _, why := exec(c, pg.ops[i:i+1], &allMarks, c.pc, 0, 1)
		c.pc += uint32(next) << 2
		return why != translate.Slow
	case addr < t.size:
		c.X[o.Rd] = extend(o.Code, t.l1[addr>>2], addr)
	case w < uint32(len(c.local)):
		c.X[o.Rd] = extend(o.Code, c.local[w], addr)
	case addr >= niu0Base && addr < streamEnd:
		c.X[o.Rd], _ = t.load(origin{loads: true}, addr)
	default: // of the processor's own, such as mailboxes
		return false
	}
	c.pc += 4
	return true
}
