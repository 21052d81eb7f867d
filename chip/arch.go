package chip

import (
	"fmt"
	"strings"
)

// Arch is a chip architecture. Its zero value is no architecture.
type Arch uint8

// The architectures that the package describes.
const (
	Wormhole  Arch = 1
	Blackhole Arch = 2
)

func (a Arch) String() string {
	switch a {
	case Wormhole:
		return "wormhole"
	case Blackhole:
		return "blackhole"
	}
	return fmt.Sprintf("arch(%d)", uint8(a))
}

// Valid reports whether a is an architecture that the package describes.
func (a Arch) Valid() bool { return a == Wormhole || a == Blackhole }

// ParseArch is the inverse of [Arch.String], in any case; "wormhole_b0", "wh" and "bh" are accepted
// too. The error wraps [ErrUnknownArch].
func ParseArch(s string) (Arch, error) {
	switch strings.ToLower(s) {
	case "wormhole", "wormhole_b0", "wh":
		return Wormhole, nil
	case "blackhole", "bh":
		return Blackhole, nil
	}
	return 0, fmt.Errorf("chip: parse architecture %q: %w", s, ErrUnknownArch)
}

// NOC is one of the two networks on a chip.
type NOC uint8

// Requests run towards larger coordinates on NOC0 and towards smaller ones on NOC1
// (tt-isa-documentation WormholeB0/NoC/Coordinates.md).
const (
	NOC0 NOC = 0
	NOC1 NOC = 1
)

func (n NOC) String() string { return fmt.Sprintf("NoC %d", uint8(n)) }

// Other returns the other network.
func (n NOC) Other() NOC { return n ^ 1 }

// Processor is a RISC-V processor of a Tensix tile, numbered as in launch messages, or of an
// Ethernet tile.
type Processor uint8

// The processors of a Tensix tile.
const (
	BRISC  Processor = 0
	NCRISC Processor = 1
	TRISC0 Processor = 2
	TRISC1 Processor = 3
	TRISC2 Processor = 4

	// NumProcessors is the number of processors in a Tensix tile.
	NumProcessors = 5

	// Ethernet tiles have one on Wormhole, two on Blackhole. Launch messages don't number them, so
	// these are no index of a table by processor (tt-isa-documentation BlackholeA0/EthernetTile).
	ERISC0 Processor = 8
	ERISC1 Processor = 9
)

func (p Processor) String() string {
	switch p {
	case BRISC:
		return "BRISC"
	case NCRISC:
		return "NCRISC"
	case TRISC0, TRISC1, TRISC2:
		return fmt.Sprintf("TRISC%d", p-TRISC0)
	case ERISC0, ERISC1:
		return fmt.Sprintf("ERISC%d", p-ERISC0)
	}
	return fmt.Sprintf("processor(%d)", uint8(p))
}

// ResetBit returns the bit of p in [Params.SoftReset], which holds the processor; 0 for none
// (tt-isa-documentation WormholeB0/TensixTile/SoftReset.md).
func (p Processor) ResetBit() uint32 {
	switch p {
	case BRISC, ERISC0:
		return 1 << 11
	case TRISC0, ERISC1:
		return 1 << 12
	case TRISC1:
		return 1 << 13
	case TRISC2:
		return 1 << 14
	case NCRISC:
		return 1 << 18
	}
	return 0
}

// TileKind says what a tile of the grid is.
type TileKind uint8

// The kinds of tiles.
const (
	NoTile TileKind = iota
	Tensix
	Ethernet
	DRAM
	PCIe
	ARC
	RouterOnly
	Security
	L2CPU
)

func (k TileKind) String() string {
	if int(k) < len(tileKinds) {
		return tileKinds[k]
	}
	return fmt.Sprintf("tile kind(%d)", uint8(k))
}

var tileKinds = [...]string{"no tile", "Tensix", "Ethernet", "DRAM", "PCIe", "ARC", "router only", "security", "L2CPU"}
