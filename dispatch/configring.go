package dispatch

// Bounds of what may be in flight on the workers, from the mailbox layout of the launch message ring (8 entries, of
// which one stays free so that a full ring differs from an empty one). Source: tt-metal dev_msgs.h and
// worker_config_buffer.cpp.
const (
	launchEntries  = 8
	maxOutstanding = launchEntries - 1
	maxSlots       = launchEntries
)

// slotAlign is the alignment of a program's slot in the kernel-config memory: one Blackhole NoC word, so that a
// relay from DRAM keeps source and destination aligned to each other on both architectures.
const slotAlign = 64

// slot is a part of the kernel-config memory that belongs to a program until the workers have completed freeAt.
type slot struct {
	off, size uint32
	freeAt    uint32 // value of the completion count at which the slot may be overwritten
}

// configRing hands out the kernel-config memory of the workers. Below end is a ring of slots, one for each run, with its
// arguments and configuration; above are the texts of programs' kernels, which stay until their place is needed, so that
// a program that runs again need not be sent again (configtext.go). It is a value: copying it copies the state, which is
// how a queue keeps the state after a trace. It never accesses a device: it returns the count that a dispatcher must wait
// for before the memory it hands out may be written.
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

// fullRing returns a ring that one program occupies completely until the workers have completed freeAt. It stands for
// "something unknown was here": what a trace has left.
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
func alignSlot(size uint32) uint32 { return max(size+slotAlign-1, slotAlign) &^ (slotAlign - 1) }

// reserve takes size bytes for a slot. The dispatcher must wait before it writes them, and before it writes the next launch
// message. The slot itself is free again once the count reaches freeAt. size must not exceed the slots' part.
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

// clear drops the slots in the way of [off, off+size). Programs end in order, so whatever is older than a slot in the way
// goes with it.
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

// ended drops the slots up to the program that ends at a count. If no slot has that count, that program is done already.
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
