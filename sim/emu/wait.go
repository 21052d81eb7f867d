package emu

// maxReads is how many places in L1 a loop may read to be known.
const maxReads = 8

// wait is what the loop depends on in which a core waits. When a core is woken and none of it has changed, as when somebody
// stored beside what it looks at, its loop would go round as before: it needn't be executed to know that. A core that is woken
// does the same then in the same order as if it had been.
type wait struct {
	known  bool
	used   int // instructions until the core is where it was
	reads  [maxReads]read
	n      int
	lo, hi uint32 // the loop's lines of code
}

// read is a place in L1: part of a word, and what was there.
type read struct{ word, mask, value uint32 }

// begin notes that the core begins to look whether it waits.
func (w *wait) begin(c *core) {
	w.known = !c.checked && c.cache == nil && !c.tile.chip.cfg.alwaysLooks
	w.n, w.lo, w.hi = 0, ^uint32(0), 0
}

// at notes an instruction of the loop. Nobody tells of changes of instruction RAM.
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

// overwritten notes that somebody stores to a line of code.
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
