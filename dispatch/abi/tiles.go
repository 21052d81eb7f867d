package abi

import "github.com/reprise-tt/reprise/chip"

// Kinds of tiles in Tiles. Source: kernels/include/reprise/watch.h.
const (
	tileL1    = 1
	tileDRAM  = 2
	tileOther = 3
)

const tilesSpan = 32

// Tiles returns a chip's tiles as kernels of this runtime read them: for each NoC, two bits for
// each coordinate that software may use, 0 without a tile.
func Tiles(ch *chip.Chip) []byte {
	const size = tilesSpan * tilesSpan / 4
	b := make([]byte, 2*size)
	for n := range chip.NOC(2) {
		for y := range tilesSpan {
			for x := range tilesSpan {
				raw, err := ch.Translate(n, chip.XY{X: uint8(x), Y: uint8(y)})
				if err != nil {
					continue
				}
				b[int(n)*size+y*tilesSpan/4+x/4] |= kindOf(ch.Tile(raw)) << (2 * (x % 4))
			}
		}
	}
	return b
}

func kindOf(t chip.Tile) byte {
	switch {
	case t.Harvested:
		return 0
	case t.Kind == chip.Tensix:
		return tileL1
	case t.Kind == chip.DRAM:
		return tileDRAM
	case t.Kind == chip.NoTile, t.Kind == chip.RouterOnly:
		return 0
	}
	return tileOther
}
