package emu

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/internal/check"
)

// origin is the agent that caused an access: host, tile, or core. It travels with requests, to name
// the culprit.
type origin struct {
	tile *tile
	core *core
	// remote: through a NoC, so without what only the tile's own cores see.
	remote bool
	// loads: a plain load by the host.
	loads bool
}

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

// refuse stops the chip unless it has stopped, and returns false.
func (c *Chip) refuse(o origin, cat Category, where string, addr uint64, format string, args ...any) bool {
	return c.stop(o, &Refusal{Category: cat, Where: where, Addr: addr, Detail: fmt.Sprintf(format, args...)})
}

// flag reports what a check found, and returns whether the chip goes on.
func (c *Chip) flag(o origin, name string, cat Category, where string, addr uint64, format string, args ...any) bool {
	return c.flagRefusal(o, &Refusal{Category: cat, Where: where, Addr: addr, Detail: fmt.Sprintf(format, args...), Check: name})
}

func (c *Chip) flagRefusal(o origin, r *Refusal) bool {
	if c.observed != nil {
		return true // checks are for programs
	}
	if c.cfg.Findings == nil {
		return c.stop(o, r)
	}
	c.attribute(o, r)
	c.cfg.Findings(&Finding{*r, c.view})
	return true
}

// attribute sets who asked.
func (c *Chip) attribute(o origin, r *Refusal) {
	if o.tile == nil {
		r.Host = true
	} else {
		r.Tile = o.tile.xy
		r.Worker, r.IsWorker = c.topology.LogicalOf(r.Tile)
	}
	if o.core != nil {
		r.HasCore, r.Core = true, o.core.proc
		if r.PC == 0 {
			r.PC = o.core.pc
		}
	}
}

func (c *Chip) stop(o origin, r *Refusal) bool {
	fault := &c.fault
	switch {
	case c.observed != nil:
		fault = c.observed
	case o.tile != nil:
		fault = o.tile.fault()
	}
	if *fault != nil {
		return false
	}
	c.attribute(o, r)
	*fault = r
	if fault == &c.fault {
		c.announceFault()
	}
	return false
}

func (t *tile) refuse(o origin, cat Category, where string, addr uint32, format string, args ...any) slowResult {
	t.chip.refuse(o, cat, where, uint64(addr), format, args...)
	return slowHalt
}

// refuser returns refuse for one address.
func (t *tile) refuser(o origin, where string, addr uint32) func(cat Category, format string, args ...any) slowResult {
	return func(cat Category, format string, args ...any) slowResult {
		return t.refuse(o, cat, where, addr, format, args...)
	}
}

func (c *Chip) refuser(o origin, where string, addr uint64) func(cat Category, format string, args ...any) bool {
	return func(cat Category, format string, args ...any) bool {
		return c.refuse(o, cat, where, addr, format, args...)
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

// fault is where a refusal of the tile is kept, in a window until its end.
func (t *tile) fault() *error {
	if b := t.outbox; b != nil {
		return &b.fault
	}
	return &t.chip.fault
}

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

// isHostLoad reports a plain load by a host. Software looks at registers that are not emulated,
// harmlessly on silicon: it reads zero where a document says something is.
func (o origin) isHostLoad() bool { return o.tile == nil && o.loads }

func (t *tile) L1(end uint32) []uint32 { return t.memory(end) }

func (t *tile) IsCode(line uint32) bool { return t.flags[line]&flagCode != 0 }

func (c *core) PC() uint32 { return c.pc }

func (c *core) Held() bool { return c.state == inReset }

// writerOf is the origin of a change, as the checks name it.
func writerOf(o origin, noc bool) check.Writer {
	if o.core == nil {
		return check.Writer{Host: true}
	}
	return check.Writer{Tile: o.core.tile.xy, Core: o.core.proc, PC: o.core.pc, NoC: noc}
}

// Assumes reports whether the current instruction may rely on a.
func (c *core) Assumes(a Assumptions) bool { return c.waived()&a == a }

// refreshWaivers asks for the waivers of code that hosts have written since.
func (c *Chip) refreshWaivers() {
	c.hostAccessed = false
	list := c.cfg.RefreshWaivers()
	if list == nil {
		return
	}
	w, err := newWaivers(list)
	if err != nil {
		c.refuse(origin{}, misconfigured, "waiver", 0, "%v", err)
		return
	}
	c.waivers, c.waived.known = w, nil
	for _, t := range c.tiles {
		for _, k := range t.cores {
			k.assumed = nil
		}
	}
}

func (c *core) waived() Assumptions {
	ch := c.tile.chip
	if len(ch.waivers) == 0 && ch.cfg.RefreshWaivers == nil {
		return 0
	}
	var around [waiverSpan]uint32
	for i := range around {
		around[i] = c.instruction(c.pc + uint32(4*(i-waiverReach)))
	}
	have, ok := c.assumed[c.pc]
	if !ok || have.around != around {
		have = waived{around, ch.waived.of(&around, ch.waivers)}
		if have.assume == 0 && ch.hostAccessed && ch.cfg.RefreshWaivers != nil {
			ch.refreshWaivers()
			have.assume = ch.waived.of(&around, ch.waivers)
		}
		if c.assumed == nil {
			c.assumed = map[uint32]waived{}
		}
		c.assumed[c.pc] = have
	}
	return have.assume
}

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
