package chip

import (
	"fmt"
	"testing"
)

// TestParams protects constants of both chips, figure by figure.
func TestParams(t *testing.T) {
	wh, bh := Wormhole.Params(), Blackhole.Params()
	for _, tc := range []struct {
		name   string
		wh, bh uint64 // found
		w, b   uint64 // wanted
	}{
		{"L1", uint64(wh.L1Size), uint64(bh.L1Size), 1499136, 1572864},
		{"Ethernet L1", uint64(wh.EthernetL1Size), uint64(bh.EthernetL1Size), 262144, 524288},
		{"local RAM", uint64(wh.LocalRAM), uint64(bh.LocalRAM), 0xFFB00000, 0xFFB00000},
		{"flit", uint64(wh.NOCWord), uint64(bh.NOCWord), 32, 64},
		{"burst", uint64(wh.MaxBurst), uint64(bh.MaxBurst), 8192, 16384},
		{"grid width", uint64(wh.GridWidth), uint64(bh.GridWidth), 10, 17},
		{"grid height", uint64(wh.GridHeight), uint64(bh.GridHeight), 12, 12},
		{"DRAM banks", uint64(wh.DRAMBanks), uint64(bh.DRAMBanks), 12, 8},
		{"DRAM bank", wh.DRAMBankSize, bh.DRAMBankSize, 1 << 30, 4278190080},
		{"L1 alignment", uint64(wh.Align.L1), uint64(bh.Align.L1), 16, 16},
		{"DRAM alignment", uint64(wh.Align.DRAM()), uint64(bh.Align.DRAM()), 32, 64},
		{"DRAM write alignment", uint64(wh.Align.DRAMWrite), uint64(bh.Align.DRAMWrite), 16, 16},
		{"PCIe alignment", uint64(wh.Align.PCIe()), uint64(bh.Align.PCIe()), 32, 64},
		{"PCIe write alignment", uint64(wh.Align.PCIeWrite), uint64(bh.Align.PCIeWrite), 16, 16},
		{"vendor", uint64(wh.PCI.Vendor), uint64(bh.PCI.Vendor), 0x1E52, 0x1E52},
		{"device", uint64(wh.PCI.Device), uint64(bh.PCI.Device), 0x401E, 0xB140},
		{"class and revision", uint64(wh.PCI.Class<<8) | uint64(wh.PCI.Revision), uint64(bh.PCI.Class<<8) | uint64(bh.PCI.Revision), 0x12000001, 0x12000000},
		{"BAR 0", wh.PCI.BARSize[0], bh.PCI.BARSize[0], 512 << 20, 512 << 20},
		{"BAR 2", wh.PCI.BARSize[2], bh.PCI.BARSize[2], 1 << 20, 1 << 20},
		{"BAR 4", wh.PCI.BARSize[4], bh.PCI.BARSize[4], 32 << 20, 32 << 30},
		{"host window", wh.PCI.NOCBase, bh.PCI.NOCBase, 0x8_0000_0000, 0x1000_0000_0000_0000},
		{"host window size", wh.PCI.NOCSize, bh.PCI.NOCSize, 4<<30 - 128<<10, 1 << 58},
		{"iATU", uint64(wh.PCI.IATUBase), uint64(bh.PCI.IATUBase), 0x1200, 0x1000},
		{"outbound region 1", uint64(wh.PCI.IATUBase + wh.PCI.IATUStride), uint64(bh.PCI.IATUBase + bh.PCI.IATUStride), 0x1400, 0x1200},
		{"window registers' end", wh.WindowRegister(186), bh.WindowRegister(210), 0x1FC005D0, 0x1FC009D8},
		{"strided registers", uint64(wh.BAR.StridedRegs), uint64(bh.BAR.StridedRegs), NoRegister, 0x1FC009D8},
		{"kernel window", uint64(wh.BAR.KernelWindow), uint64(bh.BAR.KernelWindow), 185, 201},
		{"soft reset", uint64(wh.SoftReset), uint64(bh.SoftReset), 0xFFB121B0, 0xFFB121B0},
		{"wall clock", uint64(wh.Debug.WallClockLow), uint64(bh.Debug.WallClockLow), 0xFFB121F0, 0xFFB121F0},
		{"latched wall clock", uint64(wh.Debug.WallClockHighLatched), uint64(bh.Debug.WallClockHighLatched), 0xFFB121F8, 0xFFB121F8},
		{"TRISC override", uint64(wh.TRISCResetPCOverride), uint64(bh.TRISCResetPCOverride), 0xFFEF0000 + 4*161, 0xFFB12234},
		{"NCRISC override", uint64(wh.NCRISCResetPCOverride), uint64(bh.NCRISCResetPCOverride), 0xFFEF0000 + 4*163, 0xFFB1223C},
		{"NCRISC reset PC", uint64(wh.ResetPCRegister[NCRISC]), uint64(bh.ResetPCRegister[NCRISC]), 0xFFEF0000 + 4*162, 0xFFB12238},
		{"TRISC0 reset PC", uint64(wh.ResetPCRegister[TRISC0]), uint64(bh.ResetPCRegister[TRISC0]), 0xFFEF0000 + 4*158, 0xFFB12228},
		{"TRISC2 reset PC", uint64(wh.ResetPCRegister[TRISC2]), uint64(bh.ResetPCRegister[TRISC2]), 0xFFEF0000 + 4*160, 0xFFB12230},
		{"skipped columns", uint64(wh.MulticastSkipColumns), uint64(bh.MulticastSkipColumns), 0x21, 0x301},
		{"skipped rows", uint64(wh.MulticastSkipRows), uint64(bh.MulticastSkipRows), 0x41, 0x03},
		{"ARC reset unit", wh.ARC.ResetUnit, bh.ARC.ResetUnit, 0x8_8003_0000, 0x8003_0000},
		{"telemetry table", uint64(wh.ARC.TelemetryTable), uint64(bh.ARC.TelemetryTable), 0x1D0, 0x434},
		{"telemetry values", uint64(wh.ARC.TelemetryValues), uint64(bh.ARC.TelemetryValues), 0x1D4, 0x430},
		{"message queue", uint64(wh.ARC.QueueControl), uint64(bh.ARC.QueueControl), 0x1D8, 0x42C},
	} {
		if tc.wh != tc.w || tc.bh != tc.b {
			t.Errorf("%s: Wormhole %#x, want %#x; Blackhole %#x, want %#x", tc.name, tc.wh, tc.w, tc.bh, tc.b)
		}
	}
	if got := wh.LocalRAMSize; got != [5]uint32{4096, 4096, 2048, 2048, 2048} {
		t.Errorf("Wormhole local RAM %v", got)
	}
	if got := bh.LocalRAMSize; got != [5]uint32{8192, 8192, 4096, 4096, 4096} {
		t.Errorf("Blackhole local RAM %v", got)
	}
	if Arch(0).Params() != nil {
		t.Error("no architecture has parameters")
	}
	wh.L1Size, wh.Windows[0].Count = 0, 0
	if again := Wormhole.Params(); again.L1Size == 0 || again.Windows[0].Count == 0 {
		t.Error("Params shares state between callers")
	}
}

