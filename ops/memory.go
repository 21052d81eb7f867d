package ops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
)

// Layout says how elements lie in pages.
type Layout uint8

const (
	// RowMajor has a row of the tensor, or of a shard, in each page.
	RowMajor Layout = iota
	// Tile has 32 by 32 elements in each page: four faces of 16 by 16, each row by row. The last two dimensions are padded
	// to multiples of 32, with zeros.
	Tile
)

// String spells the layout as TT-NN's reports do.
func (l Layout) String() string {
	switch l {
	case RowMajor:
		return "Layout::ROW_MAJOR"
	case Tile:
		return "Layout::TILE"
	}
	return fmt.Sprintf("Layout(%d)", uint8(l))
}

// tileSize is the height and width of a tile, faceSize of a face.
const tileSize, faceSize = 32, 16

// ShardSpec says how a tensor is cut into shards, and which cores hold them.
type ShardSpec struct {
	// Cores hold the shards; for DRAM they are (bank,0).
	Cores []reprise.Range
	// Shape is the height and width of a shard in elements; multiples of 32 for tiles. The height counts the rows of all
	// matrices of the tensor, padding included.
	Shape [2]int
	// Columns deals shards along the columns of cores instead of along the rows.
	Columns bool
}

// MemoryConfig says where a tensor's pages are.
type MemoryConfig struct {
	Kind   reprise.Kind   // DRAM or L1
	Layout reprise.Layout // Interleaved, HeightSharded, WidthSharded or BlockSharded
	Shard  *ShardSpec     // nil if it is interleaved
}

// Interleaved returns the configuration whose pages go round all banks of a kind of memory.
func Interleaved(k reprise.Kind) MemoryConfig { return MemoryConfig{Kind: k} }

// Sharded returns a configuration with shards in L1.
func Sharded(layout reprise.Layout, height, width int, cores ...reprise.Range) MemoryConfig {
	return MemoryConfig{Kind: reprise.L1, Layout: layout, Shard: &ShardSpec{Cores: cores, Shape: [2]int{height, width}}}
}

// String spells the configuration in the form that TT-NN's visualizer reads.
func (m MemoryConfig) String() string {
	layouts := map[reprise.Layout]string{
		reprise.Interleaved: "INTERLEAVED", reprise.HeightSharded: "HEIGHT_SHARDED", reprise.WidthSharded: "WIDTH_SHARDED", reprise.BlockSharded: "BLOCK_SHARDED",
	}
	kind, shard := "L1", "std::nullopt"
	if m.Kind == reprise.DRAM {
		kind = "DRAM"
	}
	if s := m.Shard; s != nil {
		orientation := "ROW_MAJOR"
		if s.Columns {
			orientation = "COL_MAJOR"
		}
		ranges := make([]string, len(s.Cores))
		for i, r := range s.Cores {
			ranges[i] = fmt.Sprintf("[(x=%d,y=%d) - (x=%d,y=%d)]", r.Start.X, r.Start.Y, r.End.X, r.End.Y)
		}
		shard = fmt.Sprintf("ShardSpec(grid={%s},shape={%d, %d},orientation=ShardOrientation::%s,halo=0)", strings.Join(ranges, ", "), s.Shape[0], s.Shape[1], orientation)
	}
	return fmt.Sprintf("MemoryConfig(memory_layout=TensorMemoryLayout::%s,buffer_type=BufferType::%s,shard_spec=%s,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0)",
		layouts[m.Layout], kind, shard)
}

// Equal says whether two configurations are the same.
func (m MemoryConfig) Equal(o MemoryConfig) bool {
	if m.Kind != o.Kind || m.Layout != o.Layout || (m.Shard == nil) != (o.Shard == nil) {
		return false
	}
	return m.Shard == nil || m.Shard.Shape == o.Shard.Shape && m.Shard.Columns == o.Shard.Columns && slices.Equal(m.Shard.Cores, o.Shard.Cores)
}

// clone copies what a caller may change.
func (m MemoryConfig) clone() MemoryConfig {
	if m.Shard != nil {
		s := *m.Shard
		s.Cores = slices.Clone(s.Cores)
		m.Shard = &s
	}
	return m
}

// Spec says what a tensor on a device is.
type Spec struct {
	Shape  []int
	DType  DataType
	Layout Layout
	Memory MemoryConfig
}

// clone copies what a caller may change.
func (s Spec) clone() Spec {
	s.Shape, s.Memory = slices.Clone(s.Shape), s.Memory.clone()
	return s
}

// String says all of it in words; two specs with the same words are the same.
func (s Spec) String() string {
	return fmt.Sprintf("%s,%v,%v,%v", shapeText(s.Shape), s.DType, s.Layout, s.Memory)
}

func shapeText(shape []int) string {
	return "Shape([" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(shape)), ", "), "[]") + "])"
}

// geometry is where the elements of a tensor are in its pages.
type geometry struct {
	spec      Spec
	dims      [4]int
	pageWidth int // elements
	pageBytes int
	wide      int // pages beside each other
	high      int // page rows of a matrix
	pages     int
	sharding  *reprise.Sharding // nil if it is interleaved
}

