package emu

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// A host may load each register that tt-kmd, tt-umd or luwen does.
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

// A host may load every word of the documented blocks of registers.
func TestHostLoadsRegisterBlocks(t *testing.T) {
	type block struct {
		what     string
		from, to uint64
	}
	niu := map[chip.Arch][][2]uint64{ // of a tile with processors
		chip.Wormhole: {{0, 0x34}, {0x50, 0x58}, {0x100, 0x13C}, {0x200, 0x400}, {0x400, 0x434}, {0x800, 0x834}, {0xC00, 0xC34}},
		chip.Blackhole: {{0, 0x4C}, {0x60, 0x6C}, {0x100, 0x180}, {0x200, 0x600}, {0x800, 0x84C}, {0x864, 0x86C}, {0x1000, 0x104C},
			{0x1064, 0x106C}, {0x1800, 0x184C}, {0x1864, 0x186C}},
	}
	processors := func(arch chip.Arch, streams uint64) []block {
		end := uint64(0xFFB12220) // Wormhole has none there
		if arch == chip.Blackhole {
			end = 0xFFB1224C
		}
		b := []block{
			{"performance counters", 0xFFB12000, 0xFFB12024},
			{"debug bus and arrays", 0xFFB12054, 0xFFB12080},
			{"debug port", 0xFFB12080, 0xFFB12098},
			{"outputs of performance counters", 0xFFB12100, 0xFFB12128},
			{"soft reset", 0xFFB121B0, 0xFFB121B4},
			{"watchdog", 0xFFB121E0, 0xFFB121EC},
			{"wall clock and time stamps", 0xFFB121F0, 0xFFB12220},
			{"interrupt controller", 0xFFB13000, 0xFFB14000},
			{"reset addresses", 0xFFB12220, end},
			{"streams", 0xFFB40000, 0xFFB40000 + streams*0x1000},
		}
		for _, r := range niu[arch] {
			b = append(b, block{"NIU 0", 0xFFB20000 + r[0], 0xFFB20000 + r[1]}, block{"NIU 1", 0xFFB30000 + r[0], 0xFFB30000 + r[1]})
		}
		return b
	}
	tdma := []block{{"TDMA", 0xFFB11000, 0xFFB11040}, {"TDMA of packer 1", 0xFFB11118, 0xFFB11124}}
	for arch, tiles := range map[chip.Arch]map[chip.TileKind][]block{
		chip.Wormhole: {
			chip.Tensix: append(processors(chip.Wormhole, 64), tdma...),
			chip.Ethernet: append(processors(chip.Wormhole, 32),
				block{"transmit queues", 0xFFB90000, 0xFFB92000}, block{"receive queues", 0xFFB92000, 0xFFB94000},
				block{"control", 0xFFB94000, 0xFFB940A0},
				block{"MAC", 0xFFBA0000, 0xFFBB0000}, block{"PCS", 0xFFBB0000, 0xFFBC0000}),
			chip.DRAM: {{"controller", 0x1_0000_0000, 0x1_0004_0000}, {"NIUs", 0x1_0008_0000, 0x1_0008_1000}},
			chip.ARC: {{"reset unit", 0x8_8003_0000, 0x8_8003_0328}, {"eFuses", 0x8_8004_0000, 0x8_8004_4000},
				{"NIU", 0xF_FFB2_0000, 0xF_FFB2_1000}},
			chip.PCIe: {{"NIU", 0xF_FFB2_0000, 0xF_FFB2_1000}, {"controller", 0x8_FFFE_0000, 0x9_0000_0000}},
		},
		chip.Blackhole: {
			chip.Tensix: append(processors(chip.Blackhole, 64), tdma...),
			chip.Ethernet: append(processors(chip.Blackhole, 32),
				block{"reset addresses and interrupts", 0xFFB14000, 0xFFB14064},
				block{"transmit queues", 0xFFB90000, 0xFFB93000}, block{"receive queues", 0xFFB94000, 0xFFB97000},
				block{"control", 0xFFB98000, 0xFFB98200},
				block{"header table", 0xFFB98200, 0xFFB986F4}, block{"classifier", 0xFFB9C000, 0xFFB9EA20},
				block{"MAC and PCS", 0xFFBA0000, 0xFFBB0000}),
			chip.DRAM: {{"NIU 0", 0xFFB20000, 0xFFB22000}, {"NIU 1", 0xFFB30000, 0xFFB32000}},
			chip.ARC:  {{"reset unit", 0x80030000, 0x80030328}, {"NIU", 0x80050000, 0x80051000}},
			chip.PCIe: {{"controller", 0xF800_0000_0000_0000, 0xF800_0000_0000_4000}, {"NIU", 0xFFFF_FFFF_FF00_0000, 0xFFFF_FFFF_FF00_2000}},
		},
	} {
		for kind, blocks := range tiles {
			r := syncRig(t, arch)
			xy := map[chip.TileKind]chip.XY{chip.Tensix: r.worker(0, 0), chip.Ethernet: r.ethernet(), chip.DRAM: r.topo.DRAMBanks()[0].Endpoint[0],
				chip.ARC: r.topo.ARC(), chip.PCIe: r.topo.PCIe(chip.NOC0)}[kind]
			for _, b := range blocks {
				off := r.point(xy, b.from)
				for at := uint64(0); at < b.to-b.from; at += 4 {
					r.dev.BARLoad(0, off+at, 4)
					if err := r.c.Fault(); err != nil {
						t.Fatalf("%v: %v: %s, at %#x: %v", arch, kind, b.what, b.from+at, err)
					}
				}
			}
		}
		r := syncRig(t, arch)
		eth := r.ethernet()
		r.st(eth, ethTxBase+ethTxSource, 0x30000)
		equal(t, r.ld(eth, ethTxBase+ethTxSource), 0x30000, "%v: the source of a transmit queue after a store", arch)
	}
}

