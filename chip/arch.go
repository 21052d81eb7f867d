package chip

import (
	"fmt"
	"math/bits"
	"slices"
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

// Harvesting says which units of a chip are fused off.
type Harvesting struct {
	// Tensix has a bit per row on Wormhole and per column on Blackhole, from the smallest raw one
	// up.
	Tensix uint32 `json:"tensix"`
	DRAM   uint32 `json:"dram"` // a bit per bank (Blackhole, at most one set)
	// Ethernet has a bit per channel (Blackhole). Products have at least two set: only twelve
	// channels have virtual coordinates.
	Ethernet uint32 `json:"ethernet"`
	// SecondPCIe says that the host is at a Blackhole's PCIe tile (11,0), not at (2,0).
	SecondPCIe bool `json:"second_pcie,omitempty"`
}

// Fuses number rows and columns from the die's edges inwards (tt-umd HARVESTING_NOC_LOCATIONS,
// device/arch/*_implementation.hpp).
func (a Arch) fuseOrder() []uint8 {
	if a == Wormhole {
		return []uint8{11, 1, 10, 2, 9, 3, 8, 4, 7, 5} // rows
	}
	return []uint8{1, 16, 2, 15, 3, 14, 4, 13, 5, 12, 6, 11, 7, 10} // columns
}

func (a Arch) fusesToMask(fuses uint32) (mask uint32) {
	for i, at := range a.fuseOrder() {
		mask |= fuses >> i & 1 << slices.Index(a.harvestUnits(), at)
	}
	return mask
}

func (a Arch) maskToFuses(mask uint32) (fuses uint32) {
	for i, at := range a.fuseOrder() {
		fuses |= mask >> slices.Index(a.harvestUnits(), at) & 1 << i
	}
	return fuses
}

func (a Arch) harvestUnits() []uint8 {
	if a == Wormhole {
		return a.tensixRows()
	}
	return a.tensixColumns()
}

// HarvestingFromARC returns a Wormhole's harvesting from the answer to [ARCGetHarvesting], in which
// bit i is row {11,1,10,2,9,3,8,4,7,5}[i].
func HarvestingFromARC(answer uint32) Harvesting {
	return Harvesting{Tensix: Wormhole.fusesToMask(answer & 0x3FF)}
}

// ARCWord is the inverse of [HarvestingFromARC].
func (h Harvesting) ARCWord() uint32 { return Wormhole.maskToFuses(h.Tensix) }

// PCIeEndpoint is how firmware uses the PCIe tile that the host is at (tt-umd
// device/tt_device/blackhole_tt_device.cpp).
const PCIeEndpoint = 1

// HarvestingFromTelemetry returns a Blackhole's harvesting. read returns a tag's value, false
// without one: then nothing of its kind is harvested. Bits are set for enabled units: bit i of
// [TagEnabledColumns] is column {1,16,2,15,3,14,4,13,5,12,6,11,7,10}[i], of [TagEnabledEthernet]
// channel i, of [TagEnabledGDDR] bank i.
// [TagPCIeUsage] has two bits for each PCIe tile, [PCIeEndpoint] for the host's.
func HarvestingFromTelemetry(read func(TelemetryTag) (uint32, bool)) Harvesting {
	var h Harvesting
	if v, ok := read(TagEnabledColumns); ok {
		h.Tensix = Blackhole.fusesToMask(^v & 0x3FFF)
	}
	if v, ok := read(TagEnabledEthernet); ok {
		h.Ethernet = ^v & 0x3FFF
	}
	if v, ok := read(TagEnabledGDDR); ok {
		h.DRAM = ^v & 0xFF
	}
	if v, ok := read(TagPCIeUsage); ok {
		h.SecondPCIe = v&3 != PCIeEndpoint && v>>2&3 == PCIeEndpoint
	}
	return h
}

// Telemetry is the inverse of [HarvestingFromTelemetry].
func (h Harvesting) Telemetry() (columns, ethernet, gddr uint32) {
	return ^Blackhole.maskToFuses(h.Tensix) & 0x3FFF, ^h.Ethernet & 0x3FFF, ^h.DRAM & 0xFF
}

func (h Harvesting) check(a Arch) error {
	units := uint(len(a.harvestUnits()))
	all := uint32(1)<<units - 1
	bad := func(what string, mask uint32, why string) error {
		return fmt.Errorf("chip: %s: %w: %s mask %#x: %s", a, ErrHarvesting, what, mask, why)
	}
	switch {
	case h.Tensix&^all != 0:
		return bad("Tensix", h.Tensix, fmt.Sprintf("there are %d rows or columns to harvest", units))
	case h.Tensix == all:
		return bad("Tensix", h.Tensix, "no Tensix tile is left")
	case a == Wormhole && h.DRAM != 0:
		return bad("DRAM", h.DRAM, "DRAM is never harvested on this architecture")
	case a == Wormhole && h.Ethernet != 0:
		return bad("Ethernet", h.Ethernet, "Ethernet is never harvested on this architecture")
	case a == Wormhole && h.SecondPCIe:
		return bad("PCIe", 1, "there is one PCIe tile on this architecture")
	case h.DRAM&^0xFF != 0 || bits.OnesCount32(h.DRAM) > 1:
		return bad("DRAM", h.DRAM, "at most one of 8 banks can be harvested")
	case h.Ethernet&^0x3FFF != 0:
		return bad("Ethernet", h.Ethernet, "there are 14 channels")
	}
	return nil
}
