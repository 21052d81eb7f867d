package dispatch

// Bounds of what may be in flight on the workers, from the mailbox layout of the launch message ring (8 entries, of
// which one stays free so that a full ring differs from an empty one). Source: tt-metal dev_msgs.h and
// worker_config_buffer.cpp.
const (
	launchEntries  = 8
	maxOutstanding = launchEntries - 1
	maxSlots       = 16
)

// slotAlign is the alignment of a program's slot in the kernel-config ring: one Blackhole NoC word, so that a
// relay from DRAM keeps source and destination aligned to each other on both architectures.
const slotAlign = 64

// slot is a part of the kernel-config ring that belongs to a program until the workers have completed freeAt.
type slot struct {
	off, size uint32
	freeAt    uint32 // value of the completion count at which the slot may be overwritten
}

// configRing hands out the kernel-config memory of the workers, in order, around a ring. It is a value: copying it
// copies the state, which is how a queue remembers what a trace leaves behind. It never looks at a device: it says
// what count a dispatcher must wait for before the memory it hands out may be written.
type configRing struct {
	size  uint32
	head  uint32 // where the next slot starts
	first uint8  // index of the oldest live slot
	n     uint8  // live slots
	slots [maxSlots]slot
}

// full returns a ring that one program occupies completely until the workers have completed freeAt. It stands for
// "something unknown was here": a trace's own slots, or whatever ran before a capture.
func fullRing(size, freeAt uint32) configRing {
	r := configRing{size: size, n: 1}
	r.slots[0] = slot{off: 0, size: size, freeAt: freeAt}
	return r
}

// reserve takes size bytes. When wait is true, the dispatcher must not write them, nor the next launch message,
// before the completion count has reached waitFor. The slot itself is free again once the count reaches freeAt.
// size must not exceed the ring.
func (r *configRing) reserve(size, freeAt uint32) (off, waitFor uint32, wait bool) {
	size = (size + slotAlign - 1) &^ (slotAlign - 1)
	if size == 0 {
		size = slotAlign
	}
	off = r.head
	if off+size > r.size {
		off = 0
	}
	drop := func() {
		waitFor, wait = r.slots[r.first].freeAt, true
		r.first = (r.first + 1) % maxSlots
		r.n--
	}
	// Slots lie in ring order behind head, so the ones in the way are always the oldest.
	for r.n > 0 && r.overlapsOldest(off, size) {
		drop()
	}
	for r.n >= maxOutstanding {
		drop()
	}
	r.slots[(r.first+r.n)%maxSlots] = slot{off: off, size: size, freeAt: freeAt}
	r.n++
	r.head = off + size
	return off, waitFor, wait
}

// overlapsOldest reports whether any live slot is in the way of [off, off+size). Because slots are released oldest
// first, one that is in the way forces out everything older as well.
func (r *configRing) overlapsOldest(off, size uint32) bool {
	for i := uint8(0); i < r.n; i++ {
		s := r.slots[(r.first+i)%maxSlots]
		if off < s.off+s.size && s.off < off+size {
			return true
		}
	}
	return false
}
