package abi_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// The watcher's tables name every tile that kernels reach, in the coordinates in which they do, and
// harvested rows and columns.
func TestWatchedTiles(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		arch              chip.Arch
		h                 chip.Harvesting
		host, dram        uint64
		physical, virtual int // tiles
		harvested         []byte
	}{
		{chip.Blackhole, chip.Harvesting{}, 0, 0xFF000000, 0, 29, []byte{0xFF, 0xFF, 0xFF, 0xFF}},
		{chip.Blackhole, chip.Harvesting{Tensix: 0x3, DRAM: 0x80}, 0, 0xFF000000, 0, 29, nil},
		{chip.Wormhole, chip.Harvesting{}, 0x800000000, 1 << 31, 35, 16, []byte{0xFF, 0xFF, 0xFF, 0xFF}},
		{chip.Wormhole, chip.Harvesting{Tensix: 1 << 3}, 0x800000000, 1 << 31, 35, 16, nil},
	} {
		ch, err := chip.New(c.arch, c.h)
		if err != nil {
			t.Fatal(err)
		}
		b := abi.Of("2026-03-12", c.arch).EncodeInfo(ch, chip.Core{}, true)
		count := func(b []byte) (n int, kinds [6]int) {
			for ; len(b) >= 3; b = b[3:] {
				kinds[b[2]]++
				if b[2] != 5 {
					n++
				}
			}
			return n, kinds
		}
		physical, _ := count(b[0x20:0x89])
		virtual, kinds := count(b[0x89:0xE0])
		if le.Uint64(b) != c.host || le.Uint64(b[24:]) != c.dram || physical != c.physical || virtual != c.virtual {
			t.Errorf("%v %+v: host memory at %#x, DRAM up to %#x, %d and %d tiles", c.arch, c.h, le.Uint64(b), le.Uint64(b[24:]), physical, virtual)
		}
		if c.arch == chip.Blackhole {
			if kinds[2] != 1 || kinds[3] == 0 {
				t.Errorf("%v %+v: %d PCIe and %d DRAM tiles", c.arch, c.h, kinds[2], kinds[3])
			}
			for _, bank := range ch.DRAMBanks() {
				for _, xy := range bank.Endpoint {
					if !slices.ContainsFunc([]int{0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63, 66, 69, 72, 75, 78,
						81, 84}, func(i int) bool { return slices.Equal(b[0x89+i:][:3], []byte{xy.X, xy.Y, 3}) }) {
						t.Errorf("%v %+v: no DRAM tile %v", c.arch, c.h, xy)
					}
				}
			}
		}
		switch got := b[0xE0:0xE4]; {
		case c.harvested != nil && !slices.Equal(got, c.harvested):
			t.Errorf("%v %+v: harvested % x", c.arch, c.h, got)
		case c.harvested == nil && (got[0] == 0xFF || got[2] == 0xFF):
			t.Errorf("%v %+v: nothing is harvested: % x", c.arch, c.h, got)
		}
	}
}
