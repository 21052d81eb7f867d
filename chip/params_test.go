package chip

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

func TestParams(t *testing.T) {
	wh, bh := Wormhole.Params(), Blackhole.Params()
	for _, tc := range []struct {
		name   string
		wh, bh uint64 // found
		w, b   uint64 // wanted
	}{
		{"DRAM alignment", uint64(wh.Align.DRAM()), uint64(bh.Align.DRAM()), 32, 64},
		{"PCIe alignment", uint64(wh.Align.PCIe()), uint64(bh.Align.PCIe()), 32, 64},
		{"outbound region 1", uint64(wh.PCI.IATUBase + wh.PCI.IATUStride), uint64(bh.PCI.IATUBase + bh.PCI.IATUStride), 0x1400, 0x1200},
		{"window registers' end", wh.WindowRegister(186), bh.WindowRegister(210), 0x1FC005D0, 0x1FC009D8},
		{"TRISC override", uint64(wh.TRISCResetPCOverride), uint64(bh.TRISCResetPCOverride), 0xFFEF0000 + 4*161, 0xFFB12234},
		{"NCRISC override", uint64(wh.NCRISCResetPCOverride), uint64(bh.NCRISCResetPCOverride), 0xFFEF0000 + 4*163, 0xFFB1223C},
		{"NCRISC reset PC", uint64(wh.ResetPCRegister[NCRISC]), uint64(bh.ResetPCRegister[NCRISC]), 0xFFEF0000 + 4*162, 0xFFB12238},
		{"TRISC0 reset PC", uint64(wh.ResetPCRegister[TRISC0]), uint64(bh.ResetPCRegister[TRISC0]), 0xFFEF0000 + 4*158, 0xFFB12228},
		{"telemetry table", uint64(wh.ARC.TelemetryTable), uint64(bh.ARC.TelemetryTable), 0x1D0, 0x434},
	} {
		equal(t, tc.wh, tc.w, "%s", tc.name)
		equal(t, tc.bh, tc.b, "%s", tc.name)
	}
	equal(t, wh.LocalRAMSize, [5]uint32{4096, 4096, 2048, 2048, 2048}, "Wormhole local RAM")
	equal(t, bh.LocalRAMSize, [5]uint32{8192, 8192, 4096, 4096, 4096}, "Blackhole local RAM")
	if Arch(0).Params() != nil {
		t.Error("no architecture has parameters")
	}
	wh.L1Size, wh.Windows[0].Count = 0, 0
	if again := Wormhole.Params(); again.L1Size == 0 || again.Windows[0].Count == 0 {
		t.Error("Params shares state between callers")
	}
}

func TestResetBits(t *testing.T) {
	for _, a := range []Arch{Wormhole, Blackhole} {
		p, all := a.Params(), uint32(0)
		for r := range Processor(NumProcessors) {
			all |= r.ResetBit()
		}
		equal(t, p.ResetAll, all, "%s", a)
		equal(t, p.ResetAllButBRISC, all&^BRISC.ResetBit(), "%s", a)
		equal(t, all, 0x47800, "%s", a)
	}
	equal(t, Processor(5).ResetBit(), 0, "there is no sixth processor")
}

func TestNIURegisters(t *testing.T) {
	wh, bh := Wormhole.Params().NIU, Blackhole.Params().NIU
	for _, tc := range []struct {
		name         string
		wh, bh, w, b uint32
	}{
		{"NoC 1", wh.Reg(NOC1, 0), bh.Reg(NOC1, 0), 0xFFB30000, 0xFFB30000},
		{"target, buffer 1", wh.Command(NOC0, 1, wh.TargAddrLo), bh.Command(NOC0, 1, bh.TargAddrLo), 0xFFB20400, 0xFFB20800},
		{"start, NoC 1 buffer 3", wh.Command(NOC1, 3, wh.CmdCtrl), bh.Command(NOC1, 3, bh.CmdCtrl), 0xFFB30C28, 0xFFB31840},
		{"counter 1", wh.Counter(NOC0, WrAckReceived), bh.Counter(NOC0, WrAckReceived), 0xFFB20204, 0xFFB20204},
		{"counter 2, NoC 1", wh.Counter(NOC1, RdRespReceived), bh.Counter(NOC1, RdRespReceived), 0xFFB30208, 0xFFB30208},
	} {
		equal(t, tc.wh, tc.w, "%s", tc.name)
		equal(t, tc.bh, tc.b, "%s", tc.name)
	}
}