// TestResetBits protects the values that hold and release processors.
func TestResetBits(t *testing.T) {
	for _, a := range []Arch{Wormhole, Blackhole} {
		p, all := a.Params(), uint32(0)
		for r := range Processor(NumProcessors) {
			all |= r.ResetBit()
		}
		if p.ResetAll != all || p.ResetAllButBRISC != all&^BRISC.ResetBit() || all != 0x47800 {
			t.Errorf("%s: %#x, %#x, bits %#x", a, p.ResetAll, p.ResetAllButBRISC, all)
		}
	}
	if Processor(5).ResetBit() != 0 {
		t.Error("there is no sixth processor")
	}
}

// TestNIURegisters protects the registers whose places differ between the chips.
func TestNIURegisters(t *testing.T) {
	wh, bh := Wormhole.Params().NIU, Blackhole.Params().NIU
	for _, tc := range []struct {
		name         string
		wh, bh, w, b uint32
	}{
		{"NoC 1", wh.Reg(NOC1, 0), bh.Reg(NOC1, 0), 0xFFB30000, 0xFFB30000},
		{"target, buffer 1", wh.Command(NOC0, 1, wh.TargAddrLo), bh.Command(NOC0, 1, bh.TargAddrLo), 0xFFB20400, 0xFFB20800},
		{"target coordinate", wh.TargCoord, bh.TargCoord, 0x04, 0x08},
		{"return address", wh.RetAddrLo, bh.RetAddrLo, 0x0C, 0x0C},
		{"return coordinate", wh.RetCoord, bh.RetCoord, 0x10, 0x14},
		{"tag", wh.PacketTag, bh.PacketTag, 0x18, 0x18},
		{"control", wh.Ctrl, bh.Ctrl, 0x1C, 0x1C},
		{"length", wh.AtLenBe, bh.AtLenBe, 0x20, 0x20},
		{"data", wh.AtData, bh.AtData, 0x24, 0x28},
		{"start, NoC 1 buffer 3", wh.Command(NOC1, 3, wh.CmdCtrl), bh.Command(NOC1, 3, bh.CmdCtrl), 0xFFB30C28, 0xFFB31840},
		{"node id", wh.NodeID, bh.NodeID, 0x2C, 0x44},
		{"endpoint id", wh.EndpointID, bh.EndpointID, 0x30, 0x48},
		{"clear", wh.ClearOutstanding, bh.ClearOutstanding, 0x50, 0x60},
		{"busy", wh.InitiatorStatus, bh.InitiatorStatus, 0x54, 0x64},
		{"configuration", wh.Cfg0, bh.Cfg0, 0x100, 0x100},
		{"logical id", wh.IDLogical, bh.IDLogical, 0x138, 0x148},
		{"x table's end", wh.TranslateX + 4*uint32(wh.TranslateXWords), bh.TranslateX + 4*uint32(bh.TranslateXWords), 0x128, 0x130},
		{"y table's end", wh.TranslateY + 4*uint32(wh.TranslateYWords), bh.TranslateY + 4*uint32(bh.TranslateYWords), 0x138, 0x148},
		{"counter 0xB", wh.Counter(NOC0, PostedWrReqSent), bh.Counter(NOC0, PostedWrReqSent), 0xFFB2022C, 0xFFB2022C},
		{"outstanding 15", wh.Counter(NOC1, ReqsOutstanding+15), bh.Counter(NOC1, ReqsOutstanding+15), 0xFFB3027C, 0xFFB3027C},
		{"increment", AtomicIncrement32, AtomicIncrement32, 0x107C, 0x107C},
	} {
		if tc.wh != tc.w || tc.bh != tc.b {
			t.Errorf("%s: Wormhole %#x, want %#x; Blackhole %#x, want %#x", tc.name, tc.wh, tc.w, tc.bh, tc.b)
		}
	}
}

