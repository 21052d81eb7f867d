package allocator

import (
	"math/bits"
	"slices"
)

// holes is the set of free ranges of an address space. Holes never touch each other. Addresses and sizes are counted in
// units from the start of the space. The zero value is not usable; see newHoles.
//
// The space is cut into buckets. The holes of a bucket fill a leaf, two cache lines without an order. What a leaf is asked
// (which hole ends here, which starts here, which is the lowest that fits) looks at all its places at once, and what it is
// told is written without a branch: what is there is as good as random, so a branch on it costs more than all the work.
//
// Over the leaves stands a pyramid of maxima: the largest hole of each leaf, of each 16 leaves, of each 256 and so on.
// The lowest hole that fits is found by going down the pyramid, 16 numbers at a time. Which leaf and which numbers these
// are follows from indexes alone: no pointer is followed, no key compared, nothing balanced.
//
// A hole belongs to the bucket of its end because a hole that gives its low part away keeps its end. The hole before a
// range ends where the range starts, so its bucket is known; the one after it may be in any bucket above, but only if
// the range's own has nothing above the range, and then it is nearly always in the next.
//
// First fit leaves small extents and small holes at one end of the space. So buckets have no common width: the space is cut
// into cells of equal width, and each cell into as many buckets, a power of two, as its holes needed when the buckets were
// chosen (see shape). A bucket with more holes than a leaf has places is cut into 16 (see overflow). When that has happened
// too often, or few holes are left, buckets are chosen anew (see reshape).
type holes struct {
	max    []uint32 // the pyramid by levels, top first; its last level and what overflows have an element for each leaf
	leaves []leaf
	up     []uint32 // by group of what overflows: the element of the leaf that it stands for
	held   []uint32 // by group of what overflows: the holes in it
	free   []uint32 // groups of what overflows that are not in use
	levels int      // of the pyramid
	first  uint32   // element of the first leaf
	over   uint32   // element behind the buckets' leaves, where what overflows starts
	cells  []cell   // by address>>shift
	shift  uint32   // log2 of a cell's width
	size   uint32   // of the space
	wide   bool     // the processor looks at several numbers at once
	count  int      // holes
	units  uint64   // sum of their sizes
	shaped int      // holes when the buckets were chosen
	spare  int      // groups that may be in use before they are chosen again
}

const (
	leafWidth  = 16 // holes in a leaf: 128 bytes
	groupBits  = 4
	groupWidth = 1 << groupBits // elements that have one above them: 64 bytes
)

// cell says which buckets a part of the space is cut into: the element of an address is base + address>>shift.
type cell struct{ base, shift uint32 }

// bucket returns the element of the bucket that an address belongs to.
func (h *holes) bucket(key uint32) uint32 {
	c := &h.cells[uint64(key)>>(h.shift&63)]
	return c.base + uint32(uint64(key)>>(c.shift&63))
}

// leaf has holes in any order; a place is empty if its end is 0. If it has overflown, all are, and the first size says
// where to; see escape.
type leaf struct {
	end, size [leafWidth]uint32
}

// overflown returns a leaf whose holes are in a group.
func overflown(group uint32) leaf {
	return leaf{size: [leafWidth]uint32{group, 1<<32 - 1}} // who seeks any size here finds something, without an end
}

// hole is a free range: its end in the high half, its size in the low half. No hole ends at 0.
type hole uint64

func makeHole(end, size uint32) hole { return hole(end)<<32 | hole(size) }

func (e hole) end() uint32   { return uint32(e >> 32) }
func (e hole) size() uint32  { return uint32(e) }
func (e hole) start() uint32 { return e.end() - e.size() }

func (l *leaf) hole(i int) hole { return makeHole(l.end[i&(leafWidth-1)], l.size[i&(leafWidth-1)]) }

func (l *leaf) set(i int, x hole) {
	l.end[i&(leafWidth-1)], l.size[i&(leafWidth-1)] = x.end(), x.size()
}

// escape returns the first element of the group that holds what a leaf could not, 0 if it did not overflow.
func (l *leaf) escape() uint32 {
	return l.size[0] & uint32(int64(uint64(l.end[0])-1)>>63) // without a branch: the first place is often empty
}

// newHoles returns a space of size units, all of it free.
func newHoles(size uint32) *holes {
	h := &holes{size: size, wide: wide()}
	h.shape(nil)
	if size != 0 {
		h.add(makeHole(size, size))
	}
	h.units = uint64(size)
	return h
}

func (h *holes) leaf(e uint32) *leaf { return &h.leaves[e-h.first] }

func (h *holes) group(e uint32) *[groupWidth]uint32 {
	return (*[groupWidth]uint32)(h.max[e&^(groupWidth-1):])
}

// largest returns the size of the largest hole, 0 if there is none.
func (h *holes) largest() uint32 { return largest(h.group(0)) }

func largest(m *[groupWidth]uint32) uint32 {
	a := max(max(m[0], m[1], m[2], m[3]), max(m[4], m[5], m[6], m[7]))
	b := max(max(m[8], m[9], m[10], m[11]), max(m[12], m[13], m[14], m[15]))
	return max(a, b)
}

