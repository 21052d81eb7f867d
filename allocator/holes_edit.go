package allocator

// Edits of the tree of holes. Each takes the way to the leaf and leaves the tree's order and maxima right; a path is
// stale after insert and remove.

// resize sets the size of hole i of p's leaf.
func (h *holes) resize(p *path, i int, size uint64) {
	l := &h.leaves[p.leaf]
	old := l.size[i]
	l.size[i] = size
	if h.depth == 0 {
		return
	}
	up := h.depth - 1
	b := &h.branches[p.node[up]]
	have := b.max[p.at[up]]
	switch {
	case size >= have:
		h.raise(p, size)
	case old == have:
		h.lower(p, up, maxOf(l.size[:l.n]))
	}
}

// advance moves the start of hole i of p's leaf up by less than the hole's size. A hole can reach past the bound at
// which the next leaf begins, if it grew by a merge; its start must not, or it could not be found again.
func (h *holes) advance(p *path, i int, by uint64) {
	l := &h.leaves[p.leaf]
	l.addr[i] += by
	if i+1 < l.n {
		return
	}
	for up := h.depth - 1; up >= 0; up-- {
		if b, next := &h.branches[p.node[up]], p.at[up]+1; next < b.n {
			b.low[next] = max(b.low[next], l.addr[i]+1)
			return
		}
	}
}

// raise records that p's leaf now has a hole of at least size.
func (h *holes) raise(p *path, size uint64) {
	for up := h.depth - 1; up >= 0; up-- {
		m := &h.branches[p.node[up]].max[p.at[up]]
		if *m >= size {
			return
		}
		*m = size
	}
}

// lower records that the largest hole below p's child at a level is now m, which is at most what it was.
func (h *holes) lower(p *path, level int, m uint64) {
	for ; level >= 0; level-- {
		b := &h.branches[p.node[level]]
		old := b.max[p.at[level]]
		if old == m {
			return
		}
		b.max[p.at[level]] = m
		if level > 0 {
			if h.branches[p.node[level-1]].max[p.at[level-1]] != old {
				return // another child is larger
			}
			m = maxOf(b.max[:b.n])
		}
	}
}

// insert adds a hole as number i of p's leaf.
func (h *holes) insert(p *path, i int, addr, size uint64) {
	h.count++
	l := &h.leaves[p.leaf]
	if l.n < leafWidth {
		l.insert(i, addr, size)
		h.raise(p, size)
		return
	}
	right := h.newLeaf()
	l = &h.leaves[p.leaf] // newLeaf may have moved it
	r := &h.leaves[right]
	const half = leafWidth / 2
	r.n = copy(r.addr[:], l.addr[half:])
	copy(r.size[:], l.size[half:])
	l.n = half
	r.prev, r.next, l.next = p.leaf, l.next, right
	if r.next != none {
		h.leaves[r.next].prev = right
	}
	if i <= half {
		l.insert(i, addr, size)
	} else {
		r.insert(i-half, addr, size)
	}
	h.split(p, h.depth-1, p.leaf, right, r.addr[0], maxOf(l.size[:l.n]), maxOf(r.size[:r.n]))
}

func (l *leaf) insert(i int, addr, size uint64) {
	copy(l.addr[i+1:l.n+1], l.addr[i:l.n])
	copy(l.size[i+1:l.n+1], l.size[i:l.n])
	l.addr[i], l.size[i] = addr, size
	l.n++
}

// split records that p's child at a level has become left and right, right starting at low.
func (h *holes) split(p *path, level int, left, right uint32, low, leftMax, rightMax uint64) {
	if level < 0 {
		root := h.newBranch()
		b := &h.branches[root]
		b.n = 2
		b.child[0], b.child[1] = left, right
		b.max[0], b.max[1] = leftMax, rightMax
		b.low[1] = low
		h.root = root
		h.depth++
		return
	}
	id, at := p.node[level], p.at[level]
	b := &h.branches[id]
	b.max[at] = leftMax
	if b.n < branchWidth {
		b.insert(at+1, right, low, rightMax)
		h.refresh(p, level)
		return
	}
	other := h.newBranch()
	b = &h.branches[id]
	r := &h.branches[other]
	const half = branchWidth / 2
	r.n = copy(r.low[:], b.low[half:])
	copy(r.max[:], b.max[half:])
	copy(r.child[:], b.child[half:])
	b.n = half
	if at+1 <= half {
		b.insert(at+1, right, low, rightMax)
	} else {
		r.insert(at+1-half, right, low, rightMax)
	}
	h.split(p, level-1, id, other, r.low[0], maxOf(b.max[:b.n]), maxOf(r.max[:r.n]))
}

func (b *branch) insert(i int, child uint32, low, m uint64) {
	copy(b.low[i+1:b.n+1], b.low[i:b.n])
	copy(b.max[i+1:b.n+1], b.max[i:b.n])
	copy(b.child[i+1:b.n+1], b.child[i:b.n])
	b.low[i], b.max[i], b.child[i] = low, m, child
	b.n++
}

