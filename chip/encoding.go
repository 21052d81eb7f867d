package chip

// NOCXY returns the word that names one tile in a NoC request, as it goes into the coordinate
// register of a command buffer ([NIURegs.TargCoord], [NIURegs.RetCoord]) and into dispatch
// commands: y<<10 | x<<4 on Wormhole, whose MID address register also holds address bits 35:32
// below the coordinate, y<<6 | x on Blackhole. Source: tt-isa-documentation */NoC/MemoryMap.md.
func (a Arch) NOCXY(c XY) uint32 {
	return c.Packed() << a.coordShift()
}

// NOCMulticast returns the word that names a rectangle of tiles in a NoC request; see [Arch.NOCXY].
// The corners are encoded as given: software swaps them for NoC 1 ([VirtualRect.Corners]).
func (a Arch) NOCMulticast(start, end XY) uint32 {
	return (start.Packed()<<12 | end.Packed()) << a.coordShift()
}

// ParseNOCXY is the reverse of [Arch.NOCXY]; other bits are ignored.
func (a Arch) ParseNOCXY(w uint32) XY { return UnpackXY(w >> a.coordShift()) }

// ParseNOCMulticast is the reverse of [Arch.NOCMulticast]; other bits are ignored.
func (a Arch) ParseNOCMulticast(w uint32) (start, end XY) {
	w >>= a.coordShift()
	return UnpackXY(w >> 12), UnpackXY(w)
}

func (a Arch) coordShift() uint {
	if a == Wormhole {
		return 4
	}
	return 0
}

// Mirror returns the raw NoC 1 coordinate of the tile with a raw NoC 0 coordinate, and the reverse:
// (9-x, 11-y) on Wormhole, (16-x, 11-y) on Blackhole. A coordinate outside the grid is returned
// unchanged. Source: tt-umd device/arch/*_implementation.hpp.
func (a Arch) Mirror(c XY) XY {
	w, h := a.gridSize()
	if c.X >= w || c.Y >= h {
		return c
	}
	return XY{w - 1 - c.X, h - 1 - c.Y}
}

// gridSize returns the columns and rows of the whole grid.
func (a Arch) gridSize() (w, h uint8) {
	switch a {
	case Wormhole:
		return 10, 12
	case Blackhole:
		return 17, 12
	}
	return 0, 0
}
