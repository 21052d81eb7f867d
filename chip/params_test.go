package chip

import (
	"fmt"
	"testing"
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
		if tc.wh != tc.w || tc.bh != tc.b {
			t.Errorf("%s: Wormhole %#x, want %#x; Blackhole %#x, want %#x", tc.name, tc.wh, tc.w, tc.bh, tc.b)
		}
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
		if p.ResetAll != all || p.ResetAllButBRISC != all&^BRISC.ResetBit() || all != 0x47800 {
			t.Errorf("%s: %#x, %#x, bits %#x", a, p.ResetAll, p.ResetAllButBRISC, all)
		}
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
		equal(t, value, step.want, "after %+d", step.n)
	}
}

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
	equal(t, got, want, "names")
}