// lowest returns the lowest hole of at least size, which is not 0: its leaf's element and its place, negative if there is none,
// and how large the largest of the leaf's other holes is.
func (h *holes) lowest(size uint32) (e uint32, at int, rest uint32) {
	e, at, rest = h.lowestOf(size)
	if at == escaped {
		for g := h.leaf(e).escape(); g != 0; g = h.leaf(e).escape() {
			e = g + descend(h.max[g:], 1, size)
		}
		at, rest = h.leaf(e).lowest(size)
	}
	return e, at, rest
}

// highest is lowest for the highest hole.
func (h *holes) highest(size uint32) (e uint32, at int, rest uint32) {
	e, at, rest = h.highestOf(size)
	if at == escaped {
		for g := h.leaf(e).escape(); g != 0; g = h.leaf(e).escape() {
			e = g + descendTop(h.max[g:], 1, size)
		}
		at, rest = h.leaf(e).highest(size)
	}
	return e, at, rest
}

// take carves size units from the low end of the lowest hole that fits.
func (h *holes) take(size uint32) (start uint32, ok bool) {
	e, i, rest := h.lowest(size)
	if i < 0 {
		return 0, false
	}
	l := h.leaf(e)
	x := l.hole(i)
	h.trim(e, l, i, size, rest)
	return x.start(), true
}

// trim takes size units from the low end of hole i of element e's leaf; the largest of the others has rest.
func (h *holes) trim(e uint32, l *leaf, i int, size, rest uint32) {
	h.units -= uint64(size)
	left := l.size[i&(leafWidth-1)] - size
	if left == 0 {
		h.remove(e, i)
		return
	}
	l.size[i&(leafWidth-1)] = left
	h.settle(e, max(left, rest))
}

// takeTop carves size units from the high end of the highest hole that fits.
func (h *holes) takeTop(size uint32) (start uint32, ok bool) {
	e, i, rest := h.highest(size)
	if i < 0 {
		return 0, false
	}
	l := h.leaf(e)
	x := l.hole(i)
	h.trimTop(e, l, i, size, rest)
	return x.end() - size, true
}

// trimTop takes size units from the high end of hole i of element e's leaf, which may make it another leaf's.
func (h *holes) trimTop(e uint32, l *leaf, i int, size, rest uint32) {
	h.units -= uint64(size)
	x := l.hole(i)
	end, left := x.end()-size, x.size()-size
	switch {
	case left == 0:
		h.remove(e, i)
	case e >= h.over:
		h.remove(e, i)
		h.add(makeHole(end, left))
	case h.bucket(end) == e:
		l.set(i, makeHole(end, left))
		h.settle(e, max(left, rest))
	default:
		l.set(i, 0)
		h.settle(e, rest)
		h.count--
		h.add(makeHole(end, left))
	}
}

// takeAt carves exactly [start, start+size) if one hole holds all of it.
func (h *holes) takeAt(start, size uint32) bool {
	end := start + size
	e, i := h.next(end)
	if i < 0 {
		return false
	}
	l := h.leaf(e)
	x := l.hole(i)
	if x.start() > start {
		return false
	}
	before, after := start-x.start(), x.end()-end
	switch {
	case after == 0:
		h.trimTop(e, l, i, size, l.rest(i))
	case before == 0:
		h.trim(e, l, i, size, l.rest(i))
	default:
		h.trim(e, l, i, before+size, l.rest(i))
		h.add(makeHole(start, before))
		h.units += uint64(before)
	}
	return true
}

// next returns the first hole that ends at key or above it: its leaf's element and its place, -1 if there is none.
func (h *holes) next(key uint32) (e uint32, i int) {
	e = h.seek(key)
	if i = h.leaf(e).from(key); i < 0 {
		if e = h.after(e); e != 0 {
			i = h.leaf(e).from(key)
		}
	}
	return e, i
}

// from returns which hole of a leaf is the first that ends at key or above it, -1 if none does.
func (l *leaf) from(key uint32) int {
	at, least := -1, uint32(1<<32-1)
	for i, end := range l.end {
		if end >= key && end != 0 && end <= least {
			at, least = i, end
		}
	}
	return at
}

// seek returns the element of the leaf that a hole's end belongs to.
func (h *holes) seek(key uint32) uint32 {
	e := h.bucket(key)
	shift := h.cells[uint64(key)>>(h.shift&63)].shift
	for g := h.leaf(e).escape(); g != 0; g = h.leaf(e).escape() {
		shift -= groupBits
		e = g + key>>(shift&31)&(groupWidth-1)
	}
	return e
}

// above returns the element over a group, given by one of its elements, which must not be at the top.
func (h *holes) above(e uint32) uint32 {
	if e >= h.over {
		return h.up[(e-h.over)>>groupBits]
	}
	return e>>groupBits - 1
}

// below returns the group under an element, 0 if there is a leaf with holes.
func (h *holes) below(e uint32) uint32 {
	if e < h.first {
		return (e + 1) << groupBits
	}
	return h.leaf(e).escape()
}

