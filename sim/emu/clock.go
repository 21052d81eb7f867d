package emu

import "github.com/reprise-tt/reprise/chip"

// In a round of the scheduler all cores begin at the same time and run one after another, so that
// one could see an earlier time than another one saw that it has heard of since. Clocks of silicon
// tick alike and don't do that. Here a reader of a wall clock sees a later time than all that it
// may know of: the chip keeps the newest of these times for each tile, for each DRAM controller,
// and for the host with its memory, and it goes wherever data go.

// wallClock is what o reads as the tile's clock. A core that would see too early a time is taken
// ahead for the rest of its slice, and the round ends no earlier.
func (t *tile) wallClock(o origin) uint64 {
	now, reader := t.chip.now(o), t.chip.newestOf(o)
	later := max(now, t.newest+1, *reader+1)
	if o.core == nil {
		later = max(later, now+uint64(t.chip.longest))
	} else {
		later = max(later, now+o.core.ahead)
		o.core.ahead = later - now
	}
	t.newest, *reader = later, later
	return later
}

// newestAt is the newest time read that may be known where an endpoint keeps its data.
func (c *Chip) newestAt(ep *endpoint) *uint64 {
	switch {
	case ep.tile != nil:
		return &ep.tile.newest
	case ep.kind == chip.DRAM:
		return &c.drams[ep.bank].newest
	}
	return &c.newest
}

// newestOf is the newest time that the origin of an access may know.
func (c *Chip) newestOf(o origin) *uint64 {
	if o.tile != nil {
		return &o.tile.newest
	}
	return &c.newest
}

// mergeTime raises the time of a place to that of the place whose data it got.
func mergeTime(to, from *uint64) { *to = max(*to, *from) }
