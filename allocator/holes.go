package allocator

// holes is the set of free ranges of an address space: a B+ tree ordered by address whose branches know the largest
// hole below them. Holes never touch each other. The zero value is not usable; see newHoles.
type holes struct {
	leaves   []leaf
	branches []branch
	freeLeaf []uint32 // recycled indexes
	freeBr   []uint32
	root     uint32 // a leaf if depth is 0, else a branch
	depth    int    // levels of branches
	count    int    // holes
	bytes    uint64 // sum of their sizes
}

// Widths from 16 to 64 measure alike; with these a node's keys span few cache lines, and 100,000 holes need two levels
// of branches.
const (
	leafWidth   = 32
	branchWidth = 64
	maxDepth    = 12 // 2^64 bytes could not fill it
	none        = ^uint32(0)
)

// leaf holds holes in ascending order of address.
type leaf struct {
	n          int
	prev, next uint32 // neighbouring leaves, none at the ends
	addr       [leafWidth]uint64
	size       [leafWidth]uint64
}

// branch holds nodes in ascending order. All addresses of child i>0 and later are at least low[i]; max[i] is the
// largest hole below child i.
type branch struct {
	n     int
	low   [branchWidth]uint64
	max   [branchWidth]uint64
	child [branchWidth]uint32
}

// path is the way from the root to a leaf: at level l, child at[l] of branch node[l].
type path struct {
	node [maxDepth]uint32
	at   [maxDepth]int
	leaf uint32
}

func newHoles(addr, size uint64) *holes {
	h := &holes{leaves: make([]leaf, 1, 4)}
	h.leaves[0].prev, h.leaves[0].next = none, none
	if size != 0 {
		l := &h.leaves[0]
		l.n, l.addr[0], l.size[0] = 1, addr, size
		h.count, h.bytes = 1, size
	}
	return h
}

// largest returns the size of the largest hole, 0 if there is none.
func (h *holes) largest() uint64 {
	if h.depth == 0 {
		l := &h.leaves[h.root]
		return maxOf(l.size[:l.n])
	}
	b := &h.branches[h.root]
	return maxOf(b.max[:b.n])
}

// take carves size bytes from the lowest hole that fits, at its low end, or with topDown from the highest, at its
// high end. size is not 0.
func (h *holes) take(size uint64, topDown bool) (addr uint64, ok bool) {
	var p path
	id := h.root
	for level := range h.depth {
		b := &h.branches[id]
		i := fit(b.max[:b.n], size, topDown)
		if i < 0 {
			return 0, false
		}
		p.node[level], p.at[level] = id, i
		id = b.child[i]
	}
	p.leaf = id
	l := &h.leaves[id]
	i := fit(l.size[:l.n], size, topDown)
	if i < 0 {
		return 0, false
	}
	addr = l.addr[i]
	if topDown {
		addr += l.size[i] - size
	}
	h.bytes -= size
	if l.size[i] == size {
		h.remove(&p, i)
		return addr, true
	}
	if !topDown {
		h.advance(&p, i, size)
	}
	h.resize(&p, i, l.size[i]-size)
	return addr, true
}

// takeAt carves exactly [addr, addr+size) if one hole holds all of it.
func (h *holes) takeAt(addr, size uint64) bool {
	var p path
	i := h.find(addr, &p) - 1
	if i < 0 {
		if !h.stepBack(&p) {
			return false
		}
		i = h.leaves[p.leaf].n - 1
	}
	l := &h.leaves[p.leaf]
	if i < 0 || addr-l.addr[i] >= l.size[i] || l.size[i]-(addr-l.addr[i]) < size {
		return false
	}
	before := addr - l.addr[i]
	after := l.size[i] - before - size
	h.bytes -= size
	switch {
	case before == 0 && after == 0:
		h.remove(&p, i)
	case before == 0:
		h.advance(&p, i, size)
		h.resize(&p, i, after)
	default:
		h.resize(&p, i, before)
		if after != 0 {
			j := h.find(addr+size, &p)
			h.insert(&p, j, addr+size, after)
		}
	}
	return true
}

