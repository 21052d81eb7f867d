package translate

import "unsafe"

// LocalBase is the address of local RAM.
const LocalBase = 0xFFB00000

// leastLocal is how many bytes of local RAM each machine has, mostLocal more than any has.
const (
	leastLocal = 2 << 10
	mostLocal  = 64 << 10
)

// pageBytes is the size of the pages of which code is made.
const pageBytes = 4096

// LineShift is by how much addresses of memory are shifted to give the index of their line in a
// machine's flags.
const LineShift = 6

// Watched are the bits of a line's flags for its words, by the low bits of their index in memory: a
// store to another word of a line that has no other flag is a store like any.
const Watched = 1<<4 - 1

// RegistersBase is the address of the registers of which some may be plain words, RegistersBytes
// how many bytes they have.
const (
	RegistersBase  = 0xFFB20000
	RegistersBytes = 1 << registersShift
	registersShift = 19
)

// Narrow marks the slot of a register that takes values of NarrowBits only. Stores of others leave
// the code.
const (
	Narrow     = 1 << 15
	NarrowBits = 15 << 10
)

// Slots are the places of the registers that are plain words, by their address after RegistersBase,
// in words: 1 + the index of that word, or 0 for a register that is more.
type Slots [RegistersBytes / 4]uint16

// Registers are those that code loads and those that it stores by itself.
type Registers struct {
	Loads, Stores Slots
	// Ignored is the address of a register where stores of 1 to MostIgnored change nothing, or 0.
	Ignored uint32
}

// MostIgnored is the largest value of which a store may be ignored.
const MostIgnored = 31

// Machine is what code works on: a processor with its memory. Code finds all of it near X.
type Machine struct {
	ignored              uint32 // the address
	l1, local, registers *uint32
	flags                *byte
	loads, stores        *Slots
	l1Bytes, localBytes  uint32

	// X are the registers; X[0] is zero, and rv32.Sink takes what is written to it. The others
	// aren't used: a uint8 needs no check of bounds.
	X [256]uint32
}

// SetL1 gives the machine memory from address 0. Flags has a byte for each line of it. A store to a
// line whose byte isn't zero leaves the code, except for words that aren't Watched. All of a page
// from which code was made is there.
func (m *Machine) SetL1(words []uint32, flags *byte) {
	m.l1, m.l1Bytes, m.flags = unsafe.SliceData(words), uint32(4*len(words)), flags
}

// SetLocal gives the machine memory from LocalBase, 2 KiB at least.
func (m *Machine) SetLocal(words []uint32) {
	m.local, m.localBytes = unsafe.SliceData(words), uint32(4*len(words))
}

// SetRegisters gives the machine the registers of its tile that it can load and store as words, of
// which first is the first, and says whether it ignores stores as they do.
func (m *Machine) SetRegisters(first *uint32, r *Registers, ignores bool) {
	m.registers, m.loads, m.stores, m.ignored = first, &r.Loads, &r.Stores, 0
	if ignores {
		m.ignored = r.Ignored
	}
}

// Where code finds what is beside X.
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
