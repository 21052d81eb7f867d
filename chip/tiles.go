package chip

// Raw NoC 0 coordinates of tiles. Sources: tt-umd tests/soc_descs/wormhole_b0_8x10.yaml and
// blackhole_140_arch.yaml, tt-isa-documentation WormholeB0/NoC/Coordinates.md.

// Tile describes the tile at a raw coordinate.
type Tile struct {
	Kind TileKind
	// Index counts within the kind: Tensix tiles row by row over the unharvested grid, Ethernet
	// tiles by channel, DRAM tiles by controller, the others in order of coordinates.
	Index     int
	Port      int  // which of a DRAM controller's tiles, in the order of virtual coordinates
	Harvested bool // fused off: it must not be used
}

const portsPerBank = 3

// tensixColumns and tensixRows include harvested ones, in ascending order.
func (a Arch) tensixColumns() []uint8 {
	if a == Wormhole {
		return []uint8{1, 2, 3, 4, 6, 7, 8, 9}
	}
	return []uint8{1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16}
}

func (a Arch) tensixRows() []uint8 {
	if a == Wormhole {
		return []uint8{1, 2, 3, 4, 5, 7, 8, 9, 10, 11}
	}
	return []uint8{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
}

func (a Arch) ethernetTiles() []XY {
	if a == Wormhole {
		return []XY{
			{9, 0}, {1, 0}, {8, 0}, {2, 0}, {7, 0}, {3, 0}, {6, 0}, {4, 0},
			{9, 6}, {1, 6}, {8, 6}, {2, 6}, {7, 6}, {3, 6}, {6, 6}, {4, 6},
		}
	}
	return []XY{
		{1, 1}, {16, 1}, {2, 1}, {15, 1}, {3, 1}, {14, 1}, {4, 1},
		{13, 1}, {5, 1}, {12, 1}, {6, 1}, {11, 1}, {7, 1}, {10, 1},
	}
}

func (a Arch) dramTiles() [][portsPerBank]XY {
	if a == Wormhole {
		return [][portsPerBank]XY{
			{{0, 0}, {0, 1}, {0, 11}},
			{{0, 5}, {0, 6}, {0, 7}},
			{{5, 0}, {5, 1}, {5, 11}},
			{{5, 2}, {5, 9}, {5, 10}},
			{{5, 3}, {5, 4}, {5, 8}},
			{{5, 5}, {5, 6}, {5, 7}},
		}
	}
	return [][portsPerBank]XY{
		{{0, 0}, {0, 1}, {0, 11}},
		{{0, 2}, {0, 10}, {0, 3}},
		{{0, 9}, {0, 4}, {0, 8}},
		{{0, 5}, {0, 7}, {0, 6}},
		{{9, 0}, {9, 1}, {9, 11}},
		{{9, 2}, {9, 10}, {9, 3}},
		{{9, 9}, {9, 4}, {9, 8}},
		{{9, 5}, {9, 7}, {9, 6}},
	}
}

func (a Arch) pcieTiles() []XY {
	if a == Wormhole {
		return []XY{{0, 3}}
	}
	return []XY{{2, 0}, {11, 0}}
}

func (a Arch) arcTile() XY {
	if a == Wormhole {
		return XY{0, 10}
	}
	return XY{8, 0}
}

func (a Arch) otherTiles(k TileKind) []XY {
	switch {
	case k == RouterOnly && a == Wormhole:
		return []XY{{0, 2}, {0, 4}, {0, 8}, {0, 9}}
	case k == RouterOnly && a == Blackhole:
		return []XY{
			{1, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {10, 0}, {12, 0}, {13, 0}, {14, 0}, {15, 0}, {16, 0},
			{8, 1}, {8, 4}, {8, 6}, {8, 8}, {8, 10}, {8, 11},
		}
	case k == Security && a == Blackhole:
		return []XY{{8, 2}}
	case k == L2CPU && a == Blackhole:
		return []XY{{8, 3}, {8, 5}, {8, 7}, {8, 9}}
	}
	return nil
}

func (a Arch) tilesOf(k TileKind) []XY {
	var t []XY
	switch k {
	case Tensix:
		for _, y := range a.tensixRows() {
			for _, x := range a.tensixColumns() {
				t = append(t, XY{x, y})
			}
		}
	case Ethernet:
		t = a.ethernetTiles()
	case DRAM:
		for _, c := range a.dramTiles() {
			t = append(t, c[:]...)
		}
	case PCIe:
		t = a.pcieTiles()
	case ARC:
		t = []XY{a.arcTile()}
	default:
		t = a.otherTiles(k)
	}
	return t
}