// after returns the element of the next leaf above e's that is not empty, 0 if there is none.
func (h *holes) after(e uint32) uint32 {
	for {
		f := fits(h.group(e), 1) &^ (2<<(e&(groupWidth-1)) - 1)
		if f != 0 {
			e = e&^(groupWidth-1) + uint32(bits.TrailingZeros32(f))
			for g := h.below(e); g != 0; g = h.below(e) {
				e = g + descend(h.max[g:], 1, 1)
			}
			return e
		}
		if e < groupWidth {
			return 0
		}
		e = h.above(e)
	}
}

// raise records that there is a hole of at least size in element e's leaf.
func (h *holes) raise(e, size uint32) {
	if h.levels == 0 {
		h.max[0] = max(h.max[0], size)
		return
	}
	for e >= h.over {
		h.max[e] = max(h.max[e], size)
		e = h.above(e)
	}
	for {
		h.max[e] = max(h.max[e], size)
		if e < groupWidth {
			return
		}
		e = e>>groupBits - 1
	}
}

// settle records that the largest hole of element e's leaf is now size.
func (h *holes) settle(e, size uint32) {
	if h.levels == 0 {
		h.max[0] = size
		return
	}
	for e >= h.over {
		h.max[e] = size
		size = largest(h.group(e))
		e = h.above(e)
	}
	h.settleAbove(e, size)
}

// give returns [start, start+size), which must not overlap a hole, and merges it with holes that it touches.
func (h *holes) give(start, size uint32) {
	end := start + size
	e, d := h.bucket(end), h.bucket(start)
	l, before := h.leaf(e), h.leaf(d)
	far := l.escape()|before.escape() != 0
	m := h.around(l, before, start, end)
	t := e // whose leaf the hole will be in
	if m&isAbove == 0 && h.levels != 0 {
		t = min(e+1, h.over-1)
		next := h.around(h.leaf(t), before, start, end)
		far = far || next&isAbove == 0
		if next&isAfter != 0 {
			m = next
		} else {
			t = e
		}
	}
	if far || m&isEmpty == 0 {
		h.giveFar(start, size) // these leaves don't know all, or have no room
		return
	}
	h.units += uint64(size)
	// Half of all ranges have a hole after them, half one before: branches would be guessed wrong as often.
	m &^= uint64(int64(uint64(start)-1)>>63) & isBefore // no hole ends at 0
	same := uint64(int64(uint64(d^t)-1) >> 63)          // all ones if the hole before is in the same leaf
	a, b := set(m&isAfter), set(m&isBefore)
	to := bits.TrailingZeros64(m & (isAfter | isBefore&same | isEmpty)) // where the hole after is, or the one before, or nothing
	f := t ^ (t^d)&uint32(b)
	into, from := h.leaf(t), h.leaf(f)
	at := to & (leafWidth - 1)
	was := bits.TrailingZeros64(m&isBefore)&(leafWidth-1)&int(b) | at&^int(b)
	end += (into.end[at] - end) & uint32(a)
	size += into.size[at]&uint32(a) + from.size[was]&uint32(b)
	from.end[was], from.size[was] = 0, 0
	into.end[at], into.size[at] = end, size
	h.count += 1 + int(a) + int(b)
	h.raise(t, size)
	if f != t {
		h.settle(f, largest(&from.size))
	}
}

// set is all ones if any bit below the highest is set in m, else 0.
func set(m uint64) int64 { return -int64(m) >> 63 }

// giveFar is give for a range whose neighbours may be anywhere.
func (h *holes) giveFar(start, size uint32) {
	h.units += uint64(size)
	end := start + size
	e := h.seek(end)
	f, a := h.next(end) // the next hole above
	if a >= 0 && h.leaf(f).hole(a).start() != end {
		a = -1
	}
	d := h.seek(start)
	b := h.leaf(d).endsAt(start)
	if b >= 0 {
		size += h.leaf(d).size[b]
	}
	if a >= 0 {
		l := h.leaf(f)
		size += l.size[a]
		l.size[a] = size
		h.raise(f, size)
		if b >= 0 {
			h.remove(d, b)
		}
		return
	}
	if b >= 0 {
		if d == e { // nothing lies between
			l := h.leaf(e)
			l.end[b], l.size[b] = end, size
			h.raise(e, size)
			return
		}
		h.remove(d, b)
	}
	h.add(makeHole(end, size))
}

// endsAt returns which hole of a leaf ends at key, -1 if none does.
func (l *leaf) endsAt(key uint32) int {
	if key == 0 {
		return -1
	}
	return slices.Index(l.end[:], key)
}

// each calls f for every hole in ascending order until it returns false.
func (h *holes) each(f func(start, size uint32) bool) {
	for e, i := h.next(0); i >= 0; {
		x := h.leaf(e).hole(i)
		if !f(x.start(), x.size()) {
			return
		}
		if i = h.leaf(e).from(x.end() + 1); i < 0 || x.end() == 1<<32-1 {
			if e = h.after(e); e == 0 {
				return
			}
			i = h.leaf(e).from(0)
		}
	}
}
