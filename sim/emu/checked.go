package emu

import (
	"maps"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// advance executes about n instructions, exactly one if n is 1.
func (c *core) advance(n int) stop {
	if c.checked {
		return c.runChecked(n)
	}
	return c.run(n)
}

// checks reports whether a configuration needs processors to run one instruction at a time.
func (cfg *Config) checks() bool {
	return cfg.RefuseUnwritten || cfg.RefuseStaleCode || cfg.RefuseRaces || cfg.RefuseOverflow
}

// runChecked is run for the options that check every access: one instruction at a time.
func (c *core) runChecked(n int) stop {
	used, base := 0, c.base
	st := stopSlice
	for used < n && st == stopSlice {
		c.base = base + used
		from := c.pc
		run := (*core).runOne
		if c.profile != nil {
			run = (*core).runProfiled
		}
		if c.debugging {
			st = c.runDebugged(run)
		} else {
			st = run(c)
		}
		used += c.used
		if st == stopSlice && used < n && c.wentBack(from) {
			st = stopWaits
		}
	}
	c.used, c.base = used, base
	return st
}

// wentBack reports whether the instruction at from, which the core has executed last, jumped back
// in a loop that may wait.
func (c *core) wentBack(from uint32) bool {
	base := from &^ (pageBytes - 1)
	if c.pc > from {
		return false
	}
	pg, i := c.codePage(from), int(from%pageBytes>>2)
	if pg == nil || !pg.decoded(i/lineWords) {
		return false
	}
	head, ok := pg.back(i)
	return ok && base+uint32(head)*4 == c.pc && c.tile.mayWait(pg, base, i)
}

func (c *core) runOne() stop {
	t := c.tile
	c.used = 0
	pg := c.codePage(c.pc)
	if pg == nil || !c.checkFetch() {
		return stopHalt
	}
	idx := int(c.pc % pageBytes >> 2)
	if pg.ops[idx].Code() == rv32.Undecoded {
		c.decodeAt(pg, c.pc&^(pageBytes-1), idx)
	}
	o := pg.ops[idx].Inst()
	addr, n := c.X[o.Rs1]+uint32(o.Imm), width(o.Code)
	load, store := o.Code >= rv32.LB && o.Code <= rv32.LHU, o.Code >= rv32.SB && o.Code <= rv32.SW
	amo := o.Code >= rv32.AMOADD && o.Code <= rv32.AMOMAXU
	if amo {
		addr, n = c.X[o.Rs1], 4
	}
	inL1 := (load || store || amo) && addr < t.size && addr&(n-1) == 0
	switch {
	case inL1:
		t.memory(addr + n)
		if !c.checkL1(addr, n, load || amo, store || amo, amo || store && c.changes(addr, n, c.X[o.Rs2])) {
			return stopHalt
		}
	case (load || store) && c.localKnown != nil && (addr-localBase)>>2 < uint32(len(c.local)) && addr&(n-1) == 0:
		if !c.checkLocal(addr, store) {
			return stopHalt
		}
	}
	if !c.check.Step(o, addr, n, inL1, c.X[o.Rs2]) {
		return stopHalt
	}
	if c.stack != nil {
		if to, no := c.stack.Step(c.pc, &c.X, uint32(4*len(c.local)), o, addr, n, store); no != "" {
			c.refuse(UndefinedBehavior, uint64(to), "%s", no)
			return stopHalt
		}
	}
	if c.predicts != predictsL1 {
		c.pollutes(o)
	}
	if c.cache == nil || c.cfg0&cfg0NoCache != 0 {
		return c.run(1)
	}
	switch {
	case inL1 && load:
		c.X[o.Rd] = extend(o.Code, c.cache.load(t.l1, addr, t.chip.cfg.Seed), addr)
		c.pc += 4
		c.budget = 1
		c.count(0)
		return stopSlice
	case inL1 && store:
		c.cache.store(addr, c.X[o.Rs2], addr&3*8, uint32(1<<(8*n)-1))
	case o.Code == rv32.FENCE, o.Code >= rv32.CSRRW && o.Code <= rv32.AMOMAXU:
		*c.cache = dataCache{}
	}
	return c.run(1)
}

// checkFetch checks the fetch of the instruction at pc, which lies in memory.
func (c *core) checkFetch() bool {
	t := c.tile
	if c.pc >= t.size {
		return c.checkIRAM()
	}
	if t.known != nil {
		if a, unknown := t.unwritten(c.pc, 4); unknown {
			c.refuse(UnpredictableValueUsed, uint64(a), "instruction fetch from memory that was never written")
			return false
		}
	}
	if c.icache != nil {
		if stale := c.icache.Fetch(t.writers, c.pc); stale != "" {
			c.refuse(UndefinedBehavior, uint64(c.pc), "%s", stale)
			return false
		}
	}
	return c.check.Fetch()
}

// changes reports whether a store of the low n bytes of v changes L1 at addr.
func (c *core) changes(addr, n, v uint32) bool {
	old := c.tile.l1[addr>>2] >> (addr & 3 * 8)
	return (old^v)<<(32-8*n) != 0
}

// checkL1 checks an access of n bytes to L1; changed says whether a store changes what is there.
func (c *core) checkL1(addr, n uint32, load, store, changed bool) bool {
	t := c.tile
	if load && t.known != nil {
		if a, unknown := t.unwritten(addr, int(n)); unknown && !c.Assumes(UnwrittenUnused) {
			c.refuse(UnpredictableValueUsed, uint64(a), "load from memory that was never written")
			return false
		}
	}
	if t.check != nil && !t.check.Access(origin{tile: t, core: c}.checked(), addr, n, load, changed) {
		return false
	}
	if store && t.writers != nil {
		t.writers.Note(writerOf(origin{tile: t, core: c}, false), addr, int(n))
	}
	return true
}

// checkLocal checks an access to the word of local RAM at addr.
func (c *core) checkLocal(addr uint32, store bool) bool {
	w := (addr - localBase) >> 2
	if store {
		c.localKnown[w>>6] |= 1 << (w & 63)
	} else if c.localKnown[w>>6]>>(w&63)&1 == 0 {
		c.refuse(UnpredictableValueUsed, uint64(addr), "load from local RAM that was never written")
		return false
	}
	return true
}

// extend returns what a load puts into its register, given the word that holds addr.
func extend(o rv32.Opcode, w, addr uint32) uint32 {
	switch o {
	case rv32.LB:
		return uint32(int8(w >> (addr & 3 * 8)))
	case rv32.LBU:
		return w >> (addr & 3 * 8) & 0xFF
	case rv32.LH:
		return uint32(int16(w >> (addr & 2 * 8)))
	case rv32.LHU:
		return w >> (addr & 2 * 8) & 0xFFFF
	}
	return w
}

// dataCache is the L0 data cache of one of Blackhole's processors (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/README.md). Which line makes room for which is drawn from the
// seed by address: so a line may be kept for as long as no fence comes, or for one load only.
type dataCache struct {
	tag  [4]uint32 // address / 16, plus 1; 0 is an empty line
	word [4][4]uint32
}

// cfg0NoCache is the bit of cfg0 that turns the cache off (tt-isa-documentation
// BlackholeA0/TensixTile/BabyRISCV/CSRs.md).
const cfg0NoCache = 1 << 3

func cachePlace(tag uint32, seed uint64) int {
	return int((uint64(tag)*0x9E3779B97F4A7C15 ^ seed*0xD1B54A32D192ED03) * 0xBF58476D1CE4E5B9 >> 62)
}

// load returns the word that holds addr as the processor sees it.
func (d *dataCache) load(l1 []uint32, addr uint32, seed uint64) uint32 {
	tag := addr>>4 + 1
	i := cachePlace(tag, seed)
	if d.tag[i] != tag {
		d.tag[i] = tag
		copy(d.word[i][:], l1[addr>>4<<2:])
	}
	return d.word[i][addr>>2&3]
}

// store writes through: the processor sees its own store.
func (d *dataCache) store(addr, v, shift, mask uint32) {
	for i, have := range d.tag {
		if have == addr>>4+1 {
			w := &d.word[i][addr>>2&3]
			*w = word.Insert(*w, v, shift, mask)
		}
	}
}

// newChecks gives a tile and its processors what the options ask for.
func (t *tile) newChecks() {
	cfg := &t.chip.cfg
	if cfg.RefuseUnwritten {
		t.known = make([]uint64, (t.size/4+63)/64)
		t.flags = new([maxLines]uint8)
		for i := range t.flags[:t.size>>lineShift] {
			t.flags[i] = flagTrap
		}
	}
	if cfg.RefuseStaleCode {
		t.writers = check.NewWriters(t.size)
	}
	if cfg.RefuseRaces {
		t.check = check.NewTile(t, t.xy, t.size)
	}
	for _, k := range t.cores {
		if cfg.DataCache && t.chip.arch == chip.Blackhole {
			k.cache = new(dataCache)
		}
		if cfg.RefuseUnwritten {
			k.localKnown = make([]uint64, (k.localBytes()/4+63)/64)
		}
		if cfg.RefuseStaleCode {
			k.icache = check.NewInstructionCache(k.proc)
		}
		if cfg.RefuseOverflow {
			k.stack = new(check.Stack)
		}
		k.checked = cfg.checks() || k.cache != nil
	}
}

// Profile returns how often processor p of the tile at raw NoC 0 coordinate xy has executed the
// instruction at each address since the first call, from which on the processor is emulated slowly.
// Rounds of loops that wait are left out but for the first ones of each wait, so the numbers hardly
// depend on timing. It returns nil if there is no such processor.
func (c *Chip) Profile(xy chip.XY, p chip.Processor) map[uint32]uint64 {
	c.acquire()
	defer c.release()
	t := c.tileAt(xy)
	if t == nil {
		return nil
	}
	k := t.core(p)
	if k == nil {
		return nil
	}
	if k.profile == nil {
		k.profile = &profile{counts: map[uint32]uint64{}, jumps: map[uint32]jump{}}
		k.checked = true
	}
	return maps.Clone(k.profile.counts)
}

// runProfiled is runOne for a processor whose instructions are counted by address.
func (c *core) runProfiled() stop {
	pc, changes := c.pc, true
	if pg := c.codePage(pc); pg != nil {
		c.profile.arrive(pc, &c.X)
		changes = c.changing(pg.ops[pc%pageBytes>>2].Inst())
	}
	st := c.runOne()
	if c.used > 0 {
		c.profile.executed(pc, changes)
	}
	return st
}

// changing reports whether the next instruction may change something besides registers. A store of
// what is already there doesn't.
func (c *core) changing(o rv32.Inst) bool {
	if o.Code < rv32.SB || o.Code > rv32.SW {
		return o.Code >= rv32.CSRRW && o.Code <= rv32.AMOMAXU
	}
	if o.Code != rv32.SW {
		return true
	}
	addr, v := c.X[o.Rs1]+uint32(o.Imm), c.X[o.Rs2]
	if w := addr >> 2; w < uint32(len(c.tile.l1)) {
		return c.tile.l1[w] != v
	}
	if w := (addr - localBase) >> 2; w < uint32(len(c.local)) {
		return c.local[w] != v
	}
	return true
}
