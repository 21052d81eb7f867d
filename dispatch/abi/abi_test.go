package abi_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/expect"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

// Some fields of layouts have the numbers of the headers that they are for.
func TestTables(t *testing.T) {
	type four = [4]uint32
	all := func(v uint32) four { return four{v, v, v, v} }
	type row struct {
		name string
		got  uint32
		want four // by revision, Wormhole and Blackhole
	}
	rows := func(l *abi.Layout) []row {
		m, la, b := &l.L1, &l.Launch, &l.Boot
		return []row{
			{"sizeof(mailboxes_t)", m.MailboxSize, four{0x31E0, 0x31E0, 0x3260, 0x3260}},
			{"go_messages", m.Go - m.Mailbox, four{0x310, 0x310, 0x390, 0x390}},
			{"core_info", m.CoreInfo - m.Mailbox, four{0x858, 0x858, 0x8D8, 0x8D8}},
			{"kernel_text_offset", la.Text, all(0x2C)},
			{"brisc_noc_id", la.NOC, four{0x44, 0x44, 0x48, 0x48}},
			{"preload", la.Preload, four{0x5F, 0x5F, 0x6F, 0x6F}},
			{"NUM_CIRCULAR_BUFFERS", uint32(la.CircularBuffers), four{32, 32, 32, 64}},
			{"MEM_BRISC_FIRMWARE_BASE", m.Firmware[chip.BRISC], four{0x3800, 0x3840, 0x3880, 0x38C0}},
			{"MEM_TRISC2_FIRMWARE_BASE", m.Firmware[chip.TRISC2], four{0x6400, 0x6640, 0x6480, 0x78C0}},
			{"MEM_TRISC0_FIRMWARE_SIZE", m.FirmwareSize[chip.TRISC0], four{0x600, 0x600, 0x600, 0xA00}},
			{"MEM_MAP_END", m.KernelConfig, four{0x7CF0, 0x82B0, 0x8120, 0x9DE0}},
			{"MEM_TRISC2_INIT_LOCAL_L1_BASE_SCRATCH", b.Scratch[chip.TRISC2], four{0xACF0, 0xE2B0, 0xB120, 0xFDE0}},
			{"MEM_BANK_TO_NOC_SCRATCH", m.BankTable, four{0xC4F0, 0x112B0, 0xC920, 0x12DE0}},
			{"MEM_LOGICAL_TO_VIRTUAL_SCRATCH", b.Virtual, four{0xCCF0, 0x11AB0, 0xD120, 0x135E0}},
			{"MEM_NCRISC_IRAM_SIZE", b.IRAMSize, four{0x4000, 0, 0x4000, 0}},
			{"DEFAULT_UNRESERVED", m.Unreserved, four{0x19100, 0x196C0, 0x19520, 0x1B200}},
			{"NOC_COORD_REG_OFFSET", uint32(l.Banks.Shift), four{4, 0, 4, 0}},
		}
	}
	for i, wheel := range []string{"0.65.1", "0.67.0"} {
		for k, arch := range arches {
			l := abi.Of(wheel, arch)
			r := l.Revision
			for _, row := range rows(l) {
				expect.Equal(t, row.got, row.want[2*i+k], "%s of %v on %v", row.name, r, arch)
			}
			if l.Revision != r || r.Own() || l.Arch != arch || l.L1.Size != arch.Params().L1Size {
				t.Errorf("%v on %v: %+v", r, arch, l)
			}
		}
	}
}

