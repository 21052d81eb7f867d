package program

// Bounds of what may be in flight on the workers, from the mailbox layout of the launch message
// ring (8 entries, of which one stays free so that a full ring differs from an empty one). Source:
// tt-metal dev_msgs.h and worker_config_buffer.cpp.
const (
	// LaunchEntries is the number of launch messages in a worker's ring.
	LaunchEntries  = 8
	maxOutstanding = LaunchEntries - 1
	maxSlots       = LaunchEntries
)

// SlotAlign is the alignment of a program's slot in the kernel-config memory: one Blackhole NoC
// word, so that a relay from DRAM keeps source and destination aligned to each other on both
// architectures.
const SlotAlign = 64

// slot is a part of the kernel-config memory that belongs to a program until the workers have
// completed freeAt.
type slot struct {
	off, size uint32
	freeAt    uint32 // value of the completion count at which the slot may be overwritten
}

// configRing hands out the kernel-config memory of the workers. Below end is a ring of slots, one
// for each run, with its arguments and configuration; above are the texts of programs' kernels,
// which stay until their place is needed, so that a program that runs again need not be sent again
// (configtext.go). It is a value: copying it copies the state, which is how a queue keeps the state
// after a trace. It never accesses a device: it returns the count that a dispatcher must wait for
// before the memory it hands out may be written.
type configRing struct {
	size  uint32 // of all the memory
	end   uint32 // of the slots' part
	head  uint32 // where the next slot starts
	first uint8  // index of the oldest live slot
	n     uint8  // live slots
	texts texts
	slots [maxSlots]slot
}

// newRing returns a ring over empty memory.
func newRing(size uint32) configRing {
	return configRing{size: size, end: size, texts: texts{low: size}}
}

// fullRing returns a ring that one program occupies completely until the workers have completed
// freeAt. It stands for "something unknown was here": what a trace has left.
func fullRing(size, freeAt uint32) configRing {
	r := newRing(size)
	r.n, r.slots[0] = 1, slot{off: 0, size: size, freeAt: freeAt}
	return r
}

// await is a completion count that a dispatcher waits for.
type await struct {
	count uint32
	on    bool
}

// alignSlot rounds a size up to whole units of the memory, at least one.
func alignSlot(size uint32) uint32 { return max(size+SlotAlign-1, SlotAlign) &^ (SlotAlign - 1) }

// reserve takes size bytes for a slot. The dispatcher must wait before it writes them, and before
// it writes the next launch message. The slot itself is free again once the count reaches freeAt.
// size must not exceed the slots' part.
func (r *configRing) reserve(size, freeAt uint32) (off uint32, wait await) {
	size = alignSlot(size)
	off = r.head
	if off+size > r.end {
		off = 0
	}
	wait = r.clear(off, size)
	for r.n >= maxOutstanding {
		wait = r.drop()
	}
	r.slots[(r.first+r.n)%maxSlots] = slot{off: off, size: size, freeAt: freeAt}
	r.n++
	r.head = off + size
	return off, wait
}

// drop frees the oldest slot, once the dispatcher has waited.
func (r *configRing) drop() await {
	w := await{r.slots[r.first].freeAt, true}
	r.first = (r.first + 1) % maxSlots
	r.n--
	return w
}

// clear drops the slots in the way of [off, off+size). Programs end in order, so whatever is older
// than a slot in the way goes with it.
func (r *configRing) clear(off, size uint32) (wait await) {
	for r.n > 0 && r.overlaps(off, size) {
		wait = r.drop()
	}
	return wait
}

func (r *configRing) overlaps(off, size uint32) bool {
	for i := range r.n {
		s := r.slots[(r.first+i)%maxSlots]
		if off < s.off+s.size && s.off < off+size {
			return true
		}
	}
	return false
}

// ended drops the slots up to the program that ends at a count. If no slot has that count, that
// program is done already.
func (r *configRing) ended(count uint32) (wait await) {
	for i := range r.n {
		if r.slots[(r.first+i)%maxSlots].freeAt == count {
			for range i + 1 {
				wait = r.drop()
			}
			return wait
		}
	}
	return await{}
}

// later returns the later of two waits; b was asked for after a.
func later(a, b await) await {
	if b.on {
		return b
	}
	return a
}

// Kernels' texts in the kernel-config memory of the workers. A program whose text is there already
// runs from it: it isn't sent again. tt-metal has this for traces only and plans it when the trace
// is done; here it follows from what ran before, so it works for queues as well.
//
// Texts are put one below the other from the top down, and what was below becomes shorter for the
// slots, of which at least a quarter of the memory is left, or as much as the program needs. When
// there is no more room they begin at the top again, over the oldest.

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

// place takes size bytes for a text whose program has a slot of that size. The dispatcher must wait
// before it writes them. Slot and text together must not exceed the memory, and makeRoom has made
// room for the slot.
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

// entry returns an entry to remember a text in: a free one, or that of the text which was used
// longest ago before a count.
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
	// Nothing would wait for its last run any more when its memory is written. That run was
	// maxTexts programs ago, so it has ended, and this costs nothing.
	return oldest, r.ended(oldest.last)
}
