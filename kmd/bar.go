package kmd

import "github.com/reprise-tt/reprise/internal/seam"

// Accesses returns a mapping of a BAR as a seam.MMIO, for recorders and observers.
func Accesses(mem []byte) seam.MMIO { return deviceMemoryOf(mem) }

func (d deviceMemory) Load(off uint64, width int) uint64 {
	switch width {
	case 1:
		return uint64(load8(d.at(off)))
	case 2:
		return uint64(load16(d.at(off)))
	case 4:
		return uint64(load32(d.at(off)))
	}
	return load64(d.at(off))
}

func (d deviceMemory) Store(off uint64, width int, v uint64) {
	switch width {
	case 1:
		store8(d.at(off), uint8(v))
	case 2:
		store16(d.at(off), uint16(v))
	case 4:
		store32(d.at(off), uint32(v))
	default:
		store64(d.at(off), v)
	}
}