// measure works a spec out. The error wraps ErrShape, ErrDataType or ErrMemory.
func (s Spec) measure() (*geometry, error) {
	if _, err := volume(s.Shape); err != nil {
		return nil, err
	}
	if s.DType >= numDataTypes {
		return nil, fmt.Errorf("%w: there is no %v", ErrDataType, s.DType)
	}
	if s.Layout > Tile {
		return nil, fmt.Errorf("%w: there is no %v", ErrMemory, s.Layout)
	}
	m := s.Memory
	if m.Kind != reprise.DRAM && m.Kind != reprise.L1 {
		return nil, fmt.Errorf("%w: %v: tensors are in DRAM or L1", ErrMemory, m.Kind)
	}
	g := &geometry{spec: s.clone(), dims: four(s.Shape)}
	g.pageWidth, g.high = g.dims[3], g.dims[2]
	unit := 1 // rows of a page
	switch m.Layout {
	case reprise.Interleaved:
		if m.Shard != nil {
			return nil, fmt.Errorf("%w: an interleaved tensor has no shards", ErrMemory)
		}
	case reprise.HeightSharded, reprise.WidthSharded, reprise.BlockSharded:
		if m.Shard == nil || m.Shard.Shape[0] < 1 || m.Shard.Shape[1] < 1 {
			return nil, fmt.Errorf("%w: a %v tensor needs shards with a height and a width", ErrMemory, m.Layout)
		}
		g.pageWidth = m.Shard.Shape[1]
	default:
		return nil, fmt.Errorf("%w: %v: tensors are interleaved, height, width or block sharded", ErrMemory, m.Layout)
	}
	if s.Layout == Tile {
		g.pageWidth, g.high, unit = tileSize, ceil(g.high, tileSize), tileSize
		if m.Shard != nil && (m.Shard.Shape[0]%tileSize != 0 || m.Shard.Shape[1]%tileSize != 0) {
			return nil, fmt.Errorf("%w: shards of %d by %d elements: those of tiles are multiples of %d", ErrMemory, m.Shard.Shape[0], m.Shard.Shape[1], tileSize)
		}
	}
	g.pageBytes = g.pageWidth * unit * s.DType.Size()
	g.wide = ceil(g.dims[3], g.pageWidth)
	rows := g.dims[0] * g.dims[1] * g.high
	g.pages = rows * g.wide
	if m.Shard != nil {
		g.sharding = &reprise.Sharding{
			Layout: m.Layout, Tensor: []int{rows, g.wide}, Shard: []int{m.Shard.Shape[0] / unit, m.Shard.Shape[1] / g.pageWidth}, Cores: slices.Clone(m.Shard.Cores),
		}
		if m.Shard.Columns {
			g.sharding.Orientation = reprise.ColMajor
		}
	}
	return g, nil
}

// config is the buffer that holds the pages.
func (g *geometry) config(name string) reprise.BufferConfig {
	c := reprise.BufferConfig{Kind: g.spec.Memory.Kind, PageSize: g.pageBytes, Name: name, Sharding: g.sharding}
	if g.sharding == nil {
		c.Size = g.pages * g.pageBytes
	}
	return c
}

// at returns where a row's elements from column w on are in the pages, and how many of them follow each other there.
func (g *geometry) at(row, w int) (off, run int) {
	size := g.spec.DType.Size()
	if g.spec.Layout == RowMajor {
		x := w % g.pageWidth
		return (row*g.wide+w/g.pageWidth)*g.pageBytes + x*size, min(g.pageWidth-x, g.dims[3]-w)
	}
	matrix, h := row/g.dims[2], row%g.dims[2]
	page := (matrix*g.high+h/tileSize)*g.wide + w/tileSize
	in := ((h/faceSize%2*2+w/faceSize%2)*faceSize+h%faceSize)*faceSize + w%faceSize
	return page*g.pageBytes + in*size, min(faceSize-w%faceSize, g.dims[3]-w)
}

// each calls f for every piece of a row that is in one piece in the pages: offsets in them and in the rows, and a length,
// all in bytes.
func (g *geometry) each(f func(page, row, n int)) {
	size := g.spec.DType.Size()
	for row := range g.dims[0] * g.dims[1] * g.dims[2] {
		for w := 0; w < g.dims[3]; {
			off, run := g.at(row, w)
			f(off, (row*g.dims[3]+w)*size, run*size)
			w += run
		}
	}
}

// encode lays rows out in pages.
func (g *geometry) encode(rows []byte) []byte {
	pages := make([]byte, g.pages*g.pageBytes)
	g.each(func(page, row, n int) { copy(pages[page:page+n], rows[row:]) })
	return pages
}

// decode is the reverse of encode.
func (g *geometry) decode(pages []byte) []byte {
	rows := make([]byte, g.dims[0]*g.dims[1]*g.dims[2]*g.dims[3]*g.spec.DType.Size())
	g.each(func(page, row, n int) { copy(rows[row:row+n], pages[page:]) })
	return rows
}

func ceil(n, by int) int { return (n + by - 1) / by }
