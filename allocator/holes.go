package allocator

import "math/bits"

// holes is the set of free ranges of an address space: an 8-way radix tree over addresses in which every node knows
// the largest hole below each of its children. Holes never touch each other. Addresses and sizes are counted in units
// from the start of the space. The zero value is not usable; see newHoles.
//
// A hole is found by its end, because a hole that gives its low part away keeps its end: the usual allocation changes
// one word of one leaf. Where a hole belongs follows from the bits of its end, so a search by address compares nothing
// on its way down; a search by size looks at one cache line per node, without a branch that depends on what is there.
type holes struct {
	nodes    []node
	leaves   []leaf   // leaves[0] stays empty and stands for all leaves that are not there
	freeNode []uint32 // recycled indexes
	freeLeaf []uint32
	root     kid
	top      uint32 // how far an address is shifted to choose among the children of a root that is a node
	count    int    // holes
	units    uint64 // sum of their sizes
}

const (
	radixBits = 3
	radix     = 1 << radixBits
	leafWidth = 31 // with the count, four cache lines
	maxDepth  = 11 // of addresses of 32 bits
)

// kid refers to a node (odd) or a leaf (even), by index. The zero kid is the empty leaf.
type kid uint32

// node is one cache line. max is 0 for an empty child.
type node struct {
	max [radix]uint32
	kid [radix]kid
}

// leaf has the holes whose ends share the bits that lead here, in ascending order.
type leaf struct {
	n    int
	hole [leafWidth]hole
}

// hole is a free range: its end in the high half, its size in the low half.
type hole uint64

func makeHole(end, size uint32) hole { return hole(end)<<32 | hole(size) }

func (e hole) end() uint32   { return uint32(e >> 32) }
func (e hole) size() uint32  { return uint32(e) }
func (e hole) start() uint32 { return e.end() - e.size() }

// path is the way from the root to a leaf: nodes by level. Which child of each follows from the address.
type path struct {
	node  [maxDepth]uint32
	depth int
	leaf  uint32
}

// newHoles returns a space of size units, all of it free.
func newHoles(size uint32) *holes {
	h := &holes{leaves: make([]leaf, 2, 4)}
	h.root = leafKid(1)
	h.top = uint32((max(bits.Len32(size), 1) - 1) / radixBits * radixBits)
	if size != 0 {
		h.leaves[1].n, h.leaves[1].hole[0] = 1, makeHole(size, size)
		h.count, h.units = 1, uint64(size)
	}
	return h
}

func leafKid(i uint32) kid { return kid(i << 1) }
func nodeKid(i uint32) kid { return kid(i<<1 | 1) }

// child returns which child of a node at a level an address belongs to.
func (h *holes) child(key uint32, level int) uint32 {
	return key >> ((h.top - uint32(level)*radixBits) & 31) & (radix - 1)
}

// seek fills p with the way to the leaf that a key belongs to.
func (h *holes) seek(key uint32, p *path) *leaf {
	k, level, shift := h.root, 0, h.top
	for k&1 != 0 {
		i := uint32(k >> 1)
		p.node[level] = i
		k = h.nodes[i].kid[key>>(shift&31)&(radix-1)]
		shift -= radixBits
		level++
	}
	p.depth, p.leaf = level, uint32(k>>1)
	return &h.leaves[p.leaf]
}

// raise records that there is a hole of at least size below p, on the way to key.
func (h *holes) raise(p *path, key, size uint32) {
	for level := p.depth - 1; level >= 0; level-- {
		m := &h.nodes[p.node[level]].max[h.child(key, level)]
		if *m >= size {
			return
		}
		*m = size
	}
}

// settle records that the largest hole of p's leaf, on the way to key, is now size.
func (h *holes) settle(p *path, key, size uint32) {
	for level := p.depth - 1; level >= 0; level-- {
		n := &h.nodes[p.node[level]]
		m := &n.max[h.child(key, level)]
		if *m == size {
			return
		}
		*m = size
		size = n.largest()
	}
}

// largest returns the size of the largest hole, 0 if there is none.
func (h *holes) largest() uint32 {
	if h.root&1 != 0 {
		return h.nodes[h.root>>1].largest()
	}
	return h.leaves[h.root>>1].largest()
}

func (n *node) largest() uint32 {
	return max(max(n.max[0], n.max[1], n.max[2], n.max[3]), max(n.max[4], n.max[5], n.max[6], n.max[7]))
}

