package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
)

// newChecks makes the checks of Config.RefuseRaces, of all tiles and their processors.
func (c *Chip) newChecks() {
	c.check = check.New(len(c.drams), func(by check.Origin, addr uint64, format string, args ...any) {
		o := origin{remote: by.Remote}
		if by.Tile != nil {
			o.tile = by.Tile.Memory.(*tile)
		}
		if by.Core != nil {
			o.core = by.Core.Processor.(*core)
		}
		c.refuse(o, UndefinedBehavior, "race", addr, format, args...)
	})
	for _, t := range c.tiles {
		cores := make([]*check.Core, len(t.cores))
		for i, k := range t.cores {
			k.check = &check.Core{Processor: k, Name: k.proc, Arch: c.arch, LocalBytes: k.localBytes()}
			cores[i] = k.check
		}
		c.check.AddTile(t.check, cores...)
	}
}

// L1 implements check.Memory.
func (t *tile) L1(end uint32) []uint32 { return t.memory(end) }

// IsCode implements check.Memory.
func (t *tile) IsCode(line uint32) bool { return t.flags[line]&flagCode != 0 }

// PC implements check.Processor.
func (c *core) PC() uint32 { return c.pc }

// Held implements check.Processor.
func (c *core) Held() bool { return c.state == inReset }

// checked is the request as the checks see it.
func (q *request) checked() *check.Transfer {
	f := &check.Transfer{By: q.o.checked(), Tile: q.tile.check, NoC: q.noc, ID: q.id,
		Kind: check.Kind(q.kind), Marked: q.marked, Multicast: q.multicast, Ordered: q.ordered,
		From: q.place(q.from, q.fromAddr), To: q.place(q.to, q.toAddr), FromAddr: q.fromAddr, ToAddr: q.toAddr, N: q.n,
		Path: q.path()}
	switch {
	case q.multicast:
		for _, ep := range q.targets {
			f.Targets = append(f.Targets, ep.tile.check)
		}
	case q.to != nil && q.to.tile != nil:
		f.Targets = []*check.Tile{q.to.tile.check}
		f.Completes = q.kind == reqInline && q.o.core != nil && q.tile.completes(q.toAddr)
	}
	return f
}

// place is one end of the request.
func (q *request) place(ep *endpoint, addr uint64) check.Place {
	p := check.Place{Bank: check.NoBank}
	if ep == nil {
		return p
	}
	if p.XY = ep.xy; ep.tile != nil {
		p.Tile = ep.tile.check
	}
	if ep.kind == chip.DRAM && addr < q.tile.chip.drams[ep.bank].size {
		p.Bank = ep.bank
	}
	return p
}

// completes reports whether a store to addr of a tile adds to a stream with which dispatchers count
// completions.
func (t *tile) completes(addr uint64) bool {
	s := &t.chip.params.Stream
	first := streamBase + uint64(s.FirstDispatch)*0x1000
	return addr >= first && addr < streamBase+uint64(s.Count)*0x1000 && streamRegister(t.chip.arch, uint32(addr)&0xFFF) == streamUpdate
}

// writerOf is the origin of a change, as the checks name it.
func writerOf(o origin, noc bool) check.Writer {
	if o.core == nil {
		return check.Writer{Host: true}
	}
	return check.Writer{Tile: o.core.tile.xy, Core: o.core.proc, PC: o.core.pc, NoC: noc}
}

// Assumes reports whether the instruction that the processor executes may rely on a.
func (c *core) Assumes(a Assumptions) bool { return c.waived()&a == a }

// waived returns what the instruction that the processor executes may rely on.
func (c *core) waived() Assumptions {
	list := c.tile.chip.waivers
	if len(list) == 0 {
		return 0
	}
	var around [waiverSpan]uint32
	for i := range around {
		around[i] = c.instruction(c.pc + uint32(4*(i-waiverReach)))
	}
	have, ok := c.assumed[c.pc]
	if !ok || have.around != around {
		have = waived{around, c.tile.chip.waived.of(&around, list)}
		if c.assumed == nil {
			c.assumed = map[uint32]waived{}
		}
		c.assumed[c.pc] = have
	}
	return have.assume
}

// instruction returns the word at pc, or 0 where the processor fetches nothing.
func (c *core) instruction(pc uint32) uint32 {
	t := c.tile
	if w := pc >> 2; w < uint32(len(t.l1)) {
		return t.l1[w]
	}
	if w := (pc - iramBase) >> 2; w < uint32(len(t.iram)) {
		return t.iram[w]
	}
	return 0
}
