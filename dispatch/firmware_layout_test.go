package dispatch

import (
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/sim"
)

func otherFirmware(t *testing.T, arch chip.Arch) *Firmware {
	t.Helper()
	f, err := ownFirmware(arch)
	must(t, err)
	f.Layout = abi.Of("2026-01-09", arch)
	return f
}

func TestFirmwareIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Firmware)
		want   string
	}{
		{"architecture", func(f *Firmware) { f.Layout = abi.Of("2026-01-09", chip.Wormhole) }, "it is for wormhole, the chip is a blackhole"},
		{"DRAM banks", func(f *Firmware) { f.DRAMBanks = 7 }, "compiled for 7 DRAM banks, the chip has 8"},
		{"L1 banks", func(f *Firmware) { f.L1Banks = 110 }, "compiled for 110 L1 banks, one for each worker, the chip has 130"},
		{"a processor is missing", func(f *Firmware) { f.Segments[chip.TRISC1] = nil }, "it has none for TRISC1"},
		{"too large", func(f *Firmware) { f.Segments[chip.BRISC][0].Data = make([]byte, 0x1C01) }, "BRISC has 7169 B at 0x3840, its place is 0x3840..0x5440"},
		{"elsewhere", func(f *Firmware) { f.Segments[chip.NCRISC][0].Addr = 0x5A40 }, "NCRISC has"},
		{"beyond local RAM", func(f *Firmware) {
			f.Segments[chip.TRISC0] = append(f.Segments[chip.TRISC0], Segment{Addr: 0xFFB00FFF, Data: []byte{1, 2}})
		}, "TRISC0 has 2 B at 0xffb00fff"},
	} {
		f := otherFirmware(t, chip.Blackhole)
		tc.change(f)
		_, err := Start(t.Context(), opened(t, sim.Blackhole()), Options{Firmware: f})
		var refused *FirmwareError
		if !errors.As(err, &refused) || refused.Revision != f.Layout.Revision || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestFirmwareSegmentsHavePlaces(t *testing.T) {
	f := otherFirmware(t, chip.Wormhole)
	for p, want := range map[chip.Processor]uint32{chip.BRISC: 0x7CF4, chip.NCRISC: 0x8CF4, chip.TRISC2: 0xACF4} {
		if at, err := f.place(p, &Segment{Addr: 0xFFB00004, Data: make([]byte, 8)}); err != nil || at != want {
			t.Errorf("initial data of %v lies at %#x (%v), want %#x", p, at, err, want)
		}
		l := f.Layout.L1.Firmware[p]
		if at, err := f.place(p, &Segment{Addr: l + 16, Data: make([]byte, 8)}); err != nil || at != l+16 {
			t.Errorf("text of %v lies at %#x (%v), want %#x", p, at, err, l+16)
		}
	}
}