// refresh carries the maximum of p's branch at a level up to the root.
func (h *holes) refresh(p *path, level int) {
	for ; level > 0; level-- {
		b := &h.branches[p.node[level]]
		m := maxOf(b.max[:b.n])
		above := &h.branches[p.node[level-1]].max[p.at[level-1]]
		if *above == m {
			return
		}
		*above = m
	}
}

// remove takes hole i out of p's leaf. Nodes that run empty go away, and neighbours of which one half of a node is
// enough are joined, so that the tree stays as small as what it holds.
func (h *holes) remove(p *path, i int) {
	h.count--
	l := &h.leaves[p.leaf]
	old := l.size[i]
	copy(l.addr[i:], l.addr[i+1:l.n])
	copy(l.size[i:], l.size[i+1:l.n])
	l.n--
	if h.depth == 0 {
		return
	}
	up := h.depth - 1
	b := &h.branches[p.node[up]]
	at := p.at[up]
	if l.n == 0 {
		h.unlink(p.leaf)
		h.freeLeaf = append(h.freeLeaf, p.leaf)
		h.cut(p, up)
		return
	}
	if old == b.max[at] {
		h.lower(p, up, maxOf(l.size[:l.n]))
	}
	if l.n > leafWidth/4 {
		return
	}
	if at+1 < b.n && l.n+h.leaves[b.child[at+1]].n <= leafWidth/2 {
		at++
	} else if at == 0 || l.n+h.leaves[b.child[at-1]].n > leafWidth/2 {
		return
	}
	// Join child at into child at-1.
	left, right := b.child[at-1], b.child[at]
	a, c := &h.leaves[left], &h.leaves[right]
	copy(a.addr[a.n:], c.addr[:c.n])
	copy(a.size[a.n:], c.size[:c.n])
	a.n += c.n
	b.max[at-1] = max(b.max[at-1], b.max[at])
	h.unlink(right)
	h.freeLeaf = append(h.freeLeaf, right)
	p.at[up] = at
	h.cut(p, up)
}

// unlink takes a leaf out of the chain of leaves.
func (h *holes) unlink(id uint32) {
	l := &h.leaves[id]
	if l.prev != none {
		h.leaves[l.prev].next = l.next
	}
	if l.next != none {
		h.leaves[l.next].prev = l.prev
	}
}

// cut removes p's child at a level from its branch; the child itself has been recycled.
func (h *holes) cut(p *path, level int) {
	id, at := p.node[level], p.at[level]
	b := &h.branches[id]
	copy(b.low[at:], b.low[at+1:b.n])
	copy(b.max[at:], b.max[at+1:b.n])
	copy(b.child[at:], b.child[at+1:b.n])
	b.n--
	if level == 0 {
		for h.depth > 0 && h.branches[h.root].n == 1 { // a root with one child is not needed
			h.freeBr = append(h.freeBr, h.root)
			h.root = h.branches[h.root].child[0]
			h.depth--
		}
		return
	}
	up := &h.branches[p.node[level-1]]
	ua := p.at[level-1]
	if b.n == 0 {
		h.freeBr = append(h.freeBr, id)
		h.cut(p, level-1)
		return
	}
	h.refresh(p, level)
	if b.n > branchWidth/4 {
		return
	}
	if ua+1 < up.n && b.n+h.branches[up.child[ua+1]].n <= branchWidth/2 {
		ua++
	} else if ua == 0 || b.n+h.branches[up.child[ua-1]].n > branchWidth/2 {
		return
	}
	left, right := up.child[ua-1], up.child[ua]
	a, c := &h.branches[left], &h.branches[right]
	c.low[0] = up.low[ua] // in its old place the first low was implied by the branch above
	copy(a.low[a.n:], c.low[:c.n])
	copy(a.max[a.n:], c.max[:c.n])
	copy(a.child[a.n:], c.child[:c.n])
	a.n += c.n
	up.max[ua-1] = max(up.max[ua-1], up.max[ua])
	h.freeBr = append(h.freeBr, right)
	p.at[level-1] = ua
	h.cut(p, level-1)
}

func (h *holes) newLeaf() uint32 {
	if n := len(h.freeLeaf); n > 0 {
		id := h.freeLeaf[n-1]
		h.freeLeaf = h.freeLeaf[:n-1]
		h.leaves[id] = leaf{}
		return id
	}
	h.leaves = append(h.leaves, leaf{})
	return uint32(len(h.leaves) - 1)
}

func (h *holes) newBranch() uint32 {
	if n := len(h.freeBr); n > 0 {
		id := h.freeBr[n-1]
		h.freeBr = h.freeBr[:n-1]
		h.branches[id] = branch{}
		return id
	}
	h.branches = append(h.branches, branch{})
	return uint32(len(h.branches) - 1)
}
