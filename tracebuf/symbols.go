package tracebuf

import (
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/kernels/print"
)

// Program is a program of a trace.
type Program struct {
	Name   string
	Binary []byte // kernels, as in an interleaved DRAM buffer of Pages pages
	Addr   uint64 // in all banks, when recorded
	Pages  int
	Prints []print.Program // of its kernels
}

// Reloc is an entry of a RELAY_PAGED_PACKED, which names DRAM of a program's kernels: its start
// page (16 bits) and its base address (32 bits) are those of page Page.
type Reloc struct {
	At      int // in Image.Bytes
	Program int // index in Image.Programs
	Page    int
}

// The kinds of memory of a Buffer, as in package allocator.
const (
	KindDRAM    = 0
	KindL1      = 1
	KindL1Small = 3
)

// Buffer is a buffer on the device that programs of a trace read or write.
type Buffer struct {
	Name     string
	Kind     uint8
	Addr     uint64 // in every bank, when recorded
	Size     int    // bytes
	PageSize int    // bytes
	Stride   int    // of pages in a bank
	// Output: the user named the buffer, or a part of it, as a result.
	Output   bool
	Sharding *allocator.ShardSpec // nil if interleaved
	Tensor   *Tensor              // nil if not known
}

// Tensor is what a buffer holds: elements row by row, or tiles of 32 by 32.
type Tensor struct {
	Shape []int
	DType string // as TT-NN names it, such as BFLOAT16
	Tiles bool
	Input bool // the program wrote it between replays
	// Weight is the tensor of a safetensors file that the content comes from, and Transposed, if
	// its last two dimensions change places. Empty if the trace's file has the content.
	Weight     string
	Transposed bool
}

// Pages returns the number of pages.
func (b *Buffer) Pages() int { return b.Size / max(1, b.PageSize) }

// ParamKind is what a patch point holds.
type ParamKind uint8

const (
	Arg        ParamKind = 0 // a runtime argument
	BufferAddr ParamKind = 1 // the address of a buffer
)

func (k ParamKind) String() string {
	switch k {
	case Arg:
		return "arg"
	case BufferAddr:
		return "buffer"
	}
	return "unknown"
}

// Param is a patch point: 32-bit words of the commands whose common value may change between
// replays.
type Param struct {
	Name  string
	Kind  ParamKind
	Value uint32 // as recorded
	At    []int  // of the words in Image.Bytes
	// Of a BufferAddr: in the trace's Buffers, and the pages that the parameter stands for.
	Buffer       int
	First, Pages int
}
