package ops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
)

// Layout is the order of elements in pages.
type Layout uint8

const (
	// RowMajor has a row of the tensor, or of a shard, in each page.
	RowMajor Layout = iota
	// Tile has 32 by 32 elements in each page: four faces of 16 by 16, each row by row. The last
	// two dimensions are padded to multiples of 32, with zeros.
	Tile
)

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

// ShardSpec divides a tensor into shards and says which cores hold them.
type ShardSpec struct {
	// Cores hold the shards, in order; in DRAM, bank i is core (i,0).
	Cores []chip.Range
	// Shape is the height and width of a shard in elements; multiples of 32 for tiles. The height
	// counts the rows of all matrices of the tensor, padding included.
	Shape [2]int
	// Columns assigns shards to cores column by column instead of row by row.
	Columns bool
}

// MemoryConfig is the place of a tensor's pages.
type MemoryConfig struct {
	Kind   allocator.Kind   // DRAM or L1
	Layout allocator.Layout // Interleaved, HeightSharded, WidthSharded or BlockSharded
	Shard  *ShardSpec       // nil if interleaved
}

// Interleaved returns a configuration with pages round-robin over all banks of DRAM or L1.
func Interleaved(k allocator.Kind) MemoryConfig { return MemoryConfig{Kind: k} }

// Sharded returns a configuration with shards of height by width elements in the L1 of cores.
func Sharded(layout allocator.Layout, height, width int, cores ...chip.Range) MemoryConfig {
	return MemoryConfig{Kind: allocator.L1, Layout: layout, Shard: &ShardSpec{Cores: cores, Shape: [2]int{height, width}}}
}

// String returns the form that TT-NN's visualizer reads.
func (m MemoryConfig) String() string {
	layouts := map[allocator.Layout]string{
		allocator.Interleaved: "INTERLEAVED", allocator.HeightSharded: "HEIGHT_SHARDED", allocator.WidthSharded: "WIDTH_SHARDED",
		allocator.BlockSharded: "BLOCK_SHARDED",
	}
	kind, shard := "L1", "std::nullopt"
	if m.Kind == allocator.DRAM {
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
		shard = fmt.Sprintf("ShardSpec(grid={%s},shape={%d, %d},orientation=ShardOrientation::%s,halo=0)", strings.Join(ranges, ", "),
			s.Shape[0], s.Shape[1], orientation)
	}
	return fmt.Sprintf("MemoryConfig(memory_layout=TensorMemoryLayout::%s,buffer_type=BufferType::%s,shard_spec=%s,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0)",
		layouts[m.Layout], kind, shard)
}

// Equal reports whether two configurations are the same.
func (m MemoryConfig) Equal(o MemoryConfig) bool {
	return Spec{Memory: m}.kind() == Spec{Memory: o}.kind()
}

func (m MemoryConfig) clone() MemoryConfig {
	if m.Shard != nil {
		s := *m.Shard
		s.Cores = slices.Clone(s.Cores)
		m.Shard = &s
	}
	return m
}

// Spec is the shape, data type, layout and memory configuration of a tensor on a device.
type Spec struct {
	Shape  []int
	DType  DataType
	Layout Layout
	Memory MemoryConfig
}

func (s Spec) clone() Spec {
	s.Shape, s.Memory = slices.Clone(s.Shape), s.Memory.clone()
	return s
}

func (s Spec) String() string {
	return fmt.Sprintf("%s,%v,%v,%v", shapeText(s.Shape), s.DType, s.Layout, s.Memory)
}

func shapeText(shape []int) string {
	return "Shape([" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(shape)), ", "), "[]") + "])"
}
