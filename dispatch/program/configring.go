package program

// Bounds of what may be in flight on the workers, from the ring of 8 launch messages, of which one
// stays free so that a full ring differs from an empty one. Source: tt-metal dev_msgs.h and
// worker_config_buffer.cpp.
const (
	LaunchEntries  = 8
	maxOutstanding = LaunchEntries - 1
	maxSlots       = LaunchEntries
)

// SlotAlign is the alignment of a program's slot: a Blackhole NoC word, so that a relay from DRAM
// keeps source and destination aligned to each other on both architectures.
const SlotAlign = 64

type slot struct {
	off, size uint32
	freeAt    uint32
}

// configRing hands out the kernel-config memory of the workers. Below end is a ring of slots, one
// for each run, with arguments and configuration. Above are kernels' texts, which stay until their
// place is needed, so that a repeated program isn't sent again. It returns the completion count for
// which a dispatcher must wait before it writes the memory.
type configRing struct {
	size  uint32 // of all the memory
	end   uint32 // of the slots' part
	head  uint32 // of the next slot
	first uint8  // oldest live slot
	n     uint8  // live slots
	texts texts
	slots [maxSlots]slot
}

func newRing(size uint32) configRing {
	return configRing{size: size, end: size, texts: texts{low: size}}
}

// fullRing is the unknown state that a trace leaves.
func fullRing(size, freeAt uint32) configRing {
	r := newRing(size)
	r.n, r.slots[0] = 1, slot{off: 0, size: size, freeAt: freeAt}
	return r
}

type await struct {
	count uint32
	on    bool
}

func alignSlot(size uint32) uint32 { return max(size+SlotAlign-1, SlotAlign) &^ (SlotAlign - 1) }

// reserve takes size bytes for a slot that is free again once the count reaches freeAt. The
// dispatcher must wait before it writes these and the next launch message.
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

func (r *configRing) drop() await {
	w := await{r.slots[r.first].freeAt, true}
	r.first = (r.first + 1) % maxSlots
	r.n--
	return w
}

// clear drops the slots in [off, off+size) and all older ones: programs end in order.
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

// ended drops the slots up to the program that ends at a count.
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

// later returns the later of two waits; b was requested after a.
func later(a, b await) await {
	if b.on {
		return b
	}
	return a
}

// A program runs from its text in the workers' kernel-config memory without sending it again, in
// traces and queues. Texts are put one below the other from the top down, which shrinks the slots'
// part to at least a quarter of the memory or what the program needs. Then texts begin at the top
// again, over the oldest.

const maxTexts = 16

// textID names a program's text, uniquely; 0 is none.
type textID uint64

type residentText struct {
	id        textID
	off, size uint32
	last      uint32
}

type texts struct {
	low  uint32
	list [maxTexts]residentText
}

func (r *configRing) find(id textID, last uint32) (off uint32, ok bool) {
	for i := range r.texts.list {
		if t := &r.texts.list[i]; t.id == id {
			t.last = last
			return t.off, true
		}
	}
	return 0, false
}

// makeRoom drops all texts if the slots' part has to grow.
func (r *configRing) makeRoom(slot uint32) (wait await) {
	if alignSlot(slot) <= r.end {
		return await{}
	}
	wait = r.evict(0, r.size)
	r.end, r.texts.low = r.size, r.size
	return wait
}

// place takes size bytes for a text, after makeRoom. The dispatcher must wait before it writes
// these.
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

func (r *configRing) evict(off, size uint32) (wait await) {
	for i := range r.texts.list {
		if t := &r.texts.list[i]; t.id != 0 && off < t.off+t.size && t.off < off+size {
			wait = later(wait, r.ended(t.last))
			*t = residentText{}
		}
	}
	return wait
}

// entry returns a free entry or the least recently used.
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
	// Nothing will wait for its last run, of maxTexts programs ago.
	return oldest, r.ended(oldest.last)
}
