package allocator

import "fmt"

// Layout says how the pages of a buffer are dealt to banks. The values are those of tt-metal's
// TensorMemoryLayout (tt_metal/api/tt-metalium/buffer_types.hpp), in which 1 is not used.
type Layout uint8

// The layouts. A tensor is seen as a grid of pages, a shard as a smaller one.
const (
	// Interleaved pages go round all banks.
	Interleaved Layout = 0
	// HeightSharded shards are whole rows of pages.
	HeightSharded Layout = 2
	// WidthSharded shards are whole columns of pages.
	WidthSharded Layout = 3
	// BlockSharded shards are rectangles, each on the core whose place in a grid of cores is the
	// shard's.
	BlockSharded Layout = 4
	// NDSharded shards are boxes of any rank; a core has several if there are more shards than
	// cores.
	NDSharded Layout = 5
)

// String returns the layout's name.
func (l Layout) String() string {
	switch l {
	case Interleaved:
		return "interleaved"
	case HeightSharded:
		return "height sharded"
	case WidthSharded:
		return "width sharded"
	case BlockSharded:
		return "block sharded"
	case NDSharded:
		return "ND sharded"
	}
	return fmt.Sprintf("layout(%d)", uint8(l))
}

// Orientation says in which order shards are dealt to the cores of a range.
type Orientation uint8

// The orientations, with the values of tt-metal's ShardOrientation.
const (
	RowMajor Orientation = 0 // along the rows of cores
	ColMajor Orientation = 1 // along the columns
)

// String returns the orientation's name.
func (o Orientation) String() string {
	switch o {
	case RowMajor:
		return "row major"
	case ColMajor:
		return "column major"
	}
	return fmt.Sprintf("orientation(%d)", uint8(o))
}

// Strategy says which core a shard belongs to. The values are those of tt-metal's
// ShardDistributionStrategy.
type Strategy uint8

// The strategies.
const (
	// RoundRobin gives shard s to core s mod n, after the shards that the core has.
	RoundRobin Strategy = 0
	// Grid2D gives each shard its own core, at the shard's place in a grid.
	Grid2D Strategy = 1
	// Contiguous gives each core as many shards in a row as the others. The number of shards must
	// be a multiple of that of cores.
	Contiguous Strategy = 2
)

// String returns the strategy's name.
func (s Strategy) String() string {
	switch s {
	case RoundRobin:
		return "round robin"
	case Grid2D:
		return "2D grid"
	case Contiguous:
		return "contiguous"
	}
	return fmt.Sprintf("strategy(%d)", uint8(s))
}

// PageShape converts a shape in elements to pages of height by width elements: the last dimension
// is divided by the width, the one before it by the height, both rounded up. It returns nil if a
// page has no size.
func PageShape(shape []int, height, width int) []int {
	if height < 1 || width < 1 {
		return nil
	}
	out := append([]int(nil), shape...)
	if n := len(out); n > 0 {
		out[n-1] = (out[n-1] + width - 1) / width
	}
	if n := len(out); n > 1 {
		out[n-2] = (out[n-2] + height - 1) / height
	}
	return out
}