// give returns [addr, addr+size), which must not overlap a hole, and merges it with holes that it touches.
func (h *holes) give(addr, size uint64) {
	h.bytes += size
	var p path
	i := h.find(addr, &p)
	l := &h.leaves[p.leaf]

	// A touching hole in a neighbouring leaf is rare: take it out and look again.
	if i == 0 && l.prev != none {
		if q := &h.leaves[l.prev]; q.addr[q.n-1]+q.size[q.n-1] == addr {
			addr = q.addr[q.n-1]
			size += q.size[q.n-1]
			h.drop(addr)
			i = h.find(addr, &p)
			l = &h.leaves[p.leaf]
		}
	}
	if i == l.n && l.next != none {
		if q := &h.leaves[l.next]; addr+size == q.addr[0] {
			size += q.size[0]
			h.drop(q.addr[0])
			i = h.find(addr, &p)
			l = &h.leaves[p.leaf]
		}
	}

	below := i > 0 && l.addr[i-1]+l.size[i-1] == addr
	above := i < l.n && addr+size == l.addr[i]
	switch {
	case below && above:
		more := l.size[i]
		h.resize(&p, i-1, l.size[i-1]+size+more)
		h.remove(&p, i)
	case below:
		h.resize(&p, i-1, l.size[i-1]+size)
	case above:
		l.addr[i] = addr
		h.resize(&p, i, l.size[i]+size)
	default:
		h.insert(&p, i, addr, size)
	}
}

// each calls f for every hole in ascending order until it returns false.
func (h *holes) each(f func(addr, size uint64) bool) {
	id := h.root
	for range h.depth {
		id = h.branches[id].child[0]
	}
	for ; id != none; id = h.leaves[id].next {
		l := &h.leaves[id]
		for i := range l.n {
			if !f(l.addr[i], l.size[i]) {
				return
			}
		}
	}
}

// find fills p with the way to the leaf that addr belongs to and returns the number of its holes that start at or
// below addr.
func (h *holes) find(addr uint64, p *path) int {
	id := h.root
	for level := range h.depth {
		b := &h.branches[id]
		i := upper(b.low[1:b.n], addr)
		p.node[level], p.at[level] = id, i
		id = b.child[i]
	}
	p.leaf = id
	l := &h.leaves[id]
	return upper(l.addr[:l.n], addr)
}

// stepBack moves p to the leaf before; false if there is none.
func (h *holes) stepBack(p *path) bool {
	prev := h.leaves[p.leaf].prev
	if prev == none {
		return false
	}
	h.find(h.leaves[prev].addr[0], p)
	return true
}

// drop removes the hole that starts at addr without touching the byte count.
func (h *holes) drop(addr uint64) {
	var p path
	i := h.find(addr, &p)
	h.remove(&p, i-1)
}

// upper returns how many of the ascending values are at most v. It has no branch that depends on the data.
func upper(s []uint64, v uint64) int {
	lo, n := 0, len(s)
	for n > 1 {
		half := n >> 1
		if mid := lo + half; s[mid-1] <= v {
			lo = mid
		}
		n -= half
	}
	if n == 1 && s[lo] <= v {
		lo++
	}
	return lo
}

// fit returns the first (or last) index whose value is at least v, -1 if none is.
func fit(s []uint64, v uint64, last bool) int {
	if last {
		for i := len(s) - 1; i >= 0; i-- {
			if s[i] >= v {
				return i
			}
		}
		return -1
	}
	for i, x := range s {
		if x >= v {
			return i
		}
	}
	return -1
}

// maxOf returns the largest value, 0 of none. Four running maxima don't wait for each other.
func maxOf(s []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(s) >= 4; s = s[4:] {
		a, b, c, d = max(a, s[0]), max(b, s[1]), max(c, s[2]), max(d, s[3])
	}
	for _, x := range s {
		a = max(a, x)
	}
	return max(a, b, c, d)
}