func TestStreams(t *testing.T) {
	wh, bh := Wormhole.Params().Stream, Blackhole.Params().Stream
	for _, tc := range []struct {
		r    StreamReg
		w, b uint32
	}{
		{RemoteSrc, 0x000, 0x010}, {RemoteDestBufStart, 0x00C, 0x020}, {RemoteDestBufSize, 0x010, 0x028},
		{SpaceAvailableUpdate, 0x088, 0x438}, {SpaceAvailable, 0x100, 0x4A4},
	} {
		for s, off := range map[*StreamParams]uint32{&wh: tc.w, &bh: tc.b} {
			addr := s.Reg(48, tc.r)
			if addr != 0xFFB70000+off {
				t.Errorf("register %d of stream 48 at %#x, want offset %#x", tc.r, addr, off)
			}
		}
	}
	if wh.Reg(64, RemoteSrc) != NoRegister || wh.Reg(-1, RemoteSrc) != NoRegister || wh.Reg(0, 9) != NoRegister {
		t.Error("registers that do not exist have addresses")
	}
	value := uint32(0)
	for _, step := range []struct {
		n    int32
		want uint32
	}{{8, 8}, {3, 11}, {-5, 6}, {-8, 0x1FFFE}, {2, 0}} { // as measured on both chips' simulators
		value = (value + StreamUpdate(step.n)>>6) & (1<<StreamCounterBits - 1)
		equal(t, value, step.want, "after %+d", step.n)
	}
}

func TestNames(t *testing.T) {
	for s, want := range map[string]Arch{
		"wormhole": Wormhole, "Wormhole_B0": Wormhole, "WH": Wormhole, "blackhole": Blackhole, "bh": Blackhole,
	} {
		equal(t, expect.Value(ParseArch(s))(t), want, "%q", s)
	}
	expect.Error(t, expect.ErrOf(ParseArch("grayskull")))
	got := fmt.Sprint(Wormhole, Blackhole, Arch(9), NOC1, NOC1.Other(), BRISC, NCRISC, TRISC2, Processor(7), XY{1, 2},
		Core{3, 4}, Tensix, NoTile, L2CPU, TileKind(99), Relaxed, Strict, Posted, Ordering(3))
	want := "wormhole blackhole arch(9) NoC 1 NoC 0 BRISC NCRISC TRISC2 processor(7) (1,2) (3,4) Tensix no tile L2CPU " +
		"tile kind(99) relaxed strict posted ordering(3)"
	equal(t, got, want, "names")
}

func TestTileCounts(t *testing.T) {
	for _, tc := range []struct {
		a    Arch
		want map[TileKind]int
	}{
		{Wormhole, map[TileKind]int{Tensix: 80, Ethernet: 16, DRAM: 18, PCIe: 1, ARC: 1, RouterOnly: 4}},
		{Blackhole, map[TileKind]int{
			Tensix: 140, Ethernet: 14, DRAM: 24, PCIe: 2, ARC: 1, RouterOnly: 18, Security: 1, L2CPU: 4,
		}},
	} {
		c := mustNew(t, tc.a, Harvesting{})
		got := map[TileKind]int{}
		w, h := c.Params().GridWidth, c.Params().GridHeight
		for y := range h {
			for x := range w {
				got[c.Kind(XY{uint8(x), uint8(y)})]++
			}
		}
		expect.NoDiff(t, got, tc.want, "%s", tc.a)
		for k, n := range tc.want {
			equal(t, len(slices.Collect(c.Tiles(k))), n, "%s: %s tiles", tc.a, k)
		}
		equal(t, c.Kind(XY{uint8(w), 0}), NoTile, "%s: outside the grid lies", tc.a)
	}
}