// largest of a leaf. Two running maxima don't wait for each other.
func (l *leaf) largest() uint32 {
	var a, b uint32
	s := l.hole[:l.n]
	for ; len(s) >= 2; s = s[2:] {
		a, b = max(a, s[0].size()), max(b, s[1].size())
	}
	if len(s) > 0 {
		a = max(a, s[0].size())
	}
	return max(a, b)
}

// fits returns a bit for each child that has a hole of at least size.
func (n *node) fits(size uint32) uint32 {
	m, v := &n.max, uint64(size)
	small := (uint64(m[0])-v)>>63 |
		(uint64(m[1])-v)>>63<<1 |
		(uint64(m[2])-v)>>63<<2 |
		(uint64(m[3])-v)>>63<<3 |
		(uint64(m[4])-v)>>63<<4 |
		(uint64(m[5])-v)>>63<<5 |
		(uint64(m[6])-v)>>63<<6 |
		(uint64(m[7])-v)>>63<<7
	return uint32(small ^ (1<<radix - 1))
}

// fit returns which hole of a leaf, or n if none, is the first that has at least size.
func (l *leaf) fit(size uint32) int {
	s := l.hole[:l.n]
	for i, e := range s {
		if e.size() >= size {
			return i
		}
	}
	return len(s)
}

// above returns how many holes of a leaf end below key.
func (l *leaf) above(key uint32) int {
	n := 0
	for _, e := range l.hole[:l.n] {
		_, less := bits.Sub64(uint64(e), uint64(key)<<32, 0)
		n += int(less)
	}
	return n
}

// take carves size units from the low end of the lowest hole that fits.
func (h *holes) take(size uint32) (start uint32, ok bool) {
	var p path
	k := h.root
	for k&1 != 0 {
		i := uint32(k >> 1)
		p.node[p.depth&15] = i
		n := &h.nodes[i]
		f := n.fits(size)
		if f == 0 {
			return 0, false
		}
		k = n.kid[bits.TrailingZeros32(f)&(radix-1)]
		p.depth++
	}
	p.leaf = uint32(k >> 1)
	l := &h.leaves[p.leaf]
	i := l.fit(size)
	if i >= l.n {
		return 0, false
	}
	start = l.hole[i].start()
	h.trim(&p, l, i, size)
	return start, true
}

// trim takes size units from the low end of hole i of p's leaf.
func (h *holes) trim(p *path, l *leaf, i int, size uint32) {
	h.units -= uint64(size)
	e := l.hole[i]
	if e.size() == size {
		h.remove(p, l, i)
		return
	}
	l.hole[i] = e - hole(size)
	if p.depth != 0 {
		h.settle(p, e.end(), l.largest())
	}
}

// takeTop carves size units from the high end of the highest hole that fits.
func (h *holes) takeTop(size uint32) (start uint32, ok bool) {
	var p path
	k := h.root
	for k&1 != 0 {
		i := uint32(k >> 1)
		p.node[p.depth&15] = i
		n := &h.nodes[i]
		f := n.fits(size)
		if f == 0 {
			return 0, false
		}
		k = n.kid[(bits.Len32(f)-1)&(radix-1)]
		p.depth++
	}
	p.leaf = uint32(k >> 1)
	l := &h.leaves[p.leaf]
	for i := l.n - 1; i >= 0; i-- {
		if e := l.hole[i]; e.size() >= size {
			h.trimTop(&p, l, i, size)
			return e.end() - size, true
		}
	}
	return 0, false
}

// trimTop takes size units from the high end of hole i of p's leaf, which may make it another leaf's.
func (h *holes) trimTop(p *path, l *leaf, i int, size uint32) {
	h.units -= uint64(size)
	e := l.hole[i]
	if e.size() == size {
		h.remove(p, l, i)
		return
	}
	end, left := e.end()-size, e.size()-size
	if !h.same(p, e.end(), end) {
		h.remove(p, l, i)
		h.insert(end, left)
		return
	}
	l.hole[i] = makeHole(end, left)
	if p.depth != 0 {
		h.settle(p, end, l.largest())
	}
}

// same reports whether p's leaf, to which key a led, is also key b's.
func (h *holes) same(p *path, a, b uint32) bool {
	return p.depth == 0 || (a^b)>>((h.top-uint32(p.depth-1)*radixBits)&31) == 0
}

