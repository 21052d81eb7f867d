package allocator

import "fmt"

// Kind is a kind of memory. The values are those of tt-metal's BufferType
// (tt_metal/api/tt-metalium/buffer_types.hpp), in which 2 is host memory, which this package does
// not manage.
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
func (k Kind) String() string {
	switch k {
	case DRAM:
		return "DRAM"
	case L1:
		return "L1"
	case L1Small:
		return "L1 small"
	case Trace:
		return "trace"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// valid reports whether the package manages the kind.
func (k Kind) valid() bool { return k == DRAM || k == L1 || k == L1Small || k == Trace }

// Code returns the name of the kind in tt-metal and its reports: DRAM, L1, L1_SMALL or TRACE.
func (k Kind) Code() string {
	switch k {
	case L1Small:
		return "L1_SMALL"
	case Trace:
		return "TRACE"
	}
	return k.String()
}

// MarshalText returns the code, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.Code()), nil }
