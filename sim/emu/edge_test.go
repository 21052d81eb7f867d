package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// A host may load each register that tt-kmd, tt-umd or luwen does, and others that exist: none stops the chip, and those that
// the emulator has answer.
func TestHostLoadsRegisters(t *testing.T) {
	const any = 1 << 40 // whatever it is
	type load struct {
		what string
		bar  int // through a window to the tile if negative
		tile func(*rig) chip.XY
		addr uint64
		want uint64
	}
	arc := func(r *rig) chip.XY { return r.topo.ARC() }
	pcie := func(r *rig) chip.XY { return r.topo.PCIe(chip.NOC0) }
	worker := func(r *rig) chip.XY { return r.worker(0, 0) }
	dram := func(r *rig) chip.XY { return r.topo.DRAMBanks()[0].Endpoint[0] }
	for arch, loads := range map[chip.Arch][]load{
		chip.Wormhole: {
			{"ARC post code", 0, nil, 0x1FF30060, 0xC0DE0001},
			{"ARC scratch 1", 0, nil, 0x1FF30064, 0},
			{"ARC scratch 2", 0, nil, 0x1FF30068, 0},
			{"ARC reference clock, low", 0, nil, 0x1FF300E0, any},
			{"ARC SPI_CNTL", 0, nil, 0x1FF300F8, 0},
			{"ARC_MISC_CNTL", 0, nil, 0x1FF30100, 0},
			{"ARC telemetry pointer", 0, nil, 0x1FF301D0, any},
			{"ARC telemetry values", 0, nil, 0x1FF301D4, any},
			{"ARC queues", 0, nil, 0x1FF301D8, any},
			{"ARC GPIO2_PAD_TRIEN_CNTL", 0, nil, 0x1FF30240, 0},
			{"ARC GPIO2_PAD_DRV_CNTL", 0, nil, 0x1FF30250, 0},
			{"ARC eFuse", 0, nil, 0x1FF42200, 0},
			{"ARC NIU 0 node", 0, nil, 0x1FF5002C, any},
			{"ARC NIU 0 configuration", 0, nil, 0x1FF50100, 1 << 14},
			{"ARC NIU 1 configuration", 0, nil, 0x1FF58100, 1 << 14},
			{"ARC SPI_SR", 0, nil, 0x1FF70028, 0},
			{"ARC PCIe DMA request", 0, nil, 0x1FE80000 + 0x784D4, 0},
			{"the same by BAR 4", 4, nil, 0x1E80000 + 0x784D4, 0},
			{"PCIe NIU 0 node", 0, nil, 0x1FD2002C, any},
			{"PCIe NIU 1 configuration", 0, nil, 0x1FDA0100, 1 << 14},
			{"PCIe counter, tt-kmd", 4, nil, 0x1D02000 + 0x200 + 4*0x39, 0},
			{"PCIe counter of NoC 1, tt-kmd", 4, nil, 0x1D0A000 + 0x200 + 4*0x3, 0},
			{"window configuration", 0, nil, 0x1FC00000 + 8*170, 0},
			{"iATU control 3", 2, nil, 0x1200 + 0x1C, 0},
			{"DMA", 2, nil, 0x00C, 0},
			{"another controller register", 2, nil, 0x8000, 0},
			{"ARC NIU by the NoC", -1, arc, 0xF_FFB2_002C, any},
			{"ARC router by the NoC", -1, arc, 0xF_FFB2_0300, 0},
			{"ARC telemetry by the NoC", -1, arc, 0x8_8003_01D0, any},
			{"ARC logical node by the NoC", -1, arc, 0xF_FFB2_0138, any},
			{"PCIe node by the NoC", -1, pcie, 0xF_FFB2_002C, 3<<6 | 10<<12 | 12<<19 | 1<<28},
			{"PCIe counter by the NoC", -1, pcie, 0xF_FFB2_0200, 0},
			{"DRAM node", -1, dram, 0x1_0009_002C, any},
			{"DRAM counter", -1, dram, 0x1_0009_0200, 0},
			{"DRAM controller", -1, dram, 0x1_0000_0004, 0},
			{"tile node", -1, worker, 0xFFB2002C, any},
			{"tile NIU status", -1, worker, 0xFFB20054, 0},
			{"tile router", -1, worker, 0xFFB30300, 0},
			{"tile performance counter", -1, worker, 0xFFB12100, 0},
			{"debug bus, tt-umd", -1, worker, 0xFFB12054, 0},
			{"debug access to configuration", -1, worker, 0xFFB12058, 0},
		},
		chip.Blackhole: {
			{"PCIe NIU 0 node, tt-kmd", 0, nil, 0x1FD04044, any},
			{"PCIe NIU 0 configuration", 0, nil, 0x1FD04100, 1 << 14},
			{"PCIe counter, tt-kmd", 0, nil, 0x1FD04200 + 4*0x39, 0},
			{"PCIe counter of NoC 1, tt-kmd", 0, nil, 0x1FD14200 + 4*0x33, 0},
			{"another register there", 0, nil, 0x1FD00000, 0},
			{"window configuration", 0, nil, 0x1FC00000 + 12*205, 0},
			{"strided window", 0, nil, 0x1FC00000 + 12*210, 0},
			{"iATU control 1", 2, nil, 0x1000, 0},
			{"iATU, unknown", 2, nil, 0x1024, 0},
			{"another controller register", 2, nil, 0x8000, 0},
			{"PCIe node by the NoC", -1, pcie, 0xFFFF_FFFF_FF00_0044, 2 | 17<<12 | 12<<19 | 1<<28},
			{"PCIe logical node", -1, pcie, 0xFFFF_FFFF_FF00_0148, 19 | 24<<6},
			{"PCIe device control", -1, pcie, 0xF800_0000_0000_0078, any},
			{"PCIe ids", -1, pcie, 0xF800_0000_0000_0000, any},
			{"ARC node", -1, arc, 0x80050044, 8 | 17<<12 | 12<<19 | 1<<28},
			{"ARC logical node", -1, arc, 0x80050148, any},
			{"ARC NIU 1 configuration", -1, arc, 0x80058100, 1 << 14},
			{"ARC post code", -1, arc, 0x80030060, any},
			{"ARC boot status", -1, arc, 0x80030408, 5},
			{"ARC error status", -1, arc, 0x80030410, 0},
			{"ARC queues", -1, arc, 0x8003042C, any},
			{"ARC_MISC_CNTL", -1, arc, 0x80030100, 0},
			{"ARC reference clock, high", -1, arc, 0x800300E4, any},
			{"ARC another register of the reset unit", -1, arc, 0x80030300, 0},
			{"ARC node, tt-umd", -1, arc, 0xFFFF_FFFF_FF00_0044, 8 | 17<<12 | 12<<19 | 1<<28},
			{"DRAM node", -1, dram, 0xFFB20044, any},
			{"DRAM node of NoC 1", -1, dram, 0xFFB30044, any},
			{"L2CPU node", -1, func(*rig) chip.XY { return chip.XY{X: 8, Y: 3} }, 0xFFFF_FFFF_FF00_0044, any},
			{"node of a router without a tile", -1, func(*rig) chip.XY { return chip.XY{X: 14, Y: 0} }, 0xFF00_0044, any},
			{"the same where other tiles have it", -1, func(*rig) chip.XY { return chip.XY{X: 14, Y: 0} }, 0xFFFF_FFFF_FF00_0044, any},
			{"security tile's node", -1, func(*rig) chip.XY { return chip.XY{X: 8, Y: 2} }, 0xFFFF_FFFF_FF00_0044, any},
			{"ARC MSI FIFO", -1, arc, 0x800B0000, 0},
			{"tile logical node", -1, worker, 0xFFB20148, any},
			{"tile NIU status", -1, worker, 0xFFB20064, 0},
			{"tile performance counter", -1, worker, 0xFFB12100, 0},
			{"debug bus, tt-umd", -1, worker, 0xFFB12054, 0},
			{"debug access to configuration", -1, worker, 0xFFB12058, 0},
		},
	} {
		r := syncRig(t, arch)
		for _, l := range loads {
			var got uint64
			if l.bar >= 0 {
				got = r.dev.BARLoad(l.bar, l.addr, 4)
			} else {
				got = uint64(r.ld(l.tile(r), l.addr))
			}
			if err := r.c.Fault(); err != nil {
				t.Fatalf("%v: %s: %v", arch, l.what, err)
			}
			if l.want != any && got != l.want {
				t.Errorf("%v: %s, at %#x, is %#x: want %#x", arch, l.what, l.addr, got, l.want)
			}
		}
	}
}