// TestStreams protects the addresses of stream registers and the arithmetic of updates.
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
			if n, r, ok := s.Lookup(addr); !ok || n != 48 || r != tc.r {
				t.Errorf("%#x is register %d of stream %d, %v", addr, r, n, ok)
			}
		}
	}
	if wh.Reg(64, RemoteSrc) != NoRegister || wh.Reg(-1, RemoteSrc) != NoRegister || wh.Reg(0, 9) != NoRegister {
		t.Error("registers that do not exist have addresses")
	}
	for _, addr := range []uint32{0, 0xFFB3FFFC, 0xFFB40004, 0xFFB80000} {
		if n, r, ok := wh.Lookup(addr); ok {
			t.Errorf("%#x is register %d of stream %d", addr, r, n)
		}
	}
	value := uint32(0)
	for _, step := range []struct {
		n    int32
		want uint32
	}{{8, 8}, {3, 11}, {-5, 6}, {-8, 0x1FFFE}, {2, 0}} { // as measured on both chips' simulators
		value = (value + StreamUpdate(step.n)>>6) & (1<<StreamCounterBits - 1)
		if value != step.want {
			t.Errorf("after %+d: %#x, want %#x", step.n, value, step.want)
		}
	}
}

// TestNames protects what people read and what they may type.
func TestNames(t *testing.T) {
	for s, want := range map[string]Arch{
		"wormhole": Wormhole, "Wormhole_B0": Wormhole, "WH": Wormhole, "blackhole": Blackhole, "bh": Blackhole,
	} {
		if got, err := ParseArch(s); err != nil || got != want {
			t.Errorf("%q is %s (%v)", s, got, err)
		}
	}
	if _, err := ParseArch("grayskull"); err == nil {
		t.Error("grayskull is an architecture")
	}
	got := fmt.Sprint(Wormhole, Blackhole, Arch(9), NOC1, NOC1.Other(), BRISC, NCRISC, TRISC2, Processor(7), XY{1, 2},
		Core{3, 4}, Tensix, NoTile, L2CPU, TileKind(99), Relaxed, Strict, Posted, Ordering(3))
	want := "wormhole blackhole arch(9) NoC 1 NoC 0 BRISC NCRISC TRISC2 processor(7) (1,2) (3,4) Tensix no tile L2CPU " +
		"tile kind(99) relaxed strict posted ordering(3)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