// Each wheel's layout is found by its firmware, unless the facts of others are the same there.
func TestByFirmware(t *testing.T) {
	for _, arch := range arches {
		for _, l := range abi.Known(arch) {
			fit, err := abi.ByFirmware(l.L1.Firmware, nil)
			if err != nil || !slices.Contains(fit, l) {
				t.Errorf("%v on %v: %v", l.Revision, arch, err)
			}
			for _, r := range abi.Releases()[arch.String()] {
				if !slices.Contains(l.Wheels(), r.Wheels[0]) {
					continue
				}
				for _, wheel := range r.Wheels {
					if abi.Of(wheel, arch) != l {
						t.Errorf("%s on %v is of %v", wheel, arch, abi.Of(wheel, arch))
					}
				}
				fit, err := abi.ByFirmware(l.L1.Firmware, r.Facts)
				if err != nil || len(fit) != 1 || fit[0] != l {
					t.Errorf("%v on %v, which tells all: %d layouts, %v", l.Revision, arch, len(fit), err)
				}
			}
		}
	}
	_, err := abi.ByFirmware([chip.NumProcessors]uint32{0x4000, 1, 2, 3, 4}, nil)
	var unknown *abi.UnknownFirmwareError
	if !errors.As(err, &unknown) || unknown.Addresses[0] != 0x4000 {
		t.Errorf("unknown addresses: %v", err)
	}
	next := abi.Of("0.81.1", chip.Blackhole)
	_, err = abi.ByFirmware(next.L1.Firmware, abi.Facts{"kernel_config_msg_t.mode": 0x31, "core_info_msg_t": 0x104})
	const why = "ttnn 0.81.1: core_info_msg_t is 0x100 there, the firmware was built with 0x104"
	if !errors.As(err, &unknown) || len(unknown.Conflicts) == 0 || !strings.Contains(err.Error(), why) {
		t.Errorf("a firmware of a later wheel: %v", err)
	}
	if abi.Own(99) != nil || abi.Of("2025", chip.Blackhole) != nil || abi.Of("0.65.1", 99) != nil {
		t.Error("a layout of no revision or architecture")
	}
	if abi.Of("2026-01-09", chip.Blackhole) != abi.Of("0.65.1", chip.Blackhole) {
		t.Error("the name in older files isn't known")
	}
}

func TestTable(t *testing.T) {
	text := expect.Value(os.ReadFile("wheels.json"))(t)
	table, err := abi.ReadTable(text)
	if err != nil || string(table.Append(nil)) != string(text) {
		t.Errorf("the table isn't written as it was read: %v", err)
	}
	expect.Error(t, expect.ErrOf(abi.ReadTable([]byte(`{"wormhole": [3]}`))))
}

// A launch message of a later release has fields that a trace's importer must look at.
func TestUnreadFields(t *testing.T) {
	for wheel, want := range map[string][]abi.LaunchField{
		"0.76.0": {{"pad2", 0x31, 3, 0}, {"pad4", 0x5C, 12, 0}, {"pad3", 0x8A, 5, 0}},
		"0.81.1": {{"pad2", 0x31, 1, 0}, {"cross_node_dfb_offset", 0x32, 2, 0xFF}, {"pad4", 0x5C, 4, 0}, {"reload_table_addr", 0x74, 4, 0},
			{"prefetcher_pipe_offset", 0x86, 2, 0xFF}, {"pad3", 0x88, 7, 0}},
	} {
		expect.NoDiff(t, abi.Of(wheel, chip.Wormhole).UnreadFields(), want, "%s", wheel)
	}
}

