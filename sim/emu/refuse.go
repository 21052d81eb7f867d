package emu

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/internal/check"
)

// origin is the agent that caused an access: the host, a tile, or a core of a tile. It travels with
// requests so that a refusal found far away can name the culprit.
type origin struct {
	tile *tile
	core *core
	// remote is set where the access comes through a NoC, and so does not reach what only the
	// tile's own cores see.
	remote bool
	// loads is set for a plain load by the host.
	loads bool
}

// far is the origin of an access that o makes through a NoC.
func (o origin) far() origin {
	o.remote = true
	return o
}

// mine returns the core that accesses its own tile, or nil.
func (o origin) mine() *core {
	if o.remote {
		return nil
	}
	return o.core
}

// refuse stops the chip. The first refusal wins: what follows it is its consequence.
func (c *Chip) refuse(o origin, cat Category, where string, addr uint64, format string, args ...any) {
	fault := &c.fault
	switch {
	case c.observed != nil:
		fault = c.observed
	case o.tile != nil:
		fault = o.tile.fault()
	}
	if *fault != nil {
		return
	}
	r := &Refusal{Category: cat, Where: where, Addr: addr, Detail: fmt.Sprintf(format, args...)}
	if o.tile == nil {
		r.Host = true
	} else {
		r.Tile = o.tile.xy
		r.Worker, r.IsWorker = c.topology.LogicalOf(r.Tile)
	}
	if o.core != nil {
		r.HasCore, r.Core, r.PC = true, o.core.proc, o.core.pc
	}
	*fault = r
	if fault == &c.fault {
		c.announceFault()
	}
}

// announceFault makes c.fault known to hosts. The caller holds the token.
func (c *Chip) announceFault() {
	c.faulted.Store(true)
	select {
	case c.stopped <- struct{}{}:
	default:
	}
}

// fault is where a refusal of what the tile does is kept: one in a window stops the chip when that
// ends.
func (t *tile) fault() *error {
	if b := t.outbox; b != nil {
		return &b.fault
	}
	return &t.chip.fault
}

// checked is the origin as the checks know it.
func (o origin) checked() check.Origin {
	by := check.Origin{Remote: o.remote}
	if o.tile != nil {
		by.Tile = o.tile.check
	}
	if o.core != nil {
		by.Core = o.core.check
	}
	return by
}

// isHostLoad reports whether an access is a plain load by a host. Software looks at registers that
// this emulator doesn't have, and on silicon comes to no harm by it: such a load is answered with
// zero instead of stopping the chip, if a document says that something is there.
func (o origin) isHostLoad() bool { return o.tile == nil && o.loads }

// L1 implements check.Memory.
func (t *tile) L1(end uint32) []uint32 { return t.memory(end) }

// IsCode implements check.Memory.
func (t *tile) IsCode(line uint32) bool { return t.flags[line]&flagCode != 0 }

// PC implements check.Processor.
func (c *core) PC() uint32 { return c.pc }

// Held implements check.Processor.
func (c *core) Held() bool { return c.state == inReset }

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