// takeAt carves exactly [start, start+size) if one hole holds all of it.
func (h *holes) takeAt(start, size uint32) bool {
	var p path
	end := start + size
	l, i := h.next(end, &p)
	if l == nil || l.hole[i].start() > start {
		return false
	}
	e := l.hole[i]
	before, after := start-e.start(), e.end()-end
	switch {
	case after == 0:
		h.trimTop(&p, l, i, size)
	case before == 0:
		h.trim(&p, l, i, size)
	default:
		h.trim(&p, l, i, before+size)
		h.insert(start, before)
		h.units += uint64(before)
	}
	return true
}

// next returns the first hole that ends at key or above it, nil if there is none, and the way to it.
func (h *holes) next(key uint32, p *path) (*leaf, int) {
	l := h.seek(key, p)
	if i := l.above(key); i < l.n {
		return l, i
	}
	if !h.stepUp(p, key) {
		return nil, 0
	}
	return &h.leaves[p.leaf], 0
}

// stepUp moves p, which leads to key's leaf, to the next leaf above that is not empty; false if there is none.
func (h *holes) stepUp(p *path, key uint32) bool {
	for level := p.depth - 1; level >= 0; level-- {
		n := &h.nodes[p.node[level]]
		for i := h.child(key, level) + 1; i < radix; i++ {
			if n.max[i] == 0 {
				continue
			}
			k := n.kid[i]
			for level++; k&1 != 0; level++ {
				p.node[level&15] = uint32(k >> 1)
				n := &h.nodes[k>>1]
				k = n.kid[bits.TrailingZeros32(n.fits(1))&(radix-1)]
			}
			p.depth, p.leaf = level, uint32(k>>1)
			return true
		}
	}
	return false
}

// give returns [start, start+size), which must not overlap a hole, and merges it with holes that it touches.
func (h *holes) give(start, size uint32) {
	h.units += uint64(size)
	end := start + size
	var p path
	l := h.seek(end, &p)

	// The hole that ends where the range starts, if there is one.
	i := l.above(end)
	if i > 0 {
		if e := l.hole[i-1]; e.end() == start {
			i--
			size += e.size()
			// It becomes the merged hole: its end moves up, and nothing lies between.
			h.absorb(&p, l, i, end, size)
			return
		}
	} else if !h.same(&p, end, start) {
		var q path
		m := h.seek(start, &q)
		if j := m.n - 1; j >= 0 && m.hole[j].end() == start {
			size += m.hole[j].size()
			if h.remove(&q, m, j) {
				l = h.seek(end, &p)
				i = l.above(end)
			}
		}
	}

	// The hole that starts where the range ends.
	if i < l.n {
		if e := l.hole[i]; e.start() == end {
			size += e.size()
			l.hole[i] = makeHole(e.end(), size)
			h.raise(&p, end, size)
			return
		}
	} else if p.depth != 0 {
		q := p
		if h.stepUp(&q, end) {
			if m := &h.leaves[q.leaf]; m.hole[0].start() == end {
				e := m.hole[0]
				size += e.size()
				m.hole[0] = makeHole(e.end(), size)
				h.raise(&q, e.end(), size)
				return
			}
		}
	}
	h.insertAt(&p, l, i, end, size)
}

// absorb makes hole i of p's leaf end at end with a size, and merges it with the hole above it if they touch.
func (h *holes) absorb(p *path, l *leaf, i int, end, size uint32) {
	if i+1 < l.n {
		if e := l.hole[i+1]; e.start() == end {
			size += e.size()
			l.hole[i+1] = makeHole(e.end(), size)
			h.count--
			l.n--
			copy(l.hole[i:l.n], l.hole[i+1:])
			h.raise(p, end, size)
			return
		}
	} else if p.depth != 0 {
		q := *p
		if h.stepUp(&q, end) {
			if m := &h.leaves[q.leaf]; m.hole[0].start() == end {
				e := m.hole[0]
				size += e.size()
				m.hole[0] = makeHole(e.end(), size)
				h.raise(&q, e.end(), size)
				h.remove(p, l, i)
				return
			}
		}
	}
	l.hole[i] = makeHole(end, size)
	h.raise(p, end, size)
}

// each calls f for every hole in ascending order until it returns false.
func (h *holes) each(f func(start, size uint32) bool) { h.walk(h.root, f) }

func (h *holes) walk(k kid, f func(start, size uint32) bool) bool {
	if k&1 != 0 {
		for _, c := range h.nodes[k>>1].kid {
			if !h.walk(c, f) {
				return false
			}
		}
		return true
	}
	l := &h.leaves[k>>1]
	for _, e := range l.hole[:l.n] {
		if !f(e.start(), e.size()) {
			return false
		}
	}
	return true
}
