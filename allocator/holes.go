package allocator

import (
	"slices"
)

// holes is the set of free ranges of an address space, which never touch each other, in units: a
// sorted list, cut into chunks of at most chunkWidth, of which a full one is cut in two and half
// empty ones are joined. A directory has each chunk's last address and largest hole, and most the
// largest hole of every groupWidth chunks, so that the lowest hole that fits is found by skipping.
type holes struct {
	dir    []chunkEntry
	most   []uint32 // of each group, its largest hole's size
	chunks []chunk
	unused []uint32 // chunks that dir doesn't name
	count  int
	units  uint64
}

const (
	chunkWidth = 32 // most holes of a chunk
	groupWidth = 16 // chunks of a group
)

type chunk [chunkWidth]hole

type chunkEntry struct {
	end   uint32
	most  uint32
	chunk uint32
	n     uint32
}

// hole is a free range: its end in the high half, its size in the low half. Neither is 0.
type hole uint64

func makeHole(end, size uint32) hole { return hole(end)<<32 | hole(size) }

func (x hole) end() uint32   { return uint32(x >> 32) }
func (x hole) size() uint32  { return uint32(x) }
func (x hole) start() uint32 { return x.end() - x.size() }

type place struct{ c, i int }

func newHoles(size uint32) *holes {
	h := &holes{}
	if size != 0 {
		h.give(0, size)
	}
	return h
}

func (h *holes) of(c int) []hole {
	e := &h.dir[c]
	return h.chunks[e.chunk][:e.n]
}

func (h *holes) largest() uint32 {
	m := uint32(0)
	for _, v := range h.most {
		m = max(m, v)
	}
	return m
}

func (h *holes) lowest(size uint32) (p place, ok bool) {
	for g, m := range h.most {
		if m < size {
			continue
		}
		p.c = g * groupWidth
		for h.dir[p.c].most < size {
			p.c++
		}
		all := h.of(p.c)
		for all[p.i].size() < size {
			p.i++
		}
		return p, true
	}
	return p, false
}

func (h *holes) highest(size uint32) (p place, ok bool) {
	for g := len(h.most) - 1; g >= 0; g-- {
		if h.most[g] < size {
			continue
		}
		p.c = min((g+1)*groupWidth, len(h.dir)) - 1
		for h.dir[p.c].most < size {
			p.c--
		}
		all := h.of(p.c)
		p.i = len(all) - 1
		for all[p.i].size() < size {
			p.i--
		}
		return p, true
	}
	return p, false
}

// from returns the place of the first hole that ends at key or above, else after the last hole.
func (h *holes) from(key uint32) (p place) {
	if len(h.dir) == 0 {
		return p
	}
	// Binary searches without branches, which would be unpredictable.
	for n := len(h.dir) - 1; n > 0; {
		half := (n + 1) / 2
		p.c += half & below(h.dir[p.c+half-1].end, key)
		n -= half
	}
	all := h.of(p.c)
	for n := len(all); n > 0; {
		half := (n + 1) / 2
		p.i += half & below(all[p.i+half-1].end(), key)
		n -= half
	}
	return p
}

// below returns all ones if v is below key, else 0.
func below(v, key uint32) int { return int((int64(v) - int64(key)) >> 63) }

// take takes units from the start of the hole that a policy picks, or from the top down from its
// end.
func (h *holes) take(p Policy, size uint32, topDown bool) (start uint32, ok bool) {
	at, ok := h.pick(p, size, topDown)
	if !ok {
		return 0, false
	}
	x := h.of(at.c)[at.i]
	if start = x.start(); topDown {
		start = x.end() - size
	}
	h.trim(at, size, topDown)
	return start, true
}

