package emu

// maxReads is the most places in L1 that a loop may read for its wait to be known.
const maxReads = 8

// wait is what a core's waiting loop depends on. When the core is woken and none of it has changed, for instance because the
// store was next to a polled word, the loop would go round as before: it needn't be executed to know that. The core then
// does the same, in the same order, as if it had been executed.
type wait struct {
	known  bool
	used   int // instructions until the core is where it was
	reads  [maxReads]read
	n      int
	lo, hi uint32 // the loop's lines of code
}

// read is a place in L1: part of a word, and its value.
type read struct{ word, mask, value uint32 }

// begin notes that the core begins to probe whether it waits.
func (w *wait) begin(c *core) {
	w.known = !c.checked && c.cache == nil && !c.tile.chip.cfg.alwaysLooks
	w.n, w.lo, w.hi = 0, ^uint32(0), 0
}

// at notes an instruction of the loop. Changes of instruction RAM aren't reported, so a loop there isn't known.
func (w *wait) at(pc uint32) {
	line := pc >> lineShift
	w.lo, w.hi = min(w.lo, line), max(w.hi, line)
	w.known = w.known && pc < localBase
}

// read notes a load of n bytes from L1.
func (w *wait) read(t *tile, addr, n uint32) {
	mask := ^uint32(0) >> (32 - 8*n) << (addr & 3 * 8)
	r := read{addr >> 2, mask, t.l1[addr>>2] & mask}
	for _, o := range w.reads[:w.n] {
		if o == r {
			return
		}
	}
	if w.n == maxReads {
		w.known = false
		return
	}
	w.reads[w.n] = r
	w.n++
}

// end notes that the core waits. Registers of the tile change in ways that aren't followed here.
func (w *wait) end(c *core, used int) {
	w.known = w.known && c.classes == 0
	w.used = used
}

// overwritten notes a store to a line of code.
func (w *wait) overwritten(line uint32) {
	if w.lo <= line && line <= w.hi {
		w.known = false
	}
}

// goesOn reports whether a core that was woken waits as before, and counts what it would have executed.
func (c *core) goesOn() bool {
	w := &c.wait
	if !w.known || len(c.tile.chip.events) > 0 {
		return false
	}
	for _, r := range w.reads[:w.n] {
		if c.tile.l1[r.word]&r.mask != r.value {
			return false
		}
	}
	c.retired += uint64(w.used)
	return true
}
