package chip

import (
	"fmt"
	"math/bits"
	"slices"
)

// Harvesting says which units of a chip are fused off.
type Harvesting struct {
	// Tensix has a bit per row on Wormhole and per column on Blackhole, from the smallest raw one
	// up.
	Tensix uint32
	DRAM   uint32 // a bit per bank (Blackhole, at most one set)
	// Ethernet has a bit per channel (Blackhole). Products have at least two set: only twelve
	// channels have virtual coordinates.
	Ethernet uint32
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

// HarvestingFromTelemetry returns a Blackhole's harvesting. read returns a tag's value, false
// without one: then nothing of its kind is harvested. Bits are set for enabled units: bit i of
// [TagEnabledColumns] is column {1,16,2,15,3,14,4,13,5,12,6,11,7,10}[i], of [TagEnabledEthernet]
// channel i, of [TagEnabledGDDR] bank i.
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
	case h.DRAM&^0xFF != 0 || bits.OnesCount32(h.DRAM) > 1:
		return bad("DRAM", h.DRAM, "at most one of 8 banks can be harvested")
	case h.Ethernet&^0x3FFF != 0:
		return bad("Ethernet", h.Ethernet, "there are 14 channels")
	}
	return nil
}