func (h *holes) takeAt(start, size uint32) bool {
	end := start + size
	p := h.from(end)
	if len(h.dir) == 0 || p.i == len(h.of(p.c)) {
		return false
	}
	x := h.of(p.c)[p.i]
	if x.start() > start {
		return false
	}
	switch after := x.end() - end; {
	case after == 0:
		h.trim(p, size, true)
	case x.start() == start:
		h.trim(p, size, false)
	default:
		h.trim(p, x.size()-after, false)
		before := start - x.start()
		h.insert(p, makeHole(start, before))
		h.units += uint64(before)
	}
	return true
}

func (h *holes) trim(p place, size uint32, top bool) {
	h.units -= uint64(size)
	x := h.of(p.c)[p.i]
	end := x.end()
	if top {
		end -= size
	}
	h.set(p, end, x.size()-size)
}

func (h *holes) give(start, size uint32) {
	h.units += uint64(size)
	end := start + size
	p := h.from(start)
	if len(h.dir) == 0 || p.i == len(h.of(p.c)) {
		h.insert(p, makeHole(end, size))
		return
	}
	x := h.of(p.c)[p.i]
	switch {
	case x.end() == start:
		next := h.next(p)
		if next.c < len(h.dir) {
			if y := h.of(next.c)[next.i]; y.start() == end {
				h.set(p, y.end(), x.size()+size+y.size())
				h.remove(next)
				return
			}
		}
		h.set(p, end, x.size()+size)
	case x.start() == end:
		h.set(p, x.end(), x.size()+size)
	default:
		h.insert(p, makeHole(end, size))
	}
}

// next may return a place in a chunk that doesn't exist: after the last hole.
func (h *holes) next(p place) place {
	if p.i++; p.i == int(h.dir[p.c].n) {
		return place{c: p.c + 1}
	}
	return p
}

// set changes a hole without changing its order. A size of 0 removes it.
func (h *holes) set(p place, end, size uint32) {
	if size == 0 {
		h.remove(p)
		return
	}
	e := &h.dir[p.c]
	all := h.chunks[e.chunk][:e.n]
	old := all[p.i].size()
	all[p.i] = makeHole(end, size)
	if p.i == len(all)-1 {
		e.end = end
	}
	switch {
	case size >= e.most:
		h.setMost(p.c, size)
	case old == e.most:
		h.setMost(p.c, largestOf(all))
	}
}

func largestOf(all []hole) uint32 {
	a, b := uint32(0), uint32(0) // two chains of comparisons take half as long
	for ; len(all) >= 2; all = all[2:] {
		a, b = max(a, all[0].size()), max(b, all[1].size())
	}
	if len(all) > 0 {
		a = max(a, all[0].size())
	}
	return max(a, b)
}

func (h *holes) setMost(c int, size uint32) {
	old, g := h.dir[c].most, c/groupWidth
	h.dir[c].most = size
	switch {
	case size >= h.most[g]:
		h.most[g] = size
	case old == h.most[g]:
		h.most[g] = h.largestIn(g)
	}
}

func (h *holes) largestIn(g int) uint32 {
	m := uint32(0)
	for _, e := range h.dir[g*groupWidth : min((g+1)*groupWidth, len(h.dir))] {
		m = max(m, e.most)
	}
	return m
}

func (h *holes) insert(p place, x hole) {
	if len(h.dir) == 0 {
		h.insertChunk(0, nil)
	} else if h.dir[p.c].n == chunkWidth {
		all := h.of(p.c)
		h.insertChunk(p.c+1, all[chunkWidth/2:])
		h.dir[p.c].n = chunkWidth / 2
		h.settle(p.c)
		if p.i > chunkWidth/2 {
			p = place{p.c + 1, p.i - chunkWidth/2}
		}
	}
	e := &h.dir[p.c]
	e.n++
	h.count++
	all := h.chunks[e.chunk][:e.n]
	copy(all[p.i+1:], all[p.i:])
	all[p.i] = x
	e.end = all[len(all)-1].end()
	if x.size() > e.most {
		h.setMost(p.c, x.size())
	}
}

