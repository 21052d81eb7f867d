package translate

import "unsafe"

// LocalBase is the address of local RAM.
const LocalBase = 0xFFB00000

// Bytes of local RAM: each machine has the least.
const (
	leastLocal = 2 << 10
	mostLocal  = 64 << 10
)

const pageBytes = 4096

// LineShift is log2 of the bytes of a line with flags.
const LineShift = 6

// Watched are a line's flags for its words, by the low bits of their index: a store to other words
// is plain if the line has no other flag.
const Watched = 1<<4 - 1

// RegistersBase is the address of registers some of which are plain words.
const (
	RegistersBase  = 0xFFB20000
	RegistersBytes = 1 << registersShift
	registersShift = 19
)

// Narrow marks the slot of a register that takes values of NarrowBits only; others leave the code.
const (
	Narrow     = 1 << 15
	NarrowBits = 15 << 10
)

// Slots are the plain words among registers, by word offset from RegistersBase: 1 + the word's
// index, or 0.
type Slots [RegistersBytes / 4]uint16

// Registers are those that code loads and stores by itself.
type Registers struct {
	Loads, Stores Slots
	// Ignored is the address of a register where stores of 1 to MostIgnored change nothing, or 0.
	Ignored uint32
}

// MostIgnored is the largest value of which a store may be ignored.
const MostIgnored = 31

// Machine is a processor with its memory. Code finds all of it near X.
type Machine struct {
	ignored              uint32 // the address
	l1, local, registers *uint32
	flags                *byte
	loads, stores        *Slots
	l1Bytes, localBytes  uint32

	// X are the registers; X[0] is zero, and rv32.Sink takes what is written to it. The others
	// spare checks of bounds.
	X [256]uint32
}

// SetL1 gives the machine memory from address 0, with a byte of flags for each line. All of a page
// from which code was made is there.
func (m *Machine) SetL1(words []uint32, flags *byte) {
	m.l1, m.l1Bytes, m.flags = unsafe.SliceData(words), uint32(4*len(words)), flags
}

// SetLocal gives the machine memory from LocalBase, 2 KiB at least.
func (m *Machine) SetLocal(words []uint32) {
	m.local, m.localBytes = unsafe.SliceData(words), uint32(4*len(words))
}

// SetRegisters gives the machine its tile's registers that are words, from first on, and says
// whether it ignores stores as they do.
func (m *Machine) SetRegisters(first *uint32, r *Registers, ignores bool) {
	m.registers, m.loads, m.stores, m.ignored = first, &r.Loads, &r.Stores, 0
	if ignores {
		m.ignored = r.Ignored
	}
}

// Offsets from X.
const (
	atX          = int32(unsafe.Offsetof(Machine{}.X))
	atFlags      = int32(unsafe.Offsetof(Machine{}.flags)) - atX
	atRegisters  = int32(unsafe.Offsetof(Machine{}.registers)) - atX
	atLoads      = int32(unsafe.Offsetof(Machine{}.loads)) - atX
	atStores     = int32(unsafe.Offsetof(Machine{}.stores)) - atX
	atL1Bytes    = int32(unsafe.Offsetof(Machine{}.l1Bytes)) - atX
	atLocalBytes = int32(unsafe.Offsetof(Machine{}.localBytes)) - atX
	atIgnored    = int32(unsafe.Offsetof(Machine{}.ignored)) - atX
)
