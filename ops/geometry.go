package ops

import (
	"fmt"
	"slices"
	"unique"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// geometry is the layout of a tensor's elements in pages.
type geometry struct {
	spec      Spec
	kind      kind
	all       []int  // the shape, with dimensions of 1 before if there are less than four
	dims      [4]int // all but the last three dimensions are merged
	pageWidth int    // elements
	pageBytes int
	wide      int // pages in a row
	high      int // rows of pages in a matrix
	pages     int
	sharding  *allocator.ShardSpec // nil if interleaved
}

// geometry checks a spec and lays its elements out.
func (s Spec) geometry() (*geometry, error) {
	if _, err := volume(s.Shape); err != nil {
		return nil, err
	}
	if s.DType >= numDataTypes {
		return nil, typeError("invalid %v", s.DType)
	}
	if s.Layout > Tile {
		return nil, memoryError("invalid %v", s.Layout)
	}
	m := s.Memory
	if m.Kind != allocator.DRAM && m.Kind != allocator.L1 {
		return nil, memoryError("%v: tensors are in DRAM or L1", m.Kind)
	}
	g := &geometry{spec: s.clone(), kind: s.kind(), all: padded(s.Shape, 4), dims: to4D(s.Shape)}
	rows := g.dims // of elements; a tensor without elements has a page of nothing
	if g.empty() {
		rows = [4]int{1, 1, 1, max(g.dims[3], 1)}
	}
	g.pageWidth, g.high = rows[3], rows[2]
	unit := 1 // rows of a page
	switch m.Layout {
	case allocator.Interleaved:
		if m.Shard != nil {
			return nil, memoryError("an interleaved tensor has no shards")
		}
	case allocator.HeightSharded, allocator.WidthSharded, allocator.BlockSharded:
		if m.Shard == nil || m.Shard.Shape[0] < 1 || m.Shard.Shape[1] < 1 {
			return nil, memoryError("a %v tensor needs shards with a height and a width", m.Layout)
		}
		g.pageWidth = m.Shard.Shape[1]
	default:
		return nil, memoryError("%v: tensors are interleaved, height, width or block sharded", m.Layout)
	}
	if s.Layout == Tile {
		g.pageWidth, g.high, unit = tileSize, ceil(g.high, tileSize), tileSize
		if m.Shard != nil && (m.Shard.Shape[0]%tileSize != 0 || m.Shard.Shape[1]%tileSize != 0) {
			return nil, memoryError("shards of %d by %d elements: those of tiles are multiples of %d", m.Shard.Shape[0],
				m.Shard.Shape[1], tileSize)
		}
	}
	g.pageBytes = g.pageWidth * unit * s.DType.Size()
	if s.DType == BFloat8B {
		if s.Layout != Tile {
			return nil, memoryError("%v in %v: its blocks are those of tiles", s.DType, s.Layout)
		}
		g.pageBytes = blockTileBytes
	}
	g.wide = ceil(rows[3], g.pageWidth)
	high := rows[0] * rows[1] * g.high
	g.pages = high * g.wide
	if m.Shard != nil {
		g.sharding = &allocator.ShardSpec{
			Layout: m.Layout, Tensor: []int{high, g.wide}, Shard: []int{m.Shard.Shape[0] / unit, m.Shard.Shape[1] / g.pageWidth},
			Cores: slices.Clone(m.Shard.Cores),
		}
		if m.Shard.Columns {
			g.sharding.Orientation = allocator.ColMajor
		}
	}
	return g, nil
}

// equalPages reports whether pages of both tensors have the same form.
func (g *geometry) equalPages(o *geometry) bool {
	return g.spec.Layout == o.spec.Layout && g.pageBytes == o.pageBytes && g.pageWidth == o.pageWidth
}

// units returns the elements of a page along each of all dimensions.
func (g *geometry) units() []int {
	u := slices.Repeat([]int{1}, len(g.all))
	u[len(u)-1] = g.pageWidth
	if g.spec.Layout == Tile {
		u[len(u)-2] = tileSize
	}
	return u
}

func (g *geometry) empty() bool { return slices.Contains(g.dims[:], 0) }

// as returns the tensor in another shape, of which each element is at the same place.
func (t *Tensor) as(shape []int) (*Tensor, error) {
	if slices.Equal(shape, t.all) {
		return t, nil
	}
	v, s := *t, t.spec
	s.Shape = shape
	var err error
	v.geometry, err = s.geometry()
	return &v, err
}

func (g *geometry) config(name string) reprise.BufferConfig {
	c := reprise.BufferConfig{Kind: g.spec.Memory.Kind, PageSize: g.pageBytes, Name: name, Sharding: g.sharding}
	if g.sharding == nil {
		c.Size = g.pages * g.pageBytes
	}
	return c
}

// at returns the byte offset of element w of a row in the pages, and how many contiguous elements
// begin there.
func (g *geometry) at(row, w int) (off, run int) {
	size := g.spec.DType.Size()
	if g.spec.Layout == RowMajor {
		x := w % g.pageWidth
		return (row*g.wide+w/g.pageWidth)*g.pageBytes + x*size, min(g.pageWidth-x, g.dims[3]-w)
	}
	matrix, h := row/g.dims[2], row%g.dims[2]
	page := (matrix*g.high+h/tileSize)*g.wide + w/tileSize // of elements as the host has them
	in := ((h/faceSize%2*2+w/faceSize%2)*faceSize+h%faceSize)*faceSize + w%faceSize
	return page*g.hostPageBytes() + in*size, min(faceSize-w%faceSize, g.dims[3]-w)
}

// each calls f for every contiguous run of elements with its offset in the pages, its offset in the
// rows, and its length, all in bytes.
func (g *geometry) each(f func(page, row, n int)) {
	size := g.spec.DType.Size()
	for row := range product(g.dims[:3]) {
		for w := 0; w < g.dims[3]; {
			off, run := g.at(row, w)
			f(off, (row*g.dims[3]+w)*size, run*size)
			w += run
		}
	}
}

func (g *geometry) hostPageBytes() int {
	if g.spec.DType == BFloat8B {
		return tileSize * tileSize * g.spec.DType.Size()
	}
	return g.pageBytes
}

func (g *geometry) encode(rows []byte) []byte {
	pages := make([]byte, g.pages*g.hostPageBytes())
	g.each(func(page, row, n int) { copy(pages[page:page+n], rows[row:]) })
	if g.spec.DType == BFloat8B {
		return packBlocks(pages)
	}
	return pages
}

// decode copies pages to rows, which lie in the memory of into if that has room.
func (g *geometry) decode(into, pages []byte) []byte {
	if g.spec.DType == BFloat8B {
		pages = unpackBlocks(pages)
	}
	n := product(g.all) * g.spec.DType.Size()
	rows := slices.Grow(into[:0], max(n, 1))[:n] // not nil
	g.each(func(page, row, n int) { copy(rows[row:row+n], pages[page:]) })
	return rows
}

func ceil(n, by int) int { return (n + by - 1) / by }

// kind identifies a Spec.
type kind = unique.Handle[kindFields]

type kindFields struct {
	shape   [maxRank]int
	rank    int
	dtype   DataType
	layout  Layout
	memory  allocator.Kind
	place   allocator.Layout
	shard   [2]int
	columns bool
	cores   string // of shards
}

func (s Spec) kind() kind {
	k := kindFields{rank: len(s.Shape), dtype: s.DType, layout: s.Layout, memory: s.Memory.Kind, place: s.Memory.Layout}
	copy(k.shape[:], s.Shape)
	if shard := s.Memory.Shard; shard != nil {
		k.shard, k.columns, k.cores = shard.Shape, shard.Columns, fmt.Sprint(shard.Cores)
	}
	return unique.Make(k)
}

// maxConcat is the most tensors of one program, if their arguments fit.
const maxConcat = 16

// programKey identifies a program in the cache. It has no addresses: each run sets them.
type programKey struct {
	program    *catalog.Program
	transposed bool
	function   string
	kinds      [1 + maxConcat]kind // of the result and of operands
	words      [48]uint32          // arguments, after the number of the first ones
	more       string              // arguments beyond words
}

// BufferConfig returns the configuration of a buffer for a tensor with this spec. The error wraps
// [ErrShape], [ErrDataType] or [ErrMemory].
func (s Spec) BufferConfig(name string) (reprise.BufferConfig, error) {
	g, err := s.geometry()
	if err != nil {
		return reprise.BufferConfig{}, fmt.Errorf("ops: buffer configuration: %w", err)
	}
	return g.config(name), nil
}

// Encode returns the buffer's content for a host tensor of this shape and data type, with zeros in
// the padding of tiles. The error wraps [ErrShape] or [ErrDataType].
func (s Spec) Encode(h *Host) ([]byte, error) {
	g, err := s.geometry()
	if err == nil {
		err = h.check()
	}
	if err == nil {
		err = h.fits(s)
	}
	if err != nil {
		return nil, fmt.Errorf("ops: encode: %w", err)
	}
	return g.encode(h.Data), nil
}

// Decode is the inverse of [Spec.Encode]. The error wraps [ErrShape] for a content of another size.
func (s Spec) Decode(pages []byte) (*Host, error) {
	g, err := s.geometry()
	if want := 0; err == nil {
		if want = g.pages * g.pageBytes; len(pages) != want {
			err = shapeError("%d B are not the %d B of %v", len(pages), want, s)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ops: decode: %w", err)
	}
	return &Host{Shape: s.clone().Shape, DType: s.DType, Data: g.decode(nil, pages)}, nil
}

// FromBuffer returns a tensor in a buffer that the caller allocated with
// [Spec.BufferConfig] and releases. The error wraps [ErrWrongDevice], or [ErrMemory] if the buffer
// has other pages.
func (d *Device) FromBuffer(b *reprise.Buffer, s Spec) (*Tensor, error) {
	t, err := d.fromBuffer(b, s)
	if err != nil {
		return nil, &opError{"ttnn::from_buffer", err}
	}
	return t, nil
}

func (d *Device) fromBuffer(b *reprise.Buffer, s Spec) (*Tensor, error) {
	g, err := s.geometry()
	if err != nil {
		return nil, err
	}
	switch {
	case b == nil:
		return nil, memoryError("the buffer is nil")
	case b.Device() != d.dev:
		return nil, fmt.Errorf("buffer %q: %w", b.Name(), ErrWrongDevice)
	case b.FirstPage() != 0:
		return nil, memoryError("buffer %q begins at page %d of another buffer: want a buffer of its own, or one from page 0",
			b.Name(), b.FirstPage())
	case b.Kind() != s.Memory.Kind || b.PageSize() != g.pageBytes || b.Pages() != g.pages:
		return nil, memoryError("buffer %q has %d pages of %d B in %v, the tensor %d of %d B in %v: see Spec.BufferConfig", b.Name(), b.Pages(),
			b.PageSize(), b.Kind(), g.pages, g.pageBytes, s.Memory.Kind)
	case !g.dealtAs(b):
		return nil, memoryError("the pages of buffer %q, which is %v, are dealt to other cores than those of the tensor, which is %v", b.Name(),
			b.Layout(), s.Memory.Layout)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastID++
	return &Tensor{d: d, id: d.lastID, geometry: g, buf: b, borrowed: true}, nil
}

// dealtAs reports whether a buffer's pages are dealt to banks as the tensor's are.
func (g *geometry) dealtAs(b *reprise.Buffer) bool {
	if g.sharding == nil || b.Layout() != g.sharding.Layout {
		return g.sharding == nil && b.Layout() == allocator.Interleaved
	}
	dist, err := allocator.NewDistribution(*g.sharding)
	for i := 0; err == nil && i < g.pages; i++ {
		core, slot := dist.Page(i)
		if p, ok := b.Page(i); !ok || p.Core != dist.Cores()[core] || p.Addr != b.Addr()+uint32(slot)*b.PageStride() {
			return false
		}
	}
	return err == nil
}

func (h *Host) fits(s Spec) error {
	if !slices.Equal(h.Shape, s.Shape) || h.DType != s.DType {
		return shapeError("host tensor %v of %v, device tensor %v of %v", h.Shape, h.DType, s.Shape, s.DType)
	}
	return nil
}
