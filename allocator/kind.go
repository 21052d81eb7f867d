package allocator

import (
	"fmt"
	"strings"
)

// Kind is a kind of memory, with the values of tt-metal's BufferType
// (tt_metal/api/tt-metalium/buffer_types.hpp); 2, host memory, is not managed here.
type Kind uint8

const (
	DRAM    Kind = 0 // from the bottom of the banks up
	L1      Kind = 1 // workers', from the top down
	L1Small Kind = 3 // at the top of workers' L1, sharded buffers only
	Trace   Kind = 4 // at the top of DRAM banks

	numKinds = 5
)

func (k Kind) String() string { return nameOf(kindNames[:], k, "kind") }

var kindNames = [numKinds]string{DRAM: "DRAM", L1: "L1", L1Small: "L1 small", Trace: "trace"}

func nameOf[T ~uint8](names []string, v T, what string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(v))
}

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{DRAM, L1, L1Small, Trace} }

// Valid reports whether there is such a kind.
func (k Kind) Valid() bool { return k == DRAM || k == L1 || k == L1Small || k == Trace }

// Code returns the name of the kind in tt-metal and its reports: DRAM, L1, L1_SMALL or TRACE.
func (k Kind) Code() string {
	if k.Valid() {
		return strings.ToUpper(strings.ReplaceAll(k.String(), " ", "_"))
	}
	return k.String()
}

// MarshalText returns the code, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.Code()), nil }

// Layout says how the pages of a buffer are dealt to banks, with the values of tt-metal's
// TensorMemoryLayout (tt_metal/api/tt-metalium/buffer_types.hpp).
type Layout uint8

const (
	Interleaved   Layout = 0 // pages go round all banks
	HeightSharded Layout = 2 // shards are whole rows of pages
	WidthSharded  Layout = 3 // shards are whole columns of pages
	BlockSharded  Layout = 4 // shards are rectangles, on the core with the shard's place in a grid
	NDSharded     Layout = 5 // shards are boxes of any rank; a core may have several
)

func (l Layout) String() string {
	return nameOf([]string{Interleaved: "interleaved", HeightSharded: "height sharded", WidthSharded: "width sharded",
		BlockSharded: "block sharded", NDSharded: "ND sharded"}, l, "layout")
}

// Orientation is the order in which shards are dealt to the cores of a range, with the values of
// tt-metal's ShardOrientation.
type Orientation uint8

const (
	RowMajor Orientation = 0 // along the rows of cores
	ColMajor Orientation = 1 // along the columns
)

func (o Orientation) String() string {
	return nameOf([]string{"row major", "column major"}, o, "orientation")
}

// Strategy says which core a shard belongs to, with the values of tt-metal's
// ShardDistributionStrategy.
type Strategy uint8

const (
	RoundRobin Strategy = 0 // shard s to core s mod n
	Grid2D     Strategy = 1 // each shard to the core at its place in a grid
	Contiguous Strategy = 2 // equally many consecutive shards to each core
)

func (s Strategy) String() string {
	return nameOf([]string{"round robin", "2D grid", "contiguous"}, s, "strategy")
}