func TestEthernetChannels(t *testing.T) {
	wh, bh := mustNew(t, Wormhole, Harvesting{}), mustNew(t, Blackhole, Harvesting{Ethernet: 1<<1 | 1<<13})
	full := mustNew(t, Blackhole, Harvesting{})
	for _, tc := range []struct {
		c       *Chip
		channel int
		raw, v  XY
	}{
		{wh, 0, XY{9, 0}, XY{25, 16}}, {wh, 1, XY{1, 0}, XY{18, 16}}, {wh, 8, XY{9, 6}, XY{25, 17}}, {wh, 15, XY{4, 6}, XY{21, 17}},
		{bh, 0, XY{1, 1}, XY{20, 25}}, {bh, 2, XY{2, 1}, XY{21, 25}}, {bh, 12, XY{7, 1}, XY{31, 25}},
		{bh, 1, XY{16, 1}, XY{16, 1}}, {bh, 13, XY{10, 1}, XY{10, 1}}, // harvested channels keep their raw names
		{full, 11, XY{11, 1}, XY{31, 25}}, {full, 12, XY{7, 1}, XY{7, 1}}, {full, 13, XY{10, 1}, XY{10, 1}}, // and so do those beyond twelve
	} {
		tile := tc.c.Tile(tc.raw)
		equal(t, tile.Kind, Ethernet, "%s", tc.raw)
		equal(t, tile.Index, tc.channel, "%s", tc.raw)
		if v, _ := tc.c.VirtualOf(tc.raw); v != tc.v {
			t.Errorf("channel %d: virtual %s, want %s", tc.channel, v, tc.v)
		}
	}
}

func TestHarvestedColumnOrder(t *testing.T) {
	c := mustNew(t, Blackhole, Harvesting{Tensix: 1<<0 | 1<<13 | 1<<7}) // columns 1, 16 and 10: fuses 0, 1 and 13
	for v, want := range map[uint8]uint8{1: 2, 6: 7, 7: 11, 10: 12, 13: 15, 14: 10, 15: 16, 16: 1} {
		got, err := c.Translate(NOC0, XY{v, 5})
		if err != nil || got != (XY{want, 5}) {
			t.Errorf("column %d leads to %s (%v), want %d", v, got, err, want)
		}
	}
}

func TestFuseOrder(t *testing.T) {
	for i, row := range []int{11, 1, 10, 2, 9, 3, 8, 4, 7, 5} {
		h := HarvestingFromARC(1 << i)
		c := mustNew(t, Wormhole, h)
		if !c.Tile(XY{1, uint8(row)}).Harvested || h.ARCWord() != 1<<i {
			t.Errorf("fuse %d does not harvest row %d: %+v", i, row, h)
		}
	}
	for i, column := range []int{1, 16, 2, 15, 3, 14, 4, 13, 5, 12, 6, 11, 7, 10} {
		h := HarvestingFromTelemetry(func(tag TelemetryTag) (uint32, bool) { return ^uint32(1 << i), tag == TagEnabledColumns })
		c := mustNew(t, Blackhole, h)
		if columns, _, _ := h.Telemetry(); !c.Tile(XY{uint8(column), 2}).Harvested || columns != 0x3FFF&^(1<<i) {
			t.Errorf("fuse %d does not harvest column %d: %+v", i, column, h)
		}
	}
	tags := map[TelemetryTag]uint32{TagEnabledColumns: 0x3FFF, TagEnabledEthernet: 0x0FFF, TagEnabledGDDR: 0xEF, TagPCIeUsage: 4}
	read := func(tag TelemetryTag) (uint32, bool) { v, ok := tags[tag]; return v, ok }
	h := HarvestingFromTelemetry(read)
	equal(t, h, (Harvesting{DRAM: 1 << 4, Ethernet: 3 << 12, SecondPCIe: true}), "with tags")
	if c := mustNew(t, Blackhole, h); !c.Tile(XY{2, 0}).Harvested || c.Tile(XY{11, 0}).Harvested {
		t.Error("PCIe")
	}
	c, e, g := h.Telemetry()
	equal(t, c, 0x3FFF, "Tensix")
	equal(t, e, 0x0FFF, "Ethernet")
	equal(t, g, 0xEF, "GDDR")
	clear(tags)
	equal(t, HarvestingFromTelemetry(read), (Harvesting{}), "without tags")
}