func (h *holes) remove(p place) {
	e := &h.dir[p.c]
	h.count--
	all := h.chunks[e.chunk][:e.n]
	old := all[p.i].size()
	copy(all[p.i:], all[p.i+1:])
	if e.n--; e.n == 0 {
		h.removeChunk(p.c)
		return
	}
	all = all[:e.n]
	e.end = all[len(all)-1].end()
	if old == e.most {
		h.setMost(p.c, largestOf(all))
	}
	switch {
	case p.c > 0 && h.dir[p.c-1].n+e.n <= chunkWidth/2:
		h.join(p.c - 1)
	case p.c+1 < len(h.dir) && e.n+h.dir[p.c+1].n <= chunkWidth/2:
		h.join(p.c)
	}
}

func (h *holes) join(c int) {
	e, more := &h.dir[c], h.of(c+1)
	copy(h.chunks[e.chunk][e.n:], more)
	e.n += uint32(len(more))
	h.settle(c)
	h.removeChunk(c + 1)
}

func (h *holes) settle(c int) {
	all := h.of(c)
	h.dir[c].end = all[len(all)-1].end()
	h.setMost(c, largestOf(all))
}

// The caller settles an empty chunk.
func (h *holes) insertChunk(c int, all []hole) {
	e := chunkEntry{n: uint32(len(all))}
	if n := len(h.unused); n > 0 {
		e.chunk = h.unused[n-1]
		h.unused = h.unused[:n-1]
	} else {
		e.chunk = uint32(len(h.chunks))
		h.chunks = append(h.chunks, chunk{})
	}
	copy(h.chunks[e.chunk][:], all)
	if len(all) > 0 {
		e.end, e.most = all[len(all)-1].end(), largestOf(all)
	}
	h.dir = slices.Insert(h.dir, c, e)
	h.regroup(c)
}

func (h *holes) removeChunk(c int) {
	h.unused = append(h.unused, h.dir[c].chunk)
	h.dir = slices.Delete(h.dir, c, c+1)
	h.regroup(c)
}

func (h *holes) regroup(c int) {
	groups := (len(h.dir) + groupWidth - 1) / groupWidth
	h.most = slices.Grow(h.most[:min(len(h.most), groups)], 1)[:groups]
	for g := c / groupWidth; g < groups; g++ {
		h.most[g] = h.largestIn(g)
	}
}

func (h *holes) each(f func(start, size uint32) bool) {
	for c := range h.dir {
		for _, x := range h.of(c) {
			if !f(x.start(), x.size()) {
				return
			}
		}
	}
}

func (h *holes) clone() *holes {
	c := *h
	c.dir, c.most = slices.Clone(h.dir), slices.Clone(h.most)
	c.chunks, c.unused = slices.Clone(h.chunks), slices.Clone(h.unused)
	return &c
}

// Policy says which of the large enough holes an allocation takes. [BestFit] may look at all holes,
// the others at one number for some hundred holes.
type Policy uint8

// Of equal holes the lowest is taken, or the highest from the top down.
const (
	FirstFit Policy = iota // the lowest hole: repeatable addresses, and the other end stays free
	BestFit
	WorstFit

	numPolicies
)

func (p Policy) String() string {
	return nameOf([]string{"first fit", "best fit", "worst fit"}, p, "policy")
}

func (h *holes) pick(p Policy, size uint32, topDown bool) (at place, ok bool) {
	switch {
	case p == BestFit:
		return h.best(size, topDown)
	case p == WorstFit:
		size = max(size, h.largest())
	}
	if topDown {
		return h.highest(size)
	}
	return h.lowest(size)
}

func (h *holes) best(size uint32, last bool) (found place, ok bool) {
	least := uint32(0)
	for c := range h.dir {
		if h.dir[c].most < size {
			continue
		}
		for i, x := range h.of(c) {
			if x.size() < size || ok && (x.size() > least || x.size() == least && !last) {
				continue
			}
			found, least, ok = place{c, i}, x.size(), true
			if least == size && !last {
				return found, true
			}
		}
	}
	return found, ok
}
