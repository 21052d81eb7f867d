package allocator

import (
	"fmt"
	"strings"
)

// Kind is a kind of memory. The values are those of tt-metal's BufferType
// (tt_metal/api/tt-metalium/buffer_types.hpp). Its value 2 is host memory, which this package
// doesn't manage.
type Kind uint8

// The kinds.
const (
	DRAM    Kind = 0 // DRAM banks, from the bottom up
	L1      Kind = 1 // workers' L1, from the top down
	L1Small Kind = 3 // a region at the top of workers' L1, sharded buffers only
	Trace   Kind = 4 // recorded traces, at the top of DRAM banks

	numKinds = 5
)

// String returns the kind's name.
func (k Kind) String() string { return nameOf(kindNames[:], k, "kind") }

var kindNames = [numKinds]string{DRAM: "DRAM", L1: "L1", L1Small: "L1 small", Trace: "trace"}

// nameOf returns the name of a constant, or such as "kind(7)" for other values.
func nameOf[T ~uint8](names []string, v T, what string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(v))
}

func (k Kind) valid() bool { return k == DRAM || k == L1 || k == L1Small || k == Trace }

// Code returns the name of the kind in tt-metal and its reports: DRAM, L1, L1_SMALL or TRACE.
func (k Kind) Code() string {
	if k.valid() {
		return strings.ToUpper(strings.ReplaceAll(k.String(), " ", "_"))
	}
	return k.String()
}

// MarshalText returns the code, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.Code()), nil }

// Layout says how the pages of a buffer are dealt to banks. The values are those of tt-metal's
// TensorMemoryLayout (tt_metal/api/tt-metalium/buffer_types.hpp), where 1 is unused.
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
	return nameOf([]string{Interleaved: "interleaved", HeightSharded: "height sharded", WidthSharded: "width sharded",
		BlockSharded: "block sharded", NDSharded: "ND sharded"}, l, "layout")
}

// Orientation is the order in which shards are dealt to the cores of a range.
type Orientation uint8

// The orientations, with the values of tt-metal's ShardOrientation.
const (
	RowMajor Orientation = 0 // along the rows of cores
	ColMajor Orientation = 1 // along the columns
)

// String returns the orientation's name.
func (o Orientation) String() string {
	return nameOf([]string{"row major", "column major"}, o, "orientation")
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
	return nameOf([]string{"round robin", "2D grid", "contiguous"}, s, "strategy")
}

// PageShape converts a shape in elements to pages of height by width elements, rounded up in the
// last two dimensions. It returns nil if a page has no size.
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