func TestHarvestingRefused(t *testing.T) {
	for _, tc := range []struct {
		a Arch
		h Harvesting
	}{
		{Wormhole, Harvesting{Tensix: 1 << 10}}, {Wormhole, Harvesting{Tensix: 0x3FF}}, {Wormhole, Harvesting{DRAM: 1}},
		{Wormhole, Harvesting{Ethernet: 1}}, {Wormhole, Harvesting{SecondPCIe: true}}, {Blackhole, Harvesting{Tensix: 1 << 14}},
		{Blackhole, Harvesting{Tensix: 0x3FFF}}, {Blackhole, Harvesting{DRAM: 3}}, {Blackhole, Harvesting{DRAM: 0x100}},
		{Blackhole, Harvesting{Ethernet: 1 << 14}},
	} {
		expect.Fails(t, expect.ErrOf(New(tc.a, tc.h)), ErrHarvesting, "%s %+v", tc.a, tc.h)
	}
	if _, err := New(3, Harvesting{}); !errors.Is(err, ErrUnknownArch) {
		t.Error(err)
	}
}

func TestWormholeBanks(t *testing.T) {
	c := mustNew(t, Wormhole, Harvesting{Tensix: 5})
	banks := c.DRAMBanks()
	if len(banks) != 12 {
		t.Fatalf("%d banks", len(banks))
	}
	workers := []XY{{0, 11}, {0, 1}, {0, 5}, {0, 7}, {5, 1}, {5, 11}, {5, 2}, {5, 9}, {5, 8}, {5, 3}, {5, 5}, {5, 7}}
	for i, b := range banks {
		if b.Index != i || b.Controller != i/2 || b.Offset != uint64(i&1)<<30 || b.Size != 1<<30 {
			t.Errorf("bank %d: %+v", i, b)
		}
		equal(t, b.Endpoint, [2]XY{workers[i], {9 - workers[i].X, 11 - workers[i].Y}}, "bank %d: endpoints", i)
	}
	checkBanks(t, c)
}

func TestBlackholeBanks(t *testing.T) {
	full := mustNew(t, Blackhole, Harvesting{})
	ports := [][2]uint8{{2, 1}, {0, 1}, {0, 1}, {0, 1}, {2, 1}, {2, 1}, {2, 1}, {2, 1}}
	for i, b := range full.DRAMBanks() {
		x, y := uint8(17+i/4), uint8(12+3*(i%4))
		want := [2]XY{{x, y + ports[i][0]}, {x, y + ports[i][1]}}
		if b.Endpoint != want || b.Controller != i || b.Size != 0xFF000000 || b.Offset != 0 {
			t.Errorf("bank %d: %+v, want endpoints %v", i, b, want)
		}
	}
	checkBanks(t, full)
	// First port of each bank that is left, in order: the side with all banks at 17, the opposite
	// bank last.
	for k, want := range map[int][]XY{
		0: {{18, 12}, {18, 15}, {18, 18}, {17, 21}, {17, 12}, {17, 15}, {17, 18}},
		2: {{18, 12}, {18, 15}, {18, 18}, {17, 12}, {17, 15}, {17, 21}, {17, 18}},
		3: {{18, 12}, {18, 15}, {18, 18}, {17, 12}, {17, 15}, {17, 18}, {17, 21}},
		4: {{17, 21}, {17, 12}, {17, 15}, {17, 18}, {18, 12}, {18, 15}, {18, 18}},
		7: {{17, 12}, {17, 15}, {17, 18}, {17, 21}, {18, 12}, {18, 15}, {18, 18}},
	} {
		c := mustNew(t, Blackhole, Harvesting{DRAM: 1 << k})
		var got []XY
		for _, b := range c.DRAMBanks() {
			got = append(got, b.Ports[0])
		}
		expect.NoDiff(t, got, want, "bank %d harvested", k)
		checkBanks(t, c)
		gone, err := c.Translate(NOC0, XY{18, 21})
		if tile := c.Tile(gone); err != nil || tile.Index != k || !tile.Harvested {
			t.Errorf("bank %d harvested: the last slot leads to %s %+v (%v)", k, gone, tile, err)
		}
	}
}

