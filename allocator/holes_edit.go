package allocator

import (
	"math"
	"math/bits"
	"slices"
)

// Edits of the shape: how many buckets there are, and buckets with more holes than their leaf has places.

// density returns how many holes a bucket gets at most, on average over its cell, and how many a cell gets, on average over the
// space, when buckets are chosen: few as long as all leaves stay in the nearest cache, and many, though some buckets will
// overflow, when the time goes into fetching leaves from a far one.
func density(holes int) (bucket, cell int) {
	switch {
	case holes < 2048:
		return 4, 4
	case holes < 16384:
		return 8, 16
	}
	return 11, 16
}

// shape makes h empty, with buckets that suit the given holes, which are in order.
func (h *holes) shape(all []hole) {
	h.levels, h.first, h.shaped = 0, 0, len(all)
	width := uint32(bits.Len32(h.size))
	cells := uint32(1)
	fill, per := density(len(all))
	if len(all) > leafWidth/2 && width > 4 {
		cells = 1 << min(max(2, bits.Len(uint(len(all)/per))), int(width)-4)
	}
	h.shift = width - uint32(bits.TrailingZeros32(cells))
	h.cells = resized(h.cells, int(cells))
	next := uint32(0)
	for i, j := 0, 0; i < len(h.cells); i++ {
		from := j
		for j < len(all) && uint64(all[j].end())>>(h.shift&63) == uint64(i) {
			j++
		}
		split := uint32(0)
		if cells > 1 && j-from > fill && h.shift > 3 {
			split = min(uint32(bits.Len(uint((j-from-1)/fill))), h.shift-3)
		}
		h.cells[i] = cell{next - uint32(i)<<split, h.shift - split}
		next += 1 << split
	}
	buckets := (next + groupWidth - 1) &^ (groupWidth - 1)
	for n := uint32(1); cells > 1 && n < buckets; n <<= groupBits {
		if h.levels > 0 {
			h.first = (h.first + 1) << groupBits // the element below the first
		}
		h.levels++
	}
	for i := range h.cells {
		h.cells[i].base += h.first
	}
	h.over = h.first + buckets
	h.max = resized(h.max, int(h.over))
	h.leaves = resized(h.leaves, int(buckets))
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

// groups returns how many are in use for what has overflown.
func (h *holes) groups() int { return len(h.held) - len(h.free) }

// reshape chooses the buckets anew.
func (h *holes) reshape() {
	var few [2 * leafWidth]hole
	all := few[:0]
	if h.count > len(few) {
		all = make([]hole, 0, h.count)
	}
	h.each(func(start, size uint32) bool {
		all = append(all, makeHole(start+size, size))
		return true
	})
	h.shape(all)
	h.spare = math.MaxInt
	for _, x := range all {
		h.add(x)
	}
	h.spare = 2*h.groups() + (int(h.over-h.first)+32)/128
}

// shrink chooses fewer buckets if there are many for the holes.
func (h *holes) shrink() {
	if h.levels != 0 && (h.count <= leafWidth/2 || h.count < h.shaped/4) {
		h.reshape()
	}
}

// add puts a hole that touches no other where it belongs.
func (h *holes) add(x hole) {
	e := h.seek(x.end())
	l := h.leaf(e)
	at := slices.Index(l.end[:], 0)
	if at < 0 {
		if h.levels == 0 {
			h.reshape()
			h.add(x)
			return
		}
		h.overflow(e)
		h.add(x)
		if h.groups() > h.spare || h.count > 2*h.shaped+leafWidth { // more than the present buckets are to blame for
			h.reshape()
		}
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
	*l = overflown(to)
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
