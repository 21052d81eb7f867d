package chip

import (
	"cmp"
	"slices"
)

// Virtual coordinates (tt-umd device/arch/*_implementation.hpp).
const (
	wormholeTensix    = 18
	blackholeDRAMX    = 17 // the side with all its banks; the other one is next to it
	blackholeDRAMY    = 12
	blackholePCIeX    = 19
	blackholePCIeY    = 24
	blackholeEthernet = 20
	blackholeEthY     = 25
)

// Translate returns the raw NoC 0 coordinate of a coordinate that software uses on NoC n. Harvested
// tiles can be named too, as on silicon. The error is a [*CoordinateError].
//
// On Wormhole each axis is translated on its own, and numbers below 16 are raw coordinates of that
// NoC. On Blackhole all coordinates are translated, equally on both NoCs, except in rows 0 and 1,
// where x is that NoC's raw one. Sources: tt-isa-documentation */NoC/Coordinates.md; tt-umd
// device/coordinates/*_coordinate_manager.cpp, device/soc_descriptor.cpp.
func (c *Chip) Translate(n NOC, v XY) (XY, error) {
	if v.X < virtualSpan && v.Y < virtualSpan && n <= NOC1 {
		if r := c.routes[n][int(v.Y)*virtualSpan+int(v.X)]; r.ok {
			return r.raw, nil
		}
	}
	return XY{}, c.untranslatable(n, v)
}

func (c *Chip) untranslatable(n NOC, v XY) error {
	why := "no tile has it on " + n.String()
	if c.arch == Blackhole && (v.X == 0 || v.X == 9) && v.Y >= 2 && v.Y < maxRows {
		why = "DRAM tiles in these rows are reached at x 17 and 18, y 12 to 23"
	}
	return &CoordinateError{c.arch, "virtual", int(v.X), int(v.Y), why}
}

func (c *Chip) routeTo(n NOC, v, raw XY) {
	c.routes[n][int(v.Y)*virtualSpan+int(v.X)] = route{raw, true}
}

func (c *Chip) routeWormhole() {
	var x, y [virtualSpan]int // raw NoC 0 coordinate + 1
	x[16], x[17] = 1+0, 1+5
	for i, col := range c.arch.tensixColumns() {
		x[wormholeTensix+i] = 1 + int(col)
	}
	y[16], y[17] = 1+0, 1+6
	next := wormholeTensix
	for harvested := range uint32(2) {
		for i, row := range c.arch.tensixRows() {
			if c.h.Tensix>>i&1 == harvested {
				y[next] = 1 + int(row)
				next++
			}
		}
	}
	w, h := c.arch.gridSize()
	for n := NOC0; n <= NOC1; n++ {
		for i := range w {
			x[i] = 1 + int(c.onNOC(n, XY{i, 0}).X)
		}
		for i := range h {
			y[i] = 1 + int(c.onNOC(n, XY{0, i}).Y)
		}
		for vy := range virtualSpan {
			for vx := range virtualSpan {
				if x[vx] != 0 && y[vy] != 0 {
					c.routeTo(n, XY{uint8(vx), uint8(vy)}, XY{uint8(x[vx] - 1), uint8(y[vy] - 1)})
				}
			}
		}
	}
}

func (c *Chip) routeBlackhole() {
	both := func(v, raw XY) {
		c.routeTo(NOC0, v, raw)
		c.routeTo(NOC1, v, raw)
	}
	w, _ := c.arch.gridSize()
	for x := range w {
		for y := range uint8(2) {
			c.routeTo(NOC0, XY{x, y}, XY{x, y})
			c.routeTo(NOC1, XY{x, y}, XY{w - 1 - x, y})
		}
	}
	slots := c.arch.tensixColumns()
	to := slices.Concat(c.columns, c.harvestedColumns())
	for _, y := range c.arch.tensixRows() {
		for i, x := range slots {
			both(XY{x, y}, XY{to[i], y})
		}
		both(XY{8, y}, XY{8, y})
	}
	channel := uint8(0)
	for i, raw := range c.arch.ethernetTiles() {
		// The tables have twelve channels, and products no more. Further ones keep their raw names.
		if c.h.Ethernet>>i&1 == 0 && blackholeEthernet+channel < virtualSpan {
			both(XY{blackholeEthernet + channel, blackholeEthY}, raw)
			channel++
		}
	}
	both(XY{blackholePCIeX, blackholePCIeY}, c.pcie)
	tiles := c.arch.dramTiles()
	for side, banks := range c.dramSlots() {
		for slot, bank := range banks {
			for port, raw := range tiles[bank] {
				both(dramSlot(side, slot, port), raw)
			}
		}
	}
}

// harvestedColumns follow the working ones in reverse order of fuses.
func (c *Chip) harvestedColumns() []uint8 {
	var cols []uint8
	for i, x := range c.arch.tensixColumns() {
		if c.h.Tensix>>i&1 != 0 {
			cols = append(cols, x)
		}
	}
	order := c.arch.fuseOrder()
	slices.SortFunc(cols, func(a, b uint8) int {
		return -cmp.Compare(slices.Index(order, a), slices.Index(order, b))
	})
	return cols
}

// VirtualOf returns the name of the tile at a raw coordinate, which its NOC_ID_LOGICAL register
// holds: virtual where there is one, otherwise raw; false outside the grid.
func (c *Chip) VirtualOf(raw XY) (XY, bool) {
	t := c.Tile(raw)
	if t.Kind == NoTile {
		return XY{}, false
	}
	if c.arch == Wormhole && t.Kind != Tensix && t.Kind != Ethernet {
		return raw, true
	}
	for i := virtualSpan*virtualSpan - 1; i >= 0; i-- {
		if r := c.routes[NOC0][i]; r.ok && r.raw == raw {
			return XY{uint8(i % virtualSpan), uint8(i / virtualSpan)}, true
		}
	}
	return raw, true
}

// NodeID returns the NOC_NODE_ID register of the tile at a raw NoC 0 coordinate: its raw coordinate
// on n, the grid's size, and on NoC 0 the direction bit (tt-isa-documentation
// WormholeB0/NoC/MemoryMap.md).
func (c *Chip) NodeID(n NOC, raw XY) uint32 {
	w, h := c.arch.gridSize()
	id := uint32(w)<<NodeIDWidthShift | uint32(h)<<NodeIDHeightShift
	if n == NOC0 {
		return id | raw.Packed() | NodeIDNOC0
	}
	return id | c.arch.Mirror(raw).Packed()
}
