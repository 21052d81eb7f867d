package dispatch

// Kernels' texts in the kernel-config memory of the workers. A program whose text is there already runs from it: it isn't
// sent again. tt-metal has this for traces only and plans it when the trace is done; here it follows from what ran
// before, so it works for queues as well.
//
// Texts are put one below the other from the top down, and what was below becomes shorter for the slots, of which at
// least a quarter of the memory is left, or as much as the program needs. When there is no more room they begin at the top
// again, over the oldest.

// maxTexts is the most texts in the memory at a time.
const maxTexts = 16

// textID names a program's text. No two programs have the same; 0 names no text.
type textID uint64

// residentText is a program's text in the memory.
type residentText struct {
	id        textID
	off, size uint32
	last      uint32 // value of the completion count at which its last run is done
}

type texts struct {
	low  uint32 // where the newest starts; the next one goes below
	list [maxTexts]residentText
}

// find returns where a text is, and notes that it is used up to a count.
func (r *configRing) find(id textID, last uint32) (off uint32, ok bool) {
	for i := range r.texts.list {
		if t := &r.texts.list[i]; t.id == id {
			t.last = last
			return t.off, true
		}
	}
	return 0, false
}

// makeRoom makes the slots' part hold a slot of that size. If it has to grow, all texts go.
func (r *configRing) makeRoom(slot uint32) (wait await) {
	if alignSlot(slot) <= r.end {
		return await{}
	}
	wait = r.evict(0, r.size)
	r.end, r.texts.low = r.size, r.size
	return wait
}

// place takes size bytes for a text whose program has a slot of that size. The dispatcher must wait before it writes them.
// Slot and text together must not exceed the memory, and makeRoom has made room for the slot.
func (r *configRing) place(id textID, size, slot, last uint32) (off uint32, wait await) {
	size = alignSlot(size)
	least := max(alignSlot(slot), r.size/4) // of the slots' part
	if size > r.size-least {
		least = r.size - size
	}
	if r.texts.low < least+size {
		r.texts.low = r.size
	}
	off = r.texts.low - size
	wait = r.evict(off, size)
	wait = later(wait, r.clear(off, size))
	r.texts.low, r.end = off, min(r.end, off)
	t, forgotten := r.entry(last)
	*t = residentText{id: id, off: off, size: size, last: last}
	return off, later(wait, forgotten)
}

// evict drops the texts in the way of [off, off+size).
func (r *configRing) evict(off, size uint32) (wait await) {
	for i := range r.texts.list {
		if t := &r.texts.list[i]; t.id != 0 && off < t.off+t.size && t.off < off+size {
			wait = later(wait, r.ended(t.last))
			*t = residentText{}
		}
	}
	return wait
}

// entry returns an entry to remember a text in: a free one, or that of the text which was used longest ago before a count.
func (r *configRing) entry(now uint32) (*residentText, await) {
	oldest := &r.texts.list[0]
	for i := range r.texts.list {
		t := &r.texts.list[i]
		if t.id == 0 {
			return t, await{}
		}
		if now-t.last > now-oldest.last {
			oldest = t
		}
	}
	// Nothing would wait for its last run any more when its memory is written. That run was maxTexts programs ago, so it has
	// ended, and this costs nothing.
	return oldest, r.ended(oldest.last)
}
