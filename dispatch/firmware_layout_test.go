package dispatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/sim"
)

// otherFirmware is this runtime's own base firmware, which says that it is of a revision that loads it where it lies.
func otherFirmware(t *testing.T, arch chip.Arch) *Firmware {
	t.Helper()
	f, err := ownFirmware(arch)
	if err != nil {
		t.Fatal(err)
	}
	f.Layout = abi.Of("2026-01-09", arch)
	return f
}

// Firmware that doesn't fit the chip is refused before anything is written to it, with what differs.
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

// Initial data of local RAM lies in the scratch area of its processor; text where it is linked.
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

// A launch message has its fields where the workers' layout has them.
func TestLaunchMessageFollowsTheLayout(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, r := range abi.Revisions() {
			d := hostOnlyDevice(t, 1)
			d.ch, _ = chip.New(arch, chip.Harvesting{})
			d.pr, d.worker = arch.Params(), abi.Of(r.Name, arch)
			d.grid = programGrid(d.ch)
			on := []chip.Range{chip.Single(0, 0)}
			last := d.worker.Launch.CircularBuffers - 1
			p := &Program{
				Name: "p", Kernels: []Kernel{
					{Name: "b", Processor: chip.BRISC, Cores: on, Text: make([]byte, 64), NOC: chip.NOC1, Args: []CoreArgs{{Core: chip.Core{}, Args: []uint32{1, 2, 3}}}},
					{Name: "n", Processor: chip.NCRISC, Cores: on, Text: make([]byte, 160), Common: []uint32{7}},
				},
				CircularBuffers: []CircularBuffer{
					{Index: 0, Cores: on, Addr: d.worker.L1.Unreserved + 64, PageSize: 16, Pages: 1}, {Index: last, Cores: on, Addr: d.worker.L1.Unreserved + 128, PageSize: 16, Pages: 1},
				},
				Semaphores: []Semaphore{{ID: 1, Cores: on, Initial: 5}},
			}
			im, err := d.Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			var msg []byte
			for e := range cq.All(d.layout(), im.main.bytes) {
				for r := range e.Relayed {
					if w, ok := r.Command.(cq.WritePacked); ok && w.Type == cq.PackedLaunch && w.Addr == d.worker.L1.Launch &&
						uint32(w.Size) == d.worker.L1.LaunchSize {
						msg = w.Data
					}
				}
			}
			l, le := &d.worker.Launch, binary.LittleEndian
			mask := make([]byte, (last+8)/8)
			mask[0], mask[last/8] = mask[0]|1, mask[last/8]|1<<(last%8)
			ncrisc := uint16(0)
			if d.worker.Boot.IRAMSize > 0 {
				ncrisc = 160 / 16
			}
			if len(msg) < int(d.worker.L1.LaunchSize) || !bytes.Equal(msg[l.CBMask:][:len(mask)], mask) || msg[l.NOC] != 1 ||
				int(msg[l.FirstRemote]) != last+1 || le.Uint32(msg[l.Enables:]) != 3 ||
				msg[l.Preload] != 0x80 || le.Uint16(msg[l.NCRISCSize:]) != ncrisc || le.Uint16(msg[l.Args+4+2:]) != 16 ||
				le.Uint16(msg[l.Semaphores:]) != 32 || le.Uint16(msg[l.Circular:]) != 64 {
				t.Errorf("%s on %v: launch message % x", r.Name, arch, msg)
			}
			p.CircularBuffers[1].Index = last + 1
			var refused *ProgramError
			if _, err = d.Compile(p); !errors.As(err, &refused) {
				t.Errorf("%s on %v: circular buffer %d: %v", r.Name, arch, last+1, err)
			}
		}
	}
}

// A core with base firmware of tt-metal is described by its waypoints, or by the bytes that start its processors.
func TestMetalStates(t *testing.T) {
	for _, tc := range []struct {
		p    chip.Processor
		word uint32 // go message
		sync [4]byte
		want string
	}{
		{chip.BRISC, signalInit << 24, [4]byte{}, "sets itself up after reset"},
		{chip.BRISC, signalDone << 24, [4]byte{}, "waits for work"},
		{chip.BRISC, signalGo << 24, [4]byte{}, "runs a kernel"},
		{chip.NCRISC, 0, [4]byte{0x80}, "runs a kernel"},
		{chip.NCRISC, 0, [4]byte{1}, "loads a kernel's data"},
		{chip.NCRISC, 0, [4]byte{2}, "waits for BRISC to restart it in its instruction RAM"},
		{chip.TRISC0, 0, [4]byte{0x80, 3}, "waits for the coprocessor to become idle"},
		{chip.TRISC2, 0, [4]byte{0x80, 3, 0, 0x40}, "sets itself up after reset"},
		{chip.TRISC2, 0, [4]byte{0x80, 3, 0, 0x77}, "has not started"},
	} {
		s := CoreState{Firmware: "2026-01-09"}
		s.Processors[tc.p].Waypoint = metalState(tc.p, tc.word, tc.sync[:])
		if got := s.Explain(tc.p); got != tc.want {
			t.Errorf("%v with %#x, % x: %s, want %s", tc.p, tc.word, tc.sync, got, tc.want)
		}
	}
	for bytes, want := range map[string]string{"GW\x00\x00": "waits for work",
		"NTW\x00": "is through with its kernel and waits for the other processors", "CRBW": "waits for room in a circular buffer",
		"XYZ\x00": "is at a waypoint of its kernel's own"} {
		s := CoreState{Firmware: "2026-01-09"}
		s.Processors[chip.BRISC].Waypoint = waypoint([]byte(bytes))
		if got := s.Explain(chip.BRISC); got != want {
			t.Errorf("%q: %s, want %s", bytes, got, want)
		}
	}
}
