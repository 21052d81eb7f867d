package allocator

// Edits of the tree's shape: leaves that overflow become nodes, and nodes whose children fit one leaf become leaves.

// insert adds a hole that touches no other.
func (h *holes) insert(end, size uint32) {
	var p path
	l := h.seek(end, &p)
	h.insertAt(&p, l, l.above(end), end, size)
}

// insertAt adds a hole as number i of p's leaf.
func (h *holes) insertAt(p *path, l *leaf, i int, end, size uint32) {
	for l.n == leafWidth {
		h.split(p, end)
		l = h.seek(end, p)
		i = l.above(end)
	}
	if p.leaf == 0 {
		p.leaf = h.newLeaf()
		l = &h.leaves[p.leaf]
		h.link(p, end, leafKid(p.leaf))
	}
	h.count++
	copy(l.hole[i+1:l.n+1], l.hole[i:l.n])
	l.hole[i] = makeHole(end, size)
	l.n++
	h.raise(p, end, size)
}

// link makes k what the last node of p has for key.
func (h *holes) link(p *path, key uint32, k kid) {
	if p.depth == 0 {
		h.root = k
		return
	}
	h.nodes[p.node[p.depth-1]].kid[h.child(key, p.depth-1)] = k
}

// split makes p's leaf, which is full, a node with its holes in leaves of their own.
func (h *holes) split(p *path, key uint32) {
	id := h.newNode()
	n := &h.nodes[id]
	old := h.leaves[p.leaf]
	h.recycle(p.leaf)
	for _, e := range old.hole[:old.n] {
		c := h.child(e.end(), p.depth)
		if n.kid[c] == 0 {
			n.kid[c] = leafKid(h.newLeaf())
		}
		l := &h.leaves[n.kid[c]>>1]
		l.hole[l.n] = e
		l.n++
		n.max[c] = max(n.max[c], e.size())
	}
	h.link(p, key, nodeKid(id))
}

// remove takes hole i out of p's leaf. It reports whether other paths are stale.
func (h *holes) remove(p *path, l *leaf, i int) (reshaped bool) {
	key := l.hole[i].end()
	h.count--
	l.n--
	copy(l.hole[i:l.n], l.hole[i+1:])
	if p.depth == 0 {
		return false
	}
	h.settle(p, key, l.largest())
	if l.n > 1 {
		return false
	}
	if l.n == 0 {
		h.recycle(p.leaf)
		h.link(p, key, 0)
		reshaped = true
	}
	for p.depth > 0 && h.join(p, key) {
		reshaped = true
	}
	return reshaped
}

// join makes the last node of p a leaf if its children are leaves with so few holes that one leaf holds twice of them,
// and p the way there.
func (h *holes) join(p *path, key uint32) bool {
	id := p.node[p.depth-1]
	n := &h.nodes[id]
	sum := 0
	for _, k := range n.kid {
		if k&1 != 0 {
			return false
		}
		sum += h.leaves[k>>1].n
	}
	if sum > leafWidth/2 {
		return false
	}
	to := h.newLeaf()
	l := &h.leaves[to]
	for _, k := range n.kid {
		if k != 0 {
			from := &h.leaves[k>>1]
			l.n += copy(l.hole[l.n:], from.hole[:from.n])
			h.recycle(uint32(k >> 1))
		}
	}
	h.freeNode = append(h.freeNode, id)
	p.depth--
	p.leaf = to
	h.link(p, key, leafKid(to))
	return true
}

// recycle empties a leaf that is no longer part of the tree.
func (h *holes) recycle(id uint32) {
	h.leaves[id].n = 0
	h.freeLeaf = append(h.freeLeaf, id)
}

// newLeaf returns an empty leaf.
func (h *holes) newLeaf() uint32 {
	if n := len(h.freeLeaf); n > 0 {
		id := h.freeLeaf[n-1]
		h.freeLeaf = h.freeLeaf[:n-1]
		return id
	}
	h.leaves = append(h.leaves, leaf{})
	return uint32(len(h.leaves) - 1)
}

// newNode returns a node without children.
func (h *holes) newNode() uint32 {
	if n := len(h.freeNode); n > 0 {
		id := h.freeNode[n-1]
		h.freeNode = h.freeNode[:n-1]
		h.nodes[id] = node{}
		return id
	}
	h.nodes = append(h.nodes, node{})
	return uint32(len(h.nodes) - 1)
}
