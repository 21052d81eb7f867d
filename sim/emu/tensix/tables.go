package tensix

import (
	"sync"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/tables"
)

const (
	numConfigWords = tables.ConfigWords
	numThreadWords = 68
)

type decoder struct{ wormhole bool }

// tableSet is an architecture's instructions by opcode, and configuration.
type tableSet struct {
	encodings   [256]encoding
	words       *[numConfigWords]tables.Word
	threadWords string
}

type encoding struct {
	name                  string // empty if there is no instruction on any architecture
	executed, unsupported bool
	unused                uint32 // bits that must be 0
}

var tableSets = sync.OnceValue(func() (sets [2]*tableSet) {
	for arch := range sets {
		c := tables.Config()
		s := &tableSet{words: &c.Words[arch], threadWords: c.Threads[arch]}
		for _, in := range tables.Instructions() {
			c := &s.encodings[in.Opcode]
			switch c.name = in.Name; {
			case in.BlackholeOnly && arch == 0, in.Front():
			case in.Unsupported:
				c.unsupported = true
			default:
				c.executed, c.unused = true, in.Unused(arch)
			}
		}
		sets[arch] = s
	}
	return sets
})

func (s decoder) either(wormhole, blackhole uint32) uint32 {
	if s.wormhole {
		return wormhole
	}
	return blackhole
}

const lastSFPU = 0x99

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

func mnemonic(w uint32) string { return tableSets()[0].encodings[w>>24].name }
