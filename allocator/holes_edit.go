package allocator

import (
	"math/bits"
	"slices"
)

// Edits of the shape: how many buckets there are, and buckets with more holes than their leaf has places.

// shape makes h empty, with 1<<width buckets; a width of 0, or at least groupBits.
func (h *holes) shape(width int) {
	h.levels, h.first = 0, 0
	for w := width; w > 0; w -= groupBits {
		if h.levels > 0 {
			h.first = (h.first + 1) << groupBits // the element below the first
		}
		h.levels++
	}
	buckets := max(groupWidth, 1<<width)
	h.over = h.first + uint32(buckets)
	h.shift = uint32(bits.Len32(h.size) - width)
	h.max = resized(h.max, int(h.over))
	h.leaves = resized(h.leaves, buckets)
	h.up, h.held, h.free = h.up[:0], h.held[:0], h.free[:0]
	h.count = 0
}

// resized returns n zeros, in the memory of s if it is enough.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// buckets returns how many there are. A single one has the room of a group.
func (h *holes) buckets() int {
	if h.levels == 0 {
		return 1
	}
	return int(h.over - h.first)
}

// reshape changes the number of buckets.
func (h *holes) reshape(width int) {
	all := make([]hole, 0, h.count)
	h.each(func(start, size uint32) bool {
		all = append(all, makeHole(start+size, size))
		return true
	})
	h.shape(width)
	for _, x := range all {
		h.add(x)
	}
}

// grow doubles the buckets if one in 32 has overflown though there are two holes for each: otherwise it is because the
// holes are in one part of the space, and more buckets elsewhere don't help.
func (h *holes) grow() {
	if n := h.buckets(); h.count > 2*n && (len(h.held)-len(h.free))*32 > n {
		h.reshape(bits.Len(uint(n)))
	}
}

// shrink halves the buckets if there is not a hole for every second one.
func (h *holes) shrink() {
	switch n := h.buckets(); {
	case n == groupWidth && h.count <= leafWidth/2:
		h.reshape(0)
	case n > groupWidth && h.count < n/2:
		h.reshape(bits.Len(uint(n)) - 2)
	}
}

// add puts a hole that touches no other where it belongs.
func (h *holes) add(x hole) {
	e := h.seek(x.end())
	l := h.leaf(e)
	at := slices.Index(l.end[:], 0)
	if at < 0 {
		if h.levels == 0 {
			h.reshape(groupBits)
			h.add(x)
			return
		}
		h.overflow(e)
		h.add(x)
		h.grow()
		return
	}
	l.set(at, x)
	h.count++
	h.raise(e, x.size())
	for e >= h.over {
		h.held[(e-h.over)>>groupBits]++
		e = h.above(e)
	}
}

// remove takes hole i out of element e's leaf. It may reshape h.
func (h *holes) remove(e uint32, i int) {
	l := h.leaf(e)
	l.set(i, 0)
	h.count--
	h.settle(e, largest(&l.size))
	for e >= h.over {
		g := (e - h.over) >> groupBits
		e = h.above(e)
		if h.held[g]--; h.held[g] <= leafWidth/2 {
			h.join(g)
		}
	}
	h.shrink()
}

// overflow makes a group with leaves of its own of a leaf that is full.
func (h *holes) overflow(e uint32) {
	var g uint32
	if n := len(h.free); n > 0 {
		g = h.free[n-1]
		h.free = h.free[:n-1]
	} else {
		g = uint32(len(h.held))
		h.held, h.up = append(h.held, 0), append(h.up, 0)
		h.max = append(h.max, make([]uint32, groupWidth)...)
		h.leaves = append(h.leaves, make([]leaf, groupWidth)...)
	}
	h.up[g], h.held[g] = e, leafWidth
	to := h.over + g<<groupBits
	l := h.leaf(e)
	old := *l
	*l = leaf{}
	l.size[0] = to
	for i := range leafWidth {
		x := old.hole(i)
		c := h.seek(x.end())
		l := h.leaf(c)
		l.set(slices.Index(l.end[:], 0), x)
		h.max[c] = max(h.max[c], x.size())
	}
}

// join puts the few holes of a group back into the leaf that it stands for.
func (h *holes) join(g uint32) {
	to := h.over + g<<groupBits
	l := h.leaf(h.up[g])
	*l = leaf{}
	n := 0
	for c := to; c < to+groupWidth; c++ {
		for i := range leafWidth {
			if x := h.leaf(c).hole(i); x != 0 {
				l.set(n, x)
				n++
			}
		}
		*h.leaf(c), h.max[c] = leaf{}, 0
	}
	h.free = append(h.free, g)
}
