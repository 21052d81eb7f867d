package abi

import (
	"encoding/binary"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// Source: tt-metal dev_msgs.h (AddressableCoreType).
const (
	watchedEthernet = 1
	watchedPCIe     = 2
	watchedDRAM     = 3
	watchedUnknown  = 5
)

const noCoordinate = 0xFF

// Source: tt-metal metal_context.cpp (populate_core_info_msg).
func (w *WatchedTiles) encode(b []byte, ch *chip.Chip) {
	le := binary.LittleEndian
	host, hostEnd := uint64(0), uint64(0x13FF_FFFF_FFFF_FFFF)
	dram := ch.Params().DRAMBankSize
	if ch.Arch() == chip.Wormhole {
		host, hostEnd = pcieSpace(chip.Wormhole), pcieSpace(chip.Wormhole)+0xFFFE_0000-1
		dram *= 2 // a tile has two banks
	}
	for i, v := range []uint64{host, hostEnd, 0, dram} {
		le.PutUint64(b[w.Bounds+8*uint32(i):], v)
	}
	if ch.Arch() == chip.Wormhole {
		// Software names only Ethernet tiles and workers by virtual coordinates.
		tiles(b[w.Physical:w.Virtual], ch, false, chip.PCIe, chip.DRAM, chip.Ethernet)
		tiles(b[w.Virtual:w.Harvested], ch, true, chip.Ethernet)
	} else {
		// Coordinates of tiles on NoC 1 are virtual ones of workers, so no table has them.
		tiles(b[w.Physical:w.Virtual], ch, false)
		tiles(b[w.Virtual:w.Harvested], ch, true, chip.PCIe, chip.DRAM, chip.Ethernet)
	}
	w.harvested(b, ch)
}

func tiles(table []byte, ch *chip.Chip, virtual bool, kinds ...chip.TileKind) {
	at := 0
	for _, k := range kinds {
		for _, xy := range addressed(ch, k) {
			if virtual {
				xy, _ = ch.VirtualOf(xy)
			}
			if at+3 <= len(table) {
				table[at], table[at+1], table[at+2] = xy.X, xy.Y, map[chip.TileKind]byte{chip.Ethernet: watchedEthernet, chip.PCIe: watchedPCIe,
					chip.DRAM: watchedDRAM}[k]
			}
			at += 3
		}
	}
	for ; at+3 <= len(table); at += 3 {
		table[at], table[at+1], table[at+2] = noCoordinate, noCoordinate, watchedUnknown
	}
}

// addressed returns the raw coordinates of the tiles of a kind that software uses. Blackhole's
// tables have no room for all: of a DRAM bank they have the two by which kernels reach it.
func addressed(ch *chip.Chip, k chip.TileKind) []chip.XY {
	all := slices.Collect(ch.Tiles(k))
	if ch.Arch() == chip.Wormhole {
		return all
	}
	all = slices.DeleteFunc(all, func(xy chip.XY) bool { return ch.Tile(xy).Harvested })
	switch v, _ := ch.VirtualOf(all[0]); k {
	case chip.PCIe:
		all = slices.DeleteFunc(all, func(xy chip.XY) bool { v, _ = ch.VirtualOf(xy); return v != ch.PCIe(chip.NOC0) })
	case chip.DRAM:
		used := map[chip.XY]bool{}
		for _, bank := range ch.DRAMBanks() {
			used[bank.Endpoint[chip.NOC0]], used[bank.Endpoint[chip.NOC1]] = true, true
		}
		all = slices.DeleteFunc(all, func(xy chip.XY) bool { v, _ = ch.VirtualOf(xy); return !used[v] })
	}
	return all
}

func (w *WatchedTiles) harvested(b []byte, ch *chip.Chip) {
	var lines []uint8
	for xy := range ch.Tiles(chip.Tensix) {
		line := xy.X
		if ch.Arch() == chip.Wormhole {
			line = xy.Y
		}
		if ch.Tile(xy).Harvested && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	_, h := ch.Grid()
	end := int(ch.Params().GridWidth) - 1
	if ch.Arch() == chip.Wormhole {
		first, _ := ch.Virtual(chip.Core{})
		end = int(first.Y) + h
	}
	room := int(w.End-w.Harvested) / 2
	for i := range room {
		raw, virtual := byte(noCoordinate), byte(noCoordinate)
		if i < len(lines) {
			raw, virtual = lines[i], byte(end+len(lines)-(i+1))
		}
		b[w.Harvested+uint32(i)], b[w.Harvested+uint32(room+i)] = raw, virtual
	}
}

// Source: kernels/include/reprise/watch.h.
const (
	tileL1    = 1
	tileDRAM  = 2
	tileOther = 3
)

const tilesSpan = 32

// Tiles returns a chip's tiles as this runtime's kernels read them: by NoC, two bits for each
// coordinate that software may use, 0 without a tile.
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
