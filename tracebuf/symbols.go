package tracebuf

// Program is one of the different programs of a trace. Steps that run the same program share it.
type Program struct {
	Name   string
	Binary []byte // its kernels, as they lie in an interleaved DRAM buffer of Pages pages
	Addr   uint64 // DRAM address of that buffer when the trace was recorded, the same in all banks
	Pages  int
}

// Reloc is a place in the commands that names DRAM of a program's kernels: an entry of a RELAY_PAGED_PACKED. Its start
// page (16 bits) and its base address (32 bits) say where page Page of the program lies.
type Reloc struct {
	At      int // offset of the entry in Image.Bytes
	Program int // index in Image.Programs
	Page    int // of the program's kernels
}

// Memory a Buffer can be in, as Buffer.Kind.
const (
	KindDRAM = 0
	KindL1   = 1
)

// Buffer is a buffer on the device that programs of a trace read or write.
type Buffer struct {
	Name     string
	Kind     uint8  // KindDRAM or KindL1
	Addr     uint64 // in every bank, when the trace was recorded
	Size     int    // bytes
	PageSize int    // bytes
	Output   bool   // a program writes it
}

// ParamKind says what a patch point holds.
type ParamKind uint8

const (
	Arg        ParamKind = 0 // a runtime argument
	BufferAddr ParamKind = 1 // the address of a buffer
)

// String is "arg" or "buffer".
func (k ParamKind) String() string {
	switch k {
	case Arg:
		return "arg"
	case BufferAddr:
		return "buffer"
	}
	return "unknown"
}

// Param is a patch point: 32-bit words of the commands that a replay may be given another value for.
type Param struct {
	Name  string
	Kind  ParamKind
	Value uint32 // as recorded; all words of At hold it
	At    []int  // offsets of the words in Image.Bytes
}
