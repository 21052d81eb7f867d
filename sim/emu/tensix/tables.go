package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

// Types of the generated tables: opcodes and configuration.

// decoder decodes an architecture's instructions.
type decoder struct{ wormhole bool }

// lastSFPU is the last opcode of the vector unit.
const lastSFPU = 0x99

// encodingKind says who takes an opcode.
type encodingKind uint8

const (
	noInstruction encodingKind = iota
	executed
	front
	unsupported
)

// encoding is what architectures have at an opcode.
type encoding struct {
	name          string // empty if there is no instruction
	kind          encodingKind
	blackholeOnly bool
	// Bits that must be 0.
	unusedWormhole, unusedBlackhole uint32
}

// Words of the configuration: shared by the threads, and of each thread
// (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/BackendConfiguration.md).
const (
	numConfigWords = 224
	numThreadWords = 68
)

// wordKind is where a word of the configuration is kept.
type wordKind uint8

const (
	wordAbsent wordKind = iota
	wordBanked          // in each bank
	wordShared          // once
	wordNone            // nowhere
	wordTile            // it acts on the tile's processors
	wordSeed            // it fills the random numbers of the vector unit
)

// configWord is what a word of the configuration takes.
type configWord struct {
	kind   wordKind
	access wordAccess
	mask   uint32
}

// wordAccess says what may be done to a word.
type wordAccess uint8

const (
	load wordAccess = 1 << iota
	store
	refused // a store is refused as unsupported
)

// What SETC16 does to a word of a thread's configuration.
const (
	threadStored      = 's'
	threadUnsupported = 'u' // others are not emulated
)

// formats is a set of number formats.
type formats uint16

// has reports whether the set has a format, as a field of the configuration says it.
func (s formats) has(f uint32) bool { return s>>f&1 != 0 }

// elementBits is the size of a datum of a format in L1; 0 if the unpackers and packers have no such
// format. It goes by the low bits of the format, so that formats without a name have a size too.
func elementBits(format uint32) uint32 {
	switch format & 3 {
	case 0:
		return 32
	case 1:
		return 16
	case 2:
		return 8
	}
	switch arith.Format(format) {
	case arith.BFP4:
		return 4
	case arith.BFP2:
		return 2
	}
	return 0
}

// bytesOf is the size of a datum in units of which addresses and strides are multiples.
func bytesOf(bits uint32) uint32 { return (bits + 7) / 8 }

// blockFormat reports whether data of a format share exponents.
func blockFormat(format uint32) bool { return arith.Format(format).BFP() }

// mnemonic is the name of an instruction; empty if there is none.
func mnemonic(w uint32) string { return encodings[w>>24].name }

// encoding returns what the architecture has at an opcode, and the bits that must be 0.
func (s decoder) encoding(op uint32) (kind encodingKind, unused uint32) {
	switch c := &encodings[op]; {
	case !s.wormhole:
		return c.kind, c.unusedBlackhole
	case !c.blackholeOnly:
		return c.kind, c.unusedWormhole
	}
	return noInstruction, 0
}