func checkBanks(t *testing.T, c *Chip) {
	t.Helper()
	for i, b := range c.DRAMBanks() {
		equal(t, b.Index, i, "index of bank %d", i)
		for port, v := range b.Ports {
			raw, err := c.Translate(NOC0, v)
			if tile := c.Tile(raw); err != nil || tile.Kind != DRAM || tile.Index != b.Controller || tile.Port != port || tile.Harvested {
				t.Errorf("bank %d port %d at %s leads to %s %+v (%v)", i, port, v, raw, tile, err)
			}
		}
		for n, v := range b.Endpoint {
			raw, err := c.Translate(NOC(n), v)
			if tile := c.Tile(raw); err != nil || tile.Kind != DRAM || tile.Index != b.Controller {
				t.Errorf("bank %d at %s leads to %s on NoC %d (%v)", i, v, raw, n, err)
			}
		}
		equal(t, b.HostEndpoint, b.Endpoint[NOC0], "bank %d: host endpoint", i)
	}
}

func TestPCIeAndARC(t *testing.T) {
	wh, bh := mustNew(t, Wormhole, Harvesting{}), mustNew(t, Blackhole, Harvesting{})
	equal(t, wh.PCIe(NOC0), XY{0, 3}, "wh.PCIe(NOC0)")
	equal(t, wh.PCIe(NOC1), XY{9, 8}, "wh.PCIe(NOC1)")
	equal(t, wh.ARC(), XY{0, 10}, "wh.ARC()")
	equal(t, bh.PCIe(NOC0), XY{19, 24}, "bh.PCIe(NOC0)")
	equal(t, bh.PCIe(NOC1), XY{19, 24}, "bh.PCIe(NOC1)")
	equal(t, bh.ARC(), XY{8, 0}, "bh.ARC()")
	for _, n := range []NOC{NOC0, NOC1} {
		expect.Equal(t, expect.Value(bh.Translate(n, bh.PCIe(n)))(t), XY{2, 0}, "PCIe on %s", n)
	}
	if !bh.Tile(XY{11, 0}).Harvested || bh.Tile(XY{2, 0}).Harvested {
		t.Error("the PCIe tile that is not in use is not marked")
	}
}

func TestMachinesHangTogether(t *testing.T) {
	want := map[string][3]int{ // chips, with PCI, links
		"n150": {1, 1, 0}, "n300": {2, 1, 2}, "t3000": {8, 4, 20}, "galaxy-wh": {32, 32, 256}, "p100": {1, 1, 0}, "p150": {1, 1, 0},
		"p300": {2, 2, 2}, "quietbox": {4, 4, 16}, "quietbox2": {4, 4, 8}, "galaxy-bh": {32, 32, 104},
	}
	for _, m := range Machines() {
		pci := 0
		channels := make([]int, len(m.Chips))
		next := map[int][]int{}
		used := map[[2]int]bool{}
		for i, c := range m.Chips {
			top, err := New(m.Arch, c.Harvesting)
			if err != nil {
				t.Fatalf("%s: chip %d: %v", m.Name, i, err)
			}
			for raw := range top.Tiles(Ethernet) {
				if !top.Tile(raw).Harvested {
					channels[i]++
				}
			}
			if c.PCI {
				pci++
			}
		}
		for _, l := range m.Links {
			for _, e := range [2][2]int{{l.Chip, l.Channel}, {l.PeerChip, l.PeerChannel}} {
				if e[1] >= channels[e[0]] || used[e] {
					t.Errorf("%s: link %v: channel %d of chip %d is used or doesn't work", m.Name, l, e[1], e[0])
				}
				used[e] = true
			}
			next[l.Chip], next[l.PeerChip] = append(next[l.Chip], l.PeerChip), append(next[l.PeerChip], l.Chip)
		}
		seen := map[int]bool{0: true}
		for q := []int{0}; len(q) > 0; q = q[1:] {
			for _, n := range next[q[0]] {
				if !seen[n] {
					seen[n] = true
					q = append(q, n)
				}
			}
		}
		got := [3]int{len(m.Chips), pci, len(m.Links)}
		equal(t, got, want[m.Name], "%s", m.Name)
		equal(t, len(seen), len(m.Chips), "%s", m.Name)
		equal(t, m.Shape[0]*m.Shape[1], len(m.Chips), "%s: chips of %v", m.Name, m.Shape)
	}
	if _, ok := MachineNamed("abacus"); ok {
		t.Error("there is a machine called abacus")
	}
}
