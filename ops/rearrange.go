package ops

import (
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// axis says which elements of a tensor lie along a dimension of a result.
type axis struct {
	from   int // dimension of the tensor
	begin  int // index of the first element taken
	step   int // to the next one
	before int // elements of the fill value before them
	taken  int // fill values follow
}

// arrangement says where each element of a result comes from.
type arrangement struct {
	axes  []axis // for each dimension of the result, of which there are as many as of the tensor
	value uint32 // of the fill value
	order bool   // both tensors have the same elements, row by row; axes don't matter
	wraps bool   // axes begin again at the end of the tensor; only pages can
}

func whole(dims []int) arrangement {
	m := arrangement{axes: make([]axis, len(dims))}
	for i, n := range dims {
		m.axes[i] = axis{from: i, step: 1, taken: n}
	}
	return m
}

// whole reports whether an axis has all of one of the tensor's dimensions.
func (x axis) whole(from, n, size int) bool {
	return x == axis{from: from, step: 1, taken: size} && n == size
}

// slotBytes limits the memory for cached pages of an operand on a core; chunkBytes is in
// kernels/rearrange.cpp.
const slotBytes, chunkBytes = 128 << 10, 64

// Keys of slots in kernels/rearrange.cpp.
const (
	byColumn = iota
	byRow
	byPage
	transposed
)

func (c *call) arrange(name, class string, args argList, s Spec, m arrangement, a *Tensor) (*Tensor, error) {
	return c.deviceOp(name, class+"DeviceOperation", args, s, func(out *Tensor) error { return c.rearrange(m, out, a) })
}

func (c *call) rearrange(m arrangement, out, a *Tensor) error {
	switch {
	case out.empty():
		return nil
	case a.empty():
		return c.fill(out, m.value)
	}
	if p, ok := m.pages(out.geometry, a.geometry); ok {
		return c.run(c.pages(p, out, a))
	}
	return c.run(m.job(out, a))
}

// fill stores a value in all elements.
func (c *call) fill(out *Tensor, value uint32) error {
	m := whole(make([]int, len(out.all)))
	m.value = value
	return c.run(m.job(out, out))
}

func (m *arrangement) job(out, a *Tensor) job {
	g, from := out.geometry, a.geometry
	tiles := from.spec.Layout == Tile
	key, chunks := byPage, false
	bytes, slots := ceil(from.pageBytes, chunkBytes)*chunkBytes, 1
	rank := len(m.axes)          // 0 for the same order
	across := func(i int) bool { // whether a dimension of the result, from the last one, leads from page to page
		k := rank - m.axes[rank-i].from
		return k > 2 || k == 2 && !tiles
	}
	switch {
	case m.transposesTiles(g, from):
		key, slots = transposed, 2
	case m.order && tiles:
		slots = from.wide * (ceil(g.dims[3], from.dims[3]) + 1)
	case m.order:
	case tiles && g.spec.Layout == RowMajor && m.axes[rank-1].from == rank-1:
		slots = from.wide
	case across(1):
		key, chunks, bytes, slots = byColumn, true, chunkBytes, g.dims[3]
	case g.spec.Layout == Tile && across(2):
		key, slots = byRow, min(g.dims[2], tileSize)
	}
	slots = max(1, min(slots, slotBytes/bytes))
	value := m.value
	if g.spec.DType == BFloat16 {
		value >>= 16
	}
	args := []uint32{value, uint32(slots), uint32(key), uint32(bytes), flag(chunks), uint32(rank)}
	for i, x := range slices.Backward(m.axes) {
		args = append(args, words(g.all[i], from.all[i], rank-1-x.from, x.begin, x.step, x.before, x.taken)...)
	}
	return job{
		program: catalog.Rearrange, out: out, in: []*Tensor{a}, args: args,
		buffers: []ring{{g.pageBytes, 1}, {slots * bytes, 1}, {4 * slots, 1}},
	}
}

func (m *arrangement) transposesTiles(out, from *geometry) bool {
	n := len(m.axes)
	if n == 0 || out.spec.Layout != Tile || from.spec.Layout != Tile {
		return false
	}
	for i, x := range m.axes[:n-2] {
		if x.before != 0 || x.taken != out.all[i] {
			return false
		}
	}
	return m.axes[n-2].whole(n-1, out.dims[2], from.dims[3]) && m.axes[n-1].whole(n-2, out.dims[3], from.dims[2])
}

// pageMap is an arrangement of whole pages.
type pageMap struct {
	axes  []pageAxis
	value uint32
	blank bool // pages of the fill value are needed
}

type pageAxis struct {
	pages    int // of the result
	distance int // from page to page in the tensor
	size     int // of the tensor
	axis
}

func (m *arrangement) pages(out, from *geometry) (*pageMap, bool) {
	if m.order && out.spec.Layout == from.spec.Layout && out.samePlaces(from) {
		n := out.pages
		return &pageMap{axes: []pageAxis{{n, 1, n, axis{step: 1, taken: n}}}}, true
	}
	if m.order || !out.equalPages(from) {
		return nil, false
	}
	unit, rank := out.units(), len(out.all)
	distance := make([]int, rank)
	for i, d := rank-1, 1; i >= 0; i-- {
		distance[i] = d
		d *= ceil(from.all[i], unit[i])
	}
	p := &pageMap{value: m.value}
	ragged := false
	for i, x := range m.axes {
		u, n, have := unit[i], out.all[i], from.all[x.from]
		if u != unit[x.from] || u > 1 && (x.from != i || x.step != 1 || x.begin%u != 0 || x.before%u != 0) {
			return nil, false
		}
		last := x.begin + (x.taken-1)*x.step + 1
		if m.wraps && last > have && have%u != 0 ||
			n%u != 0 && x.before+x.taken == n && x.taken > 0 && last != have && (last-1)%have+1 != have {
			return nil, false
		}
		if x.before+x.taken < n && x.taken%u != 0 || n%u == 0 && x.before+x.taken == n && x.taken%u != 0 {
			return nil, false
		}
		p.blank = p.blank || x.before+x.taken < n || x.before > 0
		ragged = ragged || n%u != 0
		p.add(pageAxis{ceil(n, u), distance[x.from], ceil(have, u), axis{0, x.begin / u, x.step, x.before / u, ceil(x.taken, u)}})
	}
	return p, !p.blank || !ragged || m.value == 0
}

// strided maps pages that have a distance from one to the next in the tensor along each axis. axes
// are their numbers and distances; the first page of the result is a given one of the tensor.
func strided(first int, axes [][2]int) *pageMap {
	p := &pageMap{}
	for i, x := range axes {
		begin := first * (i / (len(axes) - 1)) // on the last axis, whose distance is 1
		p.add(pageAxis{x[0], x[1], begin + x[0], axis{0, begin, 1, 0, x[0]}})
	}
	return p
}

// add adds an axis, or merges it with the one before if that has the same pages.
func (p *pageMap) add(x pageAxis) {
	if k := len(p.axes) - 1; k >= 0 {
		b := &p.axes[k]
		switch {
		case b.pages == 1 && b.whole(0, 1, b.size):
			p.axes = p.axes[:k]
			p.add(x)
			return
		case b.step == 1 && b.distance == x.size*x.distance && x.whole(0, x.pages, x.size):
			n := x.pages
			*b = pageAxis{b.pages * n, x.distance, b.size * n, axis{0, b.begin * n, 1, b.before * n, b.taken * n}}
			return
		}
	}
	p.axes = append(p.axes, x)
}

// halfBytes is the memory for pages that kernels/pages.cpp reads at a time, if more than one page
// fits; halfPages limits their number.
const halfBytes, halfPages = 16 << 10, 8

func (c *call) half(g *geometry) (pages, bytes int) {
	bytes = ceil(g.pageBytes, chunkBytes) * chunkBytes
	return min(max(1, halfBytes/bytes), halfPages, ceil(g.pages, c.q.Workers().Size())), bytes
}

func (c *call) pages(p *pageMap, out, a *Tensor) job {
	half, bytes := c.half(out.geometry)
	room := 2 * half
	if p.blank {
		room++
	}
	args := []uint32{elementWord(out.spec.DType, p.value), uint32(half), uint32(len(p.axes))}
	for _, x := range p.axes {
		args = append(args, words(x.pages, x.distance, x.size, x.begin, x.step, x.before, x.taken)...)
	}
	return job{program: catalog.Pages, args: args, out: out, in: []*Tensor{a}, buffers: []ring{{bytes, room}}}
}

func elementWord(t DataType, v uint32) uint32 {
	switch t {
	case UInt8:
		return v & 0xFF * 0x01010101
	case UInt16:
		return v & 0xFFFF * 0x10001
	case BFloat16:
		return v >> 16 * 0x10001
	}
	return v
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func reordered(shape, order []int) []int {
	out := make([]int, len(order))
	for i, k := range order {
		out[i] = shape[k]
	}
	return out
}
