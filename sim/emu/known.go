package emu

// runKnown is run for Config.RefuseUnwritten: one instruction at a time, with every load and fetch from L1 checked.
func (c *core) runKnown(n int) stop {
	t := c.tile
	used := 0
	for used < n {
		pg := c.codePage(c.pc)
		if pg == nil {
			c.used = used
			return stopHalt
		}
		if c.pc>>2 < uint32(len(t.l1)) {
			if a, unknown := t.unwritten(c.pc, 4); unknown {
				c.refuse(UnpredictableValueUsed, uint64(a), "instruction fetch from memory that was never written")
				c.used = used
				return stopHalt
			}
		}
		idx := int(c.pc % pageBytes >> 2)
		if pg.ops[idx].code() == opUndecoded {
			c.decodeAt(pg, c.pc&^(pageBytes-1), idx)
		}
		if o := pg.ops[idx].inst(); o.code >= opLB && o.code <= opLHU {
			addr := c.x[o.rs1] + uint32(o.imm)
			if addr>>2 < uint32(len(t.l1)) && addr&(width(o.code)-1) == 0 {
				if a, unknown := t.unwritten(addr, int(width(o.code))); unknown {
					c.refuse(UnpredictableValueUsed, uint64(a), "load from memory that was never written")
					c.used = used
					return stopHalt
				}
			}
		}
		st := c.run(1)
		used += c.used
		if st != stopSlice {
			c.used = used
			return st
		}
	}
	c.used = used
	return stopSlice
}
