package allocator

import "math/bits"

// What is asked of 16 numbers at once, for processors that can't. Every function here has one in assembly for those that
// can, which is held to this one by a test.

// none is what descend returns if nothing fits.
const none = 1<<32 - 1

// Parts of what around returns: a bit for each place of a leaf.
const (
	isAfter  = 0xffff       // its hole starts where the range ends
	isBefore = 0xffff << 16 // its hole in the leaf before ends where the range starts
	isEmpty  = 0xffff << 32 // it is empty
	isAbove  = 0xffff << 48 // its hole ends where the range does or above
)

// fits returns a bit for each of a group's elements that is at least size.
func fits(m *[groupWidth]uint32, size uint32) uint32 {
	v := uint64(size)
	a := (uint64(m[0])-v)>>63 | (uint64(m[1])-v)>>63<<1 | (uint64(m[2])-v)>>63<<2 | (uint64(m[3])-v)>>63<<3
	b := (uint64(m[4])-v)>>63 | (uint64(m[5])-v)>>63<<1 | (uint64(m[6])-v)>>63<<2 | (uint64(m[7])-v)>>63<<3
	c := (uint64(m[8])-v)>>63 | (uint64(m[9])-v)>>63<<1 | (uint64(m[10])-v)>>63<<2 | (uint64(m[11])-v)>>63<<3
	d := (uint64(m[12])-v)>>63 | (uint64(m[13])-v)>>63<<1 | (uint64(m[14])-v)>>63<<2 | (uint64(m[15])-v)>>63<<3
	return uint32(a|b<<4|(c|d<<4)<<8) ^ (1<<groupWidth - 1)
}

// descend goes down levels of a pyramid, from the group at the start of m, to the first element at least as large as
// size. It returns none if there is none.
func descend(m []uint32, levels int, size uint32) (e uint32) {
	g := uint32(0)
	for {
		f := fits((*[groupWidth]uint32)(m[g:]), size)
		if f == 0 {
			return none
		}
		e = g + uint32(bits.TrailingZeros32(f))
		if levels--; levels == 0 {
			return e
		}
		g = (e + 1) << groupBits
	}
}

// descendTop is descend to the last element.
func descendTop(m []uint32, levels int, size uint32) (e uint32) {
	g := uint32(0)
	for {
		f := fits((*[groupWidth]uint32)(m[g:]), size)
		if f == 0 {
			return none
		}
		e = g + uint32(bits.Len32(f)) - 1
		if levels--; levels == 0 {
			return e
		}
		g = (e + 1) << groupBits
	}
}

// What lowestOf and highestOf return for the place of a hole, if it isn't one.
const (
	missing = -1 // no hole fits
	escaped = -2 // the leaf has overflown
)

// lowestOf returns the lowest hole of at least size: its leaf's element, its place, and how large the largest of the leaf's
// other holes is.
func lowestOf(h *holes, size uint32) (e uint32, at int, rest uint32) {
	if h.levels != 0 {
		e = descend(h.max, h.levels, size)
	} else if h.max[0] < size {
		e = none
	}
	if e == none {
		return 0, missing, 0
	}
	if h.leaf(e).escape() != 0 {
		return e, escaped, 0
	}
	at, rest = h.leaf(e).lowest(size)
	return e, at, rest
}

// highestOf is lowestOf for the highest hole.
func highestOf(h *holes, size uint32) (e uint32, at int, rest uint32) {
	if h.levels != 0 {
		e = descendTop(h.max, h.levels, size)
	} else if h.max[0] < size {
		e = none
	}
	if e == none {
		return 0, missing, 0
	}
	if h.leaf(e).escape() != 0 {
		return e, escaped, 0
	}
	at, rest = h.leaf(e).highest(size)
	return e, at, rest
}

// lowest returns which hole of a leaf is the lowest of at least size, which there must be, and how large the largest of
// the others is.
func (l *leaf) lowest(size uint32) (at int, rest uint32) {
	least := ^uint64(0)
	for i, s := range l.size {
		x := uint64(l.end[i]) | uint64(int64(uint64(s)-uint64(size))>>63)
		if x < least {
			at = i
		}
		least = min(least, x)
	}
	return at, l.rest(at)
}

// highest is lowest for the highest hole.
func (l *leaf) highest(size uint32) (at int, rest uint32) {
	most := uint64(0)
	for i, s := range l.size {
		x := uint64(l.end[i]) &^ uint64(int64(uint64(s)-uint64(size))>>63)
		if x > most {
			at = i
		}
		most = max(most, x)
	}
	return at, l.rest(at)
}

// rest returns how large the largest hole but one is.
func (l *leaf) rest(but int) uint32 {
	sizes := l.size
	sizes[but&(leafWidth-1)] = 0
	return largest(&sizes)
}

// settle writes an element of a pyramid and what follows for those above it.
func settle(m []uint32, e, size uint32) {
	for {
		m[e] = size
		if e < groupWidth {
			return
		}
		size = largest((*[groupWidth]uint32)(m[e&^(groupWidth-1):]))
		e = e>>groupBits - 1
	}
}

// around returns which holes touch a range: of the leaf that its end belongs to, and of the one that its start does.
func (l *leaf) around(before *leaf, start, end uint32) (m uint64) {
	for i, e := range l.end {
		x := is(e-l.size[i], end) | is(before.end[i], start)<<16 | is(e, 0)<<32 | ^(uint64(e)-uint64(end))>>63<<48
		m |= x << (i & 15)
	}
	return m
}

// is returns 1 if two numbers are equal, else 0.
func is(a, b uint32) uint64 { return (uint64(a^b) - 1) >> 63 }