func TestBoot(t *testing.T) {
	dram := []chip.Bank{{Offset: 5, Endpoint: [2]chip.XY{{X: 1, Y: 2}, {X: 3, Y: 4}}},
		{Offset: 6, Endpoint: [2]chip.XY{{X: 5, Y: 6}, {X: 7, Y: 8}}}}
	l1 := []chip.XY{{X: 1, Y: 3}, {X: 2, Y: 3}, {X: 3, Y: 3}}
	le := binary.LittleEndian
	var want []byte
	for n := range 2 {
		for _, b := range dram {
			want = le.AppendUint16(want, uint16(b.Endpoint[n].Packed()))
		}
	}
	for range 2 {
		for _, xy := range l1 {
			want = le.AppendUint16(want, uint16(xy.Packed()))
		}
	}
	want = append(want, 5, 0, 0, 0, 6, 0, 0, 0)
	want = append(want, make([]byte, 12)...)
	metal, own := abi.Of("0.65.1", chip.Blackhole), abi.Own(chip.Blackhole)
	expect.NoDiff(t, metal.Banks.Encode(dram, l1), want, "tt-metal's bank table")
	if b := own.Banks.Encode(dram, l1); len(b) != int(own.L1.BankTableSize) || le.Uint32(b) != 2 || le.Uint32(b[4:]) != 3 ||
		le.Uint32(b[8+64:]) != 5 || le.Uint16(b[8+128:]) != uint16(l1[0].Packed()) {
		t.Errorf("the own bank table: % x", b)
	}
	core := chip.Core{X: 3, Y: 4}
	p100a, err := chip.New(chip.Blackhole, chip.Harvesting{Tensix: 0x3, DRAM: 0x80})
	expect.Must(t, err)
	info := metal.EncodeInfo(p100a, core, true)
	if !slices.Equal(info[0xE4:0xEA], []byte{17, 12, 12, 10, 3, 4}) ||
		abi.Of("0.66.0", chip.Blackhole).EncodeInfo(p100a, core, true)[0xF3] != 0x50 ||
		le.Uint32(info[0xEC:]) != 0x196C0 || info[0x20] != 0xFF || info[0x88] != 5 {
		t.Errorf("core information: % x", info)
	}
	if b := own.EncodeInfo(p100a, core, false); !slices.Equal(b[:8], []byte{'R', 'P', 'R', '1', 3, 4, 1, 0}) || len(b) != 64 {
		t.Errorf("own core information: % x", b)
	}
	box := metal.Mailbox()
	if box[0x310+3] != 0x40 || box[0x348] != 2 || box[0x348+0x18+0x12] != 2 || box[0x348+0x30+0x12] != 2 || box[0x348+0x4E] != 2 {
		t.Errorf("mailbox: % x", box[0x300:0x3A0])
	}
	m, err := metal.VirtualMap([]chip.XY{{X: 1}, {X: 2}}, []chip.XY{{Y: 7}})
	if err != nil || len(m) != 32 || m[0] != 1 || m[1] != 2 || m[20] != 7 {
		t.Errorf("virtual coordinates: % x, %v", m, err)
	}
	expect.Error(t, expect.ErrOf(metal.VirtualMap(make([]chip.XY, 21), nil)))
}

func TestL1Map(t *testing.T) {
	type area struct {
		Name        string
		Start, Size uint32
	}
	for _, a := range arches {
		p := a.Params()
		m := abi.Own(a).L1
		areas := []area{
			{"atomic return", m.AtomicReturn, 4}, {"barrier", m.Barrier, 4},
			{"subordinate sync", m.SubordinateSync, 4}, {"launch read pointer", m.LaunchReadPtr, 4},
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
	expect.NoDiff(t, got, want, "got")
}

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
		ch := expect.Value(chip.New(c.arch, c.h))(t)
		b := abi.Of("0.67.0", c.arch).EncodeInfo(ch, chip.Core{}, true)
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
					if !slices.ContainsFunc(slices.Collect(slices.Chunk(b[0x89:0xE0], 3)), func(tile []byte) bool {
						return bytes.Equal(tile, []byte{xy.X, xy.Y, 3})
					}) {
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

// Numbers that tt-metal's own sources give for queue 1 of two with 16 MiB each. Those of January on
// Blackhole follow the formulas that give all 128 constants in the debug information of a build of
// tt-metal's own.
func TestMetalQueue(t *testing.T) {
	var cases []struct {
		Revision, Arch string
		Queue          abi.Queue
	}
	text := expect.Value(os.ReadFile("testdata/metal_queues.json"))(t)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	expect.Must(t, d.Decode(&cases))
	expect.Equal(t, len(cases), 4, "cases")
	for _, c := range cases {
		arch := expect.Value(chip.ParseArch(c.Arch))(t)
		l := abi.Of(c.Revision, arch)
		tile := map[chip.Arch]uint32{chip.Wormhole: 3 << 6, chip.Blackhole: 24<<6 | 19}[arch]
		got := l.MetalQueue(l.QueueForms()[0], abi.QueuePlace{HostTile: tile, Base: 16 << 20, Size: 16 << 20})
		want, all := reflect.ValueOf(c.Queue), reflect.ValueOf(got)
		for i := range want.NumField() {
			if w := want.Field(i); !w.IsZero() && !w.Equal(all.Field(i)) {
				t.Errorf("%s on %v: %s is %v, want %v", c.Revision, arch, want.Type().Field(i).Name, all.Field(i), w)
			}
		}
	}
	if abi.Own(chip.Blackhole).QueueForms() != nil {
		t.Error("this runtime's own queues have forms of tt-metal")
	}
}