// A window may use NoC 1, with the coordinates of that NoC.
func TestWindowOnNOC1(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(2, 1)
		r.write(v, 0x40000, pattern(64, 7))
		want := r.ld(v, 0x40010)
		x, y := uint64(v.X), uint64(v.Y)
		var off uint64
		if arch == chip.Wormhole {
			off = 0x0B000000 + 0x40010
			r.dev.BARStore(0, 0x1FC00000+8*166, 8, x<<12|y<<18|1<<36)
		} else {
			off = 0x40010
			r.dev.BARStore(0, 0x1FC00000, 4, 0)
			r.dev.BARStore(0, 0x1FC00004, 4, x<<11|y<<17)
			r.dev.BARStore(0, 0x1FC00008, 4, 1<<3)
		}
		if got := uint32(r.dev.BARLoad(0, off, 4)); got != want {
			t.Errorf("%v: loaded %#x through NoC 1, want %#x", arch, got, want)
		}
		r.dev.BARStore(0, off, 4, 0x12345678)
		r.healthy()
		if got := r.ld(v, 0x40010); got != 0x12345678 {
			t.Errorf("%v: %#x is there after a store through NoC 1", arch, got)
		}
	}
}

// Routers of harvested tiles work, so a host can load who they are; nothing else of such a tile answers. A Blackhole has one of two
// PCIe tiles; its harvested columns of workers have no coordinates of their own.
func TestHostLoadsOfHarvestedTiles(t *testing.T) {
	for arch, places := range map[chip.Arch]struct {
		kind   chip.TileKind
		addr   [2]uint64 // of the id on each NoC; 0: it isn't looked at
		memory uint64
	}{
		chip.Wormhole:  {chip.Tensix, [2]uint64{0xFFB2002C, 0xFFB3002C}, 0},
		chip.Blackhole: {chip.PCIe, [2]uint64{0xFF000044, 0}, 0x1000},
	} {
		r := newRig(t, Config{Arch: arch, Synchronous: true, Harvesting: chip.Harvesting{Tensix: 1}})
		var tiles []chip.XY
		for xy := range r.topo.Tiles(places.kind) {
			if r.topo.Tile(xy).Harvested {
				tiles = append(tiles, xy)
			}
		}
		if len(tiles) == 0 {
			t.Fatalf("%v: no harvested tiles", arch)
		}
		for _, xy := range tiles {
			for noc, addr := range places.addr {
				if addr == 0 {
					continue
				}
				if got, want := r.ld(xy, addr), r.c.nodeID(xy, noc); got != want {
					t.Errorf("%v: %v says of itself on NoC %d %#x, want %#x", arch, xy, noc, got, want)
				}
			}
		}
		r.healthy()
		r.ld(tiles[0], places.memory)
		r.refused(UndefinedBehavior)
	}
}
