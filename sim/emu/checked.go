package emu

// dataCache is the L0 data cache of one of Blackhole's processors (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/README.md).
type dataCache struct {
	tag  [4]uint32 // address / 16, plus 1; 0 is an empty line
	word [4][4]uint32
	next int
}

// cfg0NoCache is the bit of cfg0 that turns the cache off (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/CSRs.md).
const cfg0NoCache = 1 << 3

// load returns the word that holds addr as the processor sees it.
func (d *dataCache) load(l1 []uint32, addr uint32) uint32 {
	tag := addr>>4 + 1
	for i, have := range d.tag {
		if have == tag {
			return d.word[i][addr>>2&3]
		}
	}
	i := d.next
	d.next = (i + 1) % len(d.tag)
	d.tag[i] = tag
	copy(d.word[i][:], l1[addr>>4<<2:])
	return d.word[i][addr>>2&3]
}

// store writes through: the processor sees its own store.
func (d *dataCache) store(addr, v, shift, mask uint32) {
	for i, have := range d.tag {
		if have == addr>>4+1 {
			w := &d.word[i][addr>>2&3]
			*w = insert(*w, v, shift, mask)
		}
	}
}

// advance executes about n instructions, exactly one if n is 1.
func (c *core) advance(n int) stop {
	if c.checked {
		return c.runChecked(n)
	}
	return c.run(n)
}

// runChecked is run for Config.RefuseUnwritten and Config.DataCache: one instruction at a time.
func (c *core) runChecked(n int) stop {
	used, base := 0, c.base
	st := stopSlice
	for used < n && st == stopSlice {
		c.base = base + used
		st = c.runOne()
		used += c.used
	}
	c.used, c.base = used, base
	return st
}

func (c *core) runOne() stop {
	t := c.tile
	c.used = 0
	pg := c.codePage(c.pc)
	if pg == nil {
		return stopHalt
	}
	if t.known != nil && c.pc>>2 < uint32(len(t.l1)) {
		if a, unknown := t.unwritten(c.pc, 4); unknown {
			c.refuse(UnpredictableValueUsed, uint64(a), "instruction fetch from memory that was never written")
			return stopHalt
		}
	}
	idx := int(c.pc % pageBytes >> 2)
	if pg.ops[idx].code() == opUndecoded {
		c.decodeAt(pg, c.pc&^(pageBytes-1), idx)
	}
	o := pg.ops[idx].inst()
	addr, n := c.x[o.rs1]+uint32(o.imm), width(o.code)
	load, store := o.code >= opLB && o.code <= opLHU, o.code >= opSB && o.code <= opSW
	inL1 := (load || store) && addr>>2 < uint32(len(t.l1)) && addr&(n-1) == 0
	if inL1 && load && t.known != nil {
		if a, unknown := t.unwritten(addr, int(n)); unknown {
			c.refuse(UnpredictableValueUsed, uint64(a), "load from memory that was never written")
			return stopHalt
		}
	}
	if c.cache == nil || c.cfg0&cfg0NoCache != 0 {
		return c.run(1)
	}
	switch {
	case inL1 && load:
		w := c.cache.load(t.l1, addr)
		switch o.code {
		case opLB:
			w = uint32(int8(w >> (addr & 3 * 8)))
		case opLBU:
			w = w >> (addr & 3 * 8) & 0xFF
		case opLH:
			w = uint32(int16(w >> (addr & 2 * 8)))
		case opLHU:
			w = w >> (addr & 2 * 8) & 0xFFFF
		}
		c.x[o.rd] = w
		c.pc += 4
		c.budget = 1
		c.count(0)
		return stopSlice
	case inL1:
		c.cache.store(addr, c.x[o.rs2], addr&3*8, uint32(1<<(8*n)-1))
	case o.code == opFENCE, o.code >= opCSRRW && o.code <= opAMOMAXU:
		*c.cache = dataCache{}
	}
	return c.run(1)
}
