package abi_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// TestL1Map protects the layout of L1: fixed points shared with tt-metal and with our firmware, and
// that nothing overlaps.
func TestL1Map(t *testing.T) {
	type area struct {
		Name        string
		Start, Size uint32
	}
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		p := a.Params()
		m := abi.Own(a).L1
		areas := []area{
			{"atomic return", m.AtomicReturn, 4}, {"barrier", m.Barrier, 4},
			{"subordinate sync", m.SubordinateSync, 4}, {"launch read pointer", m.LaunchReadPtr, 4},
			{"launch", m.Launch, m.LaunchEntries * m.LaunchSize}, {"go", m.Go, m.GoEntries * 4}, {"go index", m.GoIndex, 4},
			{"core info", m.CoreInfo, m.CoreInfoSize}, {"core state", m.CoreState, chip.NumProcessors * m.CoreStateSize},
			{"zeros", m.Zeros, m.ZerosSize}, {"print", m.Print, m.PrintSize}, {"watch", m.Watch, m.WatchSize}, {"tiles", m.Tiles, m.TilesSize}, {"bank table", m.BankTable, m.BankTableSize},
			{"kernel config", m.KernelConfig, m.KernelConfigSize}, {"buffers", m.Unreserved, m.Size - m.Unreserved},
		}
		if m.InlineScratch != chip.NoRegister {
			areas = append(areas, area{"inline scratch", m.InlineScratch, 64})
		}
		for r := range chip.Processor(chip.NumProcessors) {
			areas = append(areas, area{r.String() + " firmware", m.Firmware[r], m.FirmwareSize[r]})
		}
		slices.SortFunc(areas, func(a, b area) int { return int(a.Start) - int(b.Start) })
		for i, x := range areas[1:] {
			if before := areas[i]; before.Start+before.Size > x.Start {
				t.Errorf("%s: %v reaches into %v", a, before, x)
			}
		}
		if m.Size != p.L1Size || m.Unreserved%p.Align.DRAM() != 0 || m.Launch%16 != 0 || m.KernelConfig%16 != 0 {
			t.Errorf("%s: size or alignment: %+v", a, m)
		}
		if m.Launch != m.Mailbox+0x10 || m.Go != m.Mailbox+0x310 || m.GoIndex != m.Mailbox+0x340 {
			t.Errorf("%s: mailbox fields moved: %+v", a, m)
		}
	}
	w, b := abi.Own(chip.Wormhole).L1, abi.Own(chip.Blackhole).L1
	got := [][2]uint32{
		{w.Mailbox, b.Mailbox}, {w.Firmware[chip.BRISC], b.Firmware[chip.BRISC]}, {w.KernelConfig, b.KernelConfig},
		{w.Unreserved, b.Unreserved}, {w.BankTable, b.BankTable}, {w.BankTableSize, b.BankTableSize},
	}
	want := [][2]uint32{{0x10, 0x60}, {0x3800, 0x3840}, {0x7D80, 0x8740}, {0x19180, 0x19B40}, {0x6A00, 0x6C40}, {776, 776}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
