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
	case c.observer != nil:
		fault = &c.observer.refused
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
