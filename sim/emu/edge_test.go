package emu

import (
	"bytes"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
)

// hostTable reads a table of testdata: its rows by architecture.
func hostTable(t *testing.T, file string) map[chip.Arch][][]string {
	rows := map[chip.Arch][][]string{}
	var arch chip.Arch
	for line := range strings.Lines(string(value(os.ReadFile(filepath.Join("testdata", file)))(t))) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutSuffix(line, ":"); ok {
			arch = value(chip.ParseArch(name))(t)
		} else if line != "" && line[0] != '#' {
			rows[arch] = append(rows[arch], regexp.MustCompile("  +").Split(line, 4))
		}
	}
	equal(t, len(rows), len(arches), "%s: architectures", file)
	return rows
}

// constantOf is the value of a constant expression.
func constantOf(t *testing.T, text string) uint64 {
	v := value(types.Eval(token.NewFileSet(), nil, token.NoPos, text))(t)
	n, ok := constant.Uint64Val(v.Value)
	equal(t, ok, true, "%s is a number", text)
	return n
}

// tileCalled is a tile of a name in those tables, or the one at x,y.
func (r *rig) tileCalled(name string) (xy chip.XY) {
	switch name {
	case "worker":
		return r.worker(0, 0)
	case "ethernet":
		return r.ethernet()
	case "dram":
		return r.topo.DRAMBanks()[0].Endpoint[0]
	case "arc":
		return r.topo.ARC()
	case "pcie":
		return r.topo.PCIe(chip.NOC0)
	}
	_, err := fmt.Sscanf(name, "%d,%d", &xy.X, &xy.Y)
	expect.Must(r.t, err)
	return xy
}

// A host may load each register that tt-kmd, tt-umd or luwen does.
func TestHostLoadsRegisters(t *testing.T) {
	for arch, rows := range hostTable(t, "host_loads.txt") {
		r := syncRig(t, arch)
		for _, row := range rows {
			what, addr := row[3], constantOf(t, row[1])
			var got uint64
			if bar, ok := strings.CutPrefix(row[0], "bar"); ok {
				got = r.dev.BARLoad(int(constantOf(t, bar)), addr, 4)
			} else {
				got = uint64(r.ld(r.tileCalled(row[0]), addr))
			}
			if err := r.c.Fault(); err != nil {
				t.Fatalf("%v: %s: %v", arch, what, err)
			}
			if row[2] != "any" {
				equal(t, got, constantOf(t, row[2]), "%v: %s, at %#x", arch, what, addr)
			}
		}
	}
}

// A host may load every word of the documented blocks of registers.
func TestHostLoadsRegisterBlocks(t *testing.T) {
	for arch, rows := range hostTable(t, "host_blocks.txt") {
		for _, kind := range []string{"worker", "ethernet", "dram", "arc", "pcie"} {
			r := syncRig(t, arch)
			for _, row := range rows {
				if !slices.Contains(strings.Split(row[0], ","), kind) {
					continue
				}
				from, to := constantOf(t, row[1]), constantOf(t, row[2])
				off := r.point(r.tileCalled(kind), from)
				for at := uint64(0); at < to-from; at += 4 {
					r.dev.BARLoad(0, off+at, 4)
					if err := r.c.Fault(); err != nil {
						t.Fatalf("%v: %v: %s, at %#x: %v", arch, kind, row[3], from+at, err)
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
