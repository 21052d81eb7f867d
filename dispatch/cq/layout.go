package cq

import (
	"encoding/binary"
	"strconv"
)

var le = binary.LittleEndian

// Layout is the alignments and coordinate words of an architecture.
type Layout uint8

const (
	Wormhole  Layout = 1
	Blackhole Layout = 2
)

// Sizes of both architectures.
const (
	HeaderSize      = 16 // tt-metal cq_commands.hpp, CQ_DISPATCH_CMD_SIZE
	LargeHeaderSize = 32 // RELAY_LINEAR, RELAY_LINEAR_H, WRITE_LINEAR, WRITE_LINEAR_H
	L1Align         = 16 // of data slots, and of a NoC write's source against its destination
)

// Valid says whether l is a known layout.
func (l Layout) Valid() bool { return l == Wormhole || l == Blackhole }

func (l Layout) String() string {
	switch l {
	case Wormhole:
		return "wormhole"
	case Blackhole:
		return "blackhole"
	}
	return "layout " + strconv.Itoa(int(l))
}

// PCIeAlign is the alignment in bytes of prefetcher commands (tt-metal noc_parameters.h,
// PCIE_ALIGNMENT).
func (l Layout) PCIeAlign() int {
	if l == Wormhole {
		return 32
	}
	return 64
}

// DRAMAlign is the alignment in bytes of reads from DRAM (tt-metal noc_parameters.h,
// DRAM_ALIGNMENT).
func (l Layout) DRAMAlign() int { return l.PCIeAlign() }

// Stride rounds n bytes up to the PCIe alignment.
func (l Layout) Stride(n int) int {
	a := l.PCIeAlign()
	return (n + a - 1) &^ (a - 1)
}

// SlotStride is the distance in bytes between data slots of size bytes in a WRITE_PACKED.
func SlotStride(size int) int { return (size + L1Align - 1) &^ (L1Align - 1) }

// NOCXY is the word of one tile in a command (tt-metal noc_parameters.h, NOC_XY_ENCODING).
func (l Layout) NOCXY(x, y uint8) uint32 {
	if l == Wormhole {
		return uint32(y)<<10 | uint32(x)<<4
	}
	return uint32(y)<<6 | uint32(x)
}

// NOCRect is the word of a multicast rectangle (tt-metal noc_parameters.h, NOC_MULTICAST_ENCODING).
// On NoC 1 the corners are swapped.
func (l Layout) NOCRect(x0, y0, x1, y1 uint8) uint32 {
	if l == Wormhole {
		return uint32(x0)<<16 | uint32(y0)<<22 | uint32(x1)<<4 | uint32(y1)<<10
	}
	return uint32(x0)<<12 | uint32(y0)<<18 | uint32(x1) | uint32(y1)<<6
}

// SplitXY is the inverse of NOCXY; ok is false if other bits are set.
func (l Layout) SplitXY(w uint32) (x, y uint8, ok bool) {
	s := l.shift()
	x, y = uint8(w>>s&0x3F), uint8(w>>(s+6)&0x3F)
	return x, y, l.NOCXY(x, y) == w
}

// SplitRect is the inverse of NOCRect; ok is false if other bits are set.
func (l Layout) SplitRect(w uint32) (x0, y0, x1, y1 uint8, ok bool) {
	s := l.shift()
	x1, y1 = uint8(w>>s&0x3F), uint8(w>>(s+6)&0x3F)
	x0, y0 = uint8(w>>(s+12)&0x3F), uint8(w>>(s+18)&0x3F)
	return x0, y0, x1, y1, l.NOCRect(x0, y0, x1, y1) == w
}

// shift skips address bits 32 to 35 on Wormhole.
func (l Layout) shift() uint {
	if l == Wormhole {
		return 4
	}
	return 0
}
