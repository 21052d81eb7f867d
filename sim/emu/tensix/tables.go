package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/arith"

type decoder struct{ wormhole bool }

func (s decoder) either(wormhole, blackhole uint32) uint32 {
	if s.wormhole {
		return wormhole
	}
	return blackhole
}

const lastSFPU = 0x99

type encodingKind uint8

const (
	noInstruction encodingKind = iota
	executed
	front
	unsupported
)

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

type wordKind uint8

const (
	wordAbsent wordKind = iota
	wordBanked          // in each bank
	wordShared          // once
	wordNone            // nowhere
	wordTile            // it acts on the tile's processors
	wordSeed            // it fills the random numbers of the vector unit
)

type configWord struct {
	kind   wordKind
	access wordAccess
	mask   uint32
}

type wordAccess uint8

const (
	load wordAccess = 1 << iota
	store
	refused // a store is refused as unsupported

	loadStore = load | store
)

// What SETC16 does to a word of a thread's configuration.
const (
	threadStored      = 's'
	threadUnsupported = 'u' // others are not emulated
)

type formats uint16

func (s formats) has(f uint32) bool { return s>>f&1 != 0 }

// elementBits is a datum's size in L1; 0 if unpackers and packers lack the format. The low bits
// decide, so that unnamed formats have a size too.
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

func bytesOf(bits uint32) uint32 { return (bits + 7) / 8 }

func blockFormat(format uint32) bool { return arith.Format(format).BFP() }

func mnemonic(w uint32) string { return encodings[w>>24].name }

func (s decoder) encoding(op uint32) (kind encodingKind, unused uint32) {
	switch c := &encodings[op]; {
	case !s.wormhole:
		return c.kind, c.unusedBlackhole
	case !c.blackholeOnly:
		return c.kind, c.unusedWormhole
	}
	return noInstruction, 0
}
