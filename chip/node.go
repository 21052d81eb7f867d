package chip

// The registers in which a tile's network interface identifies itself.

// VirtualOf returns the coordinate by which software names the tile at a raw coordinate, which is
// also what the tile's NOC_ID_LOGICAL register holds: virtual for tiles that have a virtual name,
// otherwise raw. False outside the grid.
func (c *Chip) VirtualOf(raw XY) (XY, bool) {
	t := c.Tile(raw)
	if t.Kind == NoTile {
		return XY{}, false
	}
	if c.arch == Wormhole && t.Kind != Tensix && t.Kind != Ethernet {
		return raw, true
	}
	// Virtual coordinates are at the far end of both axes.
	for i := virtualSpan*virtualSpan - 1; i >= 0; i-- {
		if r := c.routes[NOC0][i]; r.ok && r.raw == raw {
			return XY{uint8(i % virtualSpan), uint8(i / virtualSpan)}, true
		}
	}
	return raw, true
}

// NodeID returns the NOC_NODE_ID register of the tile at a raw NoC 0 coordinate: its raw coordinate
// on n, the size of the grid, and on NoC 0 the direction bit. Source: tt-isa-documentation
// WormholeB0/NoC/MemoryMap.md.
func (c *Chip) NodeID(n NOC, raw XY) uint32 {
	w, h := c.arch.gridSize()
	id := uint32(w)<<NodeIDWidthShift | uint32(h)<<NodeIDHeightShift
	if n == NOC0 {
		return id | raw.Packed() | NodeIDNOC0
	}
	return id | c.arch.Mirror(raw).Packed()
}

// TranslationTables returns the words of a Wormhole's coordinate translation registers on n
// ([NIURegs.TranslateX], [NIURegs.TranslateY]): 32 entries of 4 bits for each axis, giving raw
// coordinates of that NoC. On other architectures, whose tables work differently, it returns false.
// Source: tt-isa-documentation WormholeB0/NoC/MemoryMap.md.
func (c *Chip) TranslationTables(n NOC) (x, y [4]uint32, ok bool) {
	if c.arch != Wormhole || n > NOC1 {
		return x, y, false
	}
	put := func(words *[4]uint32, i int, v uint8) { words[i/8] |= uint32(v&15) << (i % 8 * 4) }
	for i := range virtualSpan {
		vx, vy := uint8(i), uint8(i)
		if i >= 16 { // entries below are the identity, in the grid or not
			if r := c.routes[n][16*virtualSpan+i]; r.ok {
				vx = c.onNOC(n, r.raw).X
			} else {
				vx = 0
			}
			if r := c.routes[n][i*virtualSpan+16]; r.ok {
				vy = c.onNOC(n, r.raw).Y
			} else {
				vy = 0
			}
		}
		put(&x, i, vx)
		put(&y, i, vy)
	}
	return x, y, true
}
