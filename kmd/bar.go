package kmd

import "github.com/reprise-tt/reprise/internal/seam"

// Accesses returns a mapping of a BAR as a seam.MMIO, for recorders and observers.
func Accesses(mem []byte) seam.MMIO { return barMemory{deviceMemoryOf(mem)} }

type barMemory struct{ deviceMemory }

func (b barMemory) Load(off uint64, width int) uint64 {
	switch width {
	case 1:
		return uint64(load8(b.at(off)))
	case 2:
		return uint64(load16(b.at(off)))
	case 4:
		return uint64(load32(b.at(off)))
	}
	return load64(b.at(off))
}

func (b barMemory) Store(off uint64, width int, v uint64) {
	switch width {
	case 1:
		store8(b.at(off), uint8(v))
	case 2:
		store16(b.at(off), uint16(v))
	case 4:
		store32(b.at(off), uint32(v))
	default:
		store64(b.at(off), v)
	}
}

func (b barMemory) Read(off uint64, p []byte) { b.read(off, p) }

func (b barMemory) Write(off uint64, p []byte) { b.write(off, p) }