func TestHostLoadsPartsOfRegisters(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v, arc := r.worker(0, 0), r.topo.ARC()
		r.st(v, niu0Base, 0x03020100)
		r.st(v, niu0Base+4, 0x07060504)
		scratch := uint64(0x80030068)
		if arch == chip.Wormhole {
			scratch = 0x8_8003_0068
		}
		r.st(arc, scratch, 0x03020100)
		r.st(arc, scratch+4, 0x07060504)
		for name, at := range map[string]uint64{"a worker's": r.point(v, niu0Base), "the ARC tile's": r.point(arc, scratch)} {
			if name == "a worker's" {
				r.point(v, niu0Base)
			} else {
				r.point(arc, scratch)
			}
			for width, want := range map[int]uint64{1: 0x02, 2: 0x0302, 4: 0x05040302, 8: 0x07060504_03020100} {
				off := at + 2
				if width == 8 {
					off = at
				}
				equal(t, r.dev.BARLoad(0, off, width), want, "%v: %d bytes of %s registers", arch, width, name)
			}
			p := make([]byte, 7)
			if r.dev.BARRead(0, at+1, p); !bytes.Equal(p, []byte{1, 2, 3, 4, 5, 6, 7}) {
				t.Errorf("%v: a block of %s registers: %x", arch, name, p)
			}
		}
		r.dev.BARStore(2, uint64(r.params.PCI.IATUBase)+0x14, 4, 0x12345678)
		equal(t, r.dev.BARLoad(2, uint64(r.params.PCI.IATUBase)+0x16, 2), 0x1234, "%v: half a register of BAR 2", arch)
		r.healthy()
	}
}

func TestHostLoadsController(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	r.st(r.topo.ARC(), 0x8_8003_0060+4*6, dbiEnable)
	for _, off := range []uint64{0, 0x70, dbiControl, 0x700, controllerSize - 4} {
		r.ld(r.topo.PCIe(chip.NOC0), r.params.PCI.NOCBase+off)
		r.healthy()
	}
}

// tt-umd asks routers without a tile, and harvested Ethernet tiles, who they are
// (tests/api/test_noc.cpp).
func TestEdgeTilesOnNOC1(t *testing.T) {
	r := newRig(t, Config{Arch: chip.Blackhole, Synchronous: true, Seed: 1, Harvesting: chip.Harvesting{Ethernet: 1<<12 | 1<<13}})
	for _, c := range []struct {
		what string
		at   chip.XY // on NoC 1
		addr uint64
		raw  chip.XY
	}{
		{"router", chip.XY{X: 15}, 0xFF00_0044, chip.XY{X: 1}},
		{"router", chip.XY{X: 2}, 0xFF00_0044, chip.XY{X: 14}},
		{"harvested Ethernet tile", chip.XY{X: 9, Y: 1}, niu1Base + 0x44, chip.XY{X: 7, Y: 1}},
	} {
		for i, w := range []uint32{uint32(c.addr >> 21), uint32(c.at.X)<<11 | uint32(c.at.Y)<<17, 1 << 3} {
			r.dev.BARStore(0, 0x1FC00000+uint64(4*i), 4, uint64(w))
		}
		got, want := uint32(r.dev.BARLoad(0, c.addr&0x1FFFFF, 4)), chip.Blackhole.Mirror(c.raw)
		if r.healthy(); got&0xFFF != uint32(want.X)|uint32(want.Y)<<6 {
			t.Errorf("%s: %v on NoC 1 is (%d,%d), want %v", c.what, c.at, got&63, got>>6&63, want)
		}
	}
}

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
		equal(t, uint32(r.dev.BARLoad(0, off, 4)), want, "%v: loaded through NoC 1", arch)
		r.dev.BARStore(0, off, 4, 0x12345678)
		r.healthy()
		equal(t, r.ld(v, 0x40010), 0x12345678, "%v: after a store through NoC 1", arch)
	}
}

// Routers of harvested tiles work, so a host can load who they are; nothing else answers.
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
		r.refused(undefined)
	}
}
