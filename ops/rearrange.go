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
	axes  [4]axis
	value uint32 // of the fill value
	order bool   // both tensors have the same elements, row by row; axes don't matter
	wraps bool   // axes begin again at the end of the tensor
}

func whole(dims [4]int) arrangement {
	var m arrangement
	for i, n := range dims {
		m.axes[i] = axis{from: i, step: 1, taken: n}
	}
	return m
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
	if p, ok := m.pages(out.geometry, a.geometry); ok {
		return c.run(c.pages(p, out, a))
	}
	return c.run(m.job(out, a))
}

func (m *arrangement) job(out, a *Tensor) job {
	g, from := out.geometry, a.geometry
	tiles := from.spec.Layout == Tile
	key, chunks := byPage, false
	bytes, slots := ceil(from.pageBytes, chunkBytes)*chunkBytes, 1
	outer := 3 // the first dimension inside pages of the operand
	if tiles {
		outer = 2
	}
	switch {
	case m.transposesTiles(g, from):
		key, slots = transposed, 2
	case m.order && tiles:
		slots = from.wide * (ceil(g.dims[3], from.dims[3]) + 1)
	case !m.order && tiles && g.spec.Layout == RowMajor && m.axes[3].from == 3:
		slots = from.wide
	case m.order:
	case m.axes[3].from < outer:
		key, chunks, bytes, slots = byColumn, true, chunkBytes, g.dims[3]
	case g.spec.Layout == Tile && m.axes[2].from < outer:
		key, slots = byRow, min(g.dims[2], tileSize)
	}
	slots = max(1, min(slots, slotBytes/bytes))
	value := m.value
	if g.spec.DType == BFloat16 {
		value >>= 16
	}
	return job{
		program: catalog.Rearrange, out: out, in: []*Tensor{a},
		args:    append(axisWords(m.axes), value, uint32(slots), uint32(key), uint32(bytes), flag(chunks), flag(m.order)),
		buffers: []ring{{g.pageBytes, 1}, {slots * bytes, 1}, {4 * slots, 1}},
	}
}

// axisWords returns axes as kernel arguments, field by field.
func axisWords(axes [4]axis) []uint32 {
	out := make([]uint32, 20, 32)
	for i, x := range axes {
		for k, n := range [5]int{x.from, x.begin, x.step, x.before, x.taken} {
			out[4*k+i] = uint32(n)
		}
	}
	return out
}

func (m *arrangement) transposesTiles(out, from *geometry) bool {
	whole := func(x axis, dim int) bool {
		return x.from == dim && x.begin == 0 && x.step == 1 && x.before == 0 && x.taken == from.dims[dim]
	}
	n, c := m.axes[0], m.axes[1]
	return !m.order && out.spec.Layout == Tile && from.spec.Layout == Tile && whole(m.axes[2], 3) && whole(m.axes[3], 2) &&
		n.before == 0 && n.taken == out.dims[0] && c.before == 0 && c.taken == out.dims[1]
}

// pageMap is an arrangement of whole pages.
type pageMap struct {
	axes     [4]axis
	pages    [4]int // of the result
	size     [4]int // of the tensor, by dimension of the result
	distance [4]int // from page to page in the tensor, by dimension of the result
	value    uint32
	blank    bool // pages of the fill value are needed
}

func (m *arrangement) pages(out, from *geometry) (*pageMap, bool) {
	if m.order && out.spec.Layout == from.spec.Layout && out.samePlaces(from) {
		n := out.pages
		return &pageMap{axes: whole([4]int{1, 1, 1, n}).axes, pages: [4]int{1, 1, 1, n}, size: [4]int{1, 1, 1, n},
			distance: [4]int{3: 1}}, true
	}
	if m.order || !out.equalPages(from) {
		return nil, false
	}
	unit := out.units()
	p := &pageMap{value: m.value}
	ragged := false
	for i, x := range m.axes {
		u, n, have := unit[i], out.dims[i], from.dims[x.from]
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
		p.axes[i] = axis{x.from, x.begin / u, x.step, x.before / u, ceil(x.taken, u)}
		p.pages[i], p.size[i] = ceil(n, u), ceil(have, u)
		p.distance[i] = [4]int{from.dims[1] * from.high * from.wide, from.high * from.wide, from.wide, 1}[x.from]
	}
	return p, !p.blank || !ragged || m.value == 0
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
	return job{
		program: catalog.Pages, out: out, in: []*Tensor{a}, buffers: []ring{{bytes, room}},
		args: slices.Concat(words(p.pages[:]...), words(p.distance[:]...), words(p.size[:]...), axisWords(p.axes)[4:],
			[]uint32{elementWord(out.spec.DType, p.value), uint32(half)}),
	}
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

func permuted(dims, order [4]int) arrangement {
	m := whole(dims)
	for i, k := range order {
		m.axes[i] = axis{from: k, step: 1, taken: dims[k]}
	}
	return m
}

func order4(order []int) [4]int {
	d := [4]int{0, 1, 2, 3}
	for i, k := range order {
		d[4-len(order)+i] = k + 4 - len(order)
	}
	return d
}

func isOrder(order []int) bool {
	s := slices.Sorted(slices.Values(order))
	for i, k := range s {
		if i != k {
			return false
		}
	}
	return true
}
