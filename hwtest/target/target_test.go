package target

import (
	"errors"
	"io/fs"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

func parsed(t *testing.T, name string) *Device {
	t.Helper()
	d, err := Parse(name, ttsim.Server("false"))
	expect.Must(t, err)
	return d
}

func TestParse(t *testing.T) {
	for _, want := range []Device{
		{Given: "emu:blackhole", Name: "emu_blackhole", Arch: chip.Blackhole},
		{Given: "emu:wh", Name: "emu_wormhole", Arch: chip.Wormhole},
		{Given: "emu:wormhole,interpreter", Name: "emu_wormhole_interpreter", Arch: chip.Wormhole},
		{Given: "emu:blackhole,parallel,seed=3", Name: "emu_blackhole_parallel_seed_3", Arch: chip.Blackhole},
		{Given: "emu:blackhole,driver=2.4,strict=7", Name: "emu_blackhole_driver_2_4_strict_7", Arch: chip.Blackhole, Strict: true},
		{Given: "emu:wormhole,no-iommu,fault=slow-pins=1s,seed=3,delay=40", Name: "emu_wormhole_no-iommu_fault_slow-pins_1s_seed_3_delay_40", Arch: chip.Wormhole},
		{Given: "emu:wormhole,schedule=testdata/schedule.json", Name: "emu_wormhole_schedule", Arch: chip.Wormhole},
		{Given: "emu:n300,link-delay=0:8/3", Name: "emu_n300_link-delay_0_8_3", Arch: chip.Wormhole},
		{Given: "emu:galaxy-wh,seed=2", Name: "emu_galaxy_wh_seed_2", Arch: chip.Wormhole},
		{Given: "/dev/tenstorrent/0", Name: "dev_tenstorrent_0", Kind: Silicon},
		{Given: "/dev/tenstorrent/1,/dev/tenstorrent/0", Name: "dev_tenstorrent_1_dev_tenstorrent_0", Kind: Silicon},
		{Given: "./node", Name: "._node", Kind: Silicon},
		{Given: "ttsim:/opt/release_wh/libttsim.so", Name: "ttsim_wormhole", Kind: Simulator},
		{Given: "ttsim:release_bh/libttsim.so", Name: "ttsim_blackhole", Kind: Simulator},
		{Given: "ttsim:lib.so", Name: "ttsim", Kind: Simulator},
		{Given: "socket:/run/card", Name: "socket_card", Kind: Simulator},
	} {
		d, err := Parse(want.Given, ttsim.Server("false"))
		if err != nil {
			t.Errorf("%s: %v", want.Given, err)
			continue
		}
		if diff := cmp.Diff(want, *d, cmpopts.IgnoreUnexported(Device{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Given, diff)
		}
		if d.Open() == nil {
			t.Errorf("%s gives no target", want.Given)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for name, want := range map[string]error{"": ErrUnknown, "emu:foo": chip.ErrUnknownArch, "emu": chip.ErrUnknownArch, "ttsim:": ErrUnknown,
		"socket:": ErrUnknown, "session:": ErrUnknown, "session:./missing": fs.ErrNotExist, "session:target_test.go": session.ErrNotSession,
		"gpu:0":   ErrUnknown,
		"/dev/a,": ErrUnknown, "/dev/a,/dev/b,/dev/a": ErrUnknown,
		"emu:wormhole,link-down=0:8": ErrUnknown, "emu:n300,link-down=0:1": emu.ErrConfig, "emu:n300,link-cut=0:8": emu.ErrConfig,
		"emu:bh,shiny": ErrUnknown, "emu:bh,": ErrUnknown, "emu:bh,driver=new": strconv.ErrSyntax, "emu:bh,driver=1.34": driver.ErrConfig,
		"emu:bh,driver=0":      ErrUnknown,
		"emu:bh,fault=hiccups": driver.ErrConfig, "emu:bh,seed=-1": strconv.ErrSyntax, "emu:bh,strict": strconv.ErrSyntax,
		"emu:bh,delay=9999999999": strconv.ErrRange, "emu:bh,schedule=missing": fs.ErrNotExist,
		"emu:bh,schedule=testdata/schedule9.json": errors.ErrUnsupported} {
		_, err := Parse(name, ttsim.Server("false"))
		var e *Error
		if !errors.As(err, &e) || e.Value != name || e.Hint == "" || !errors.Is(err, want) {
			t.Errorf("%q: error %v, want an *Error of %v", name, err, want)
		}
	}
}

func TestLinkedMachines(t *testing.T) {
	for name, want := range map[string]string{"emu:p300": "p300", "emu:blackhole": "quietbox"} {
		d := parsed(t, name)
		m, err := d.Linked(chip.QuietBox())
		expect.Must(t, err)
		if got := m.Emulated.Spec().Name; got != want || (d.Machine() != nil) != (name == "emu:p300") {
			t.Errorf("%s is machine %s, want %s", name, got, want)
		}
		expect.Fails(t, m.Close(), nil, "m.Close()")
	}
}

func TestLinkedNodes(t *testing.T) {
	for name, want := range map[string][]string{"/dev/a": {"/dev/a"}, "/dev/b,/dev/a": {"/dev/b", "/dev/a"}} {
		d := parsed(t, name)
		l, err := d.Linked(chip.QuietBox())
		expect.Must(t, err)
		m, err := ParseMachine(name, ttsim.Server("false"))
		expect.Must(t, err)
		cards, end, err := m.Open()
		expect.Must(t, err)
		for _, l := range [][]kmd.Target{l.Cards, cards} {
			var got []string
			for _, c := range l {
				got = append(got, c.String())
			}
			expect.NoDiff(t, got, want, "%s", name)
		}
		expect.Equal(t, d.Open().String(), want[0], "%s opens", name)
		expect.Equal(t, d.Several(), len(want) > 1, "%s is several nodes", name)
		if err := errors.Join(l.Close(), end()); err != nil {
			t.Error(err)
		}
	}
}

func TestEmulated(t *testing.T) {
	d := parsed(t, "emu:wormhole")
	if e := d.Emulated("_slow"); e.Name != "emu_wormhole_slow" || d.Name != "emu_wormhole" {
		t.Errorf("%q of %q", e.Name, d.Name)
	}
}

func TestShare(t *testing.T) {
	for _, name := range []string{"emu:wormhole", "emu:blackhole,driver=2.4.0"} {
		d := parsed(t, name)
		s, end, err := d.Share()
		if errors.Is(err, ErrNotShared) {
			t.Skip(err)
		}
		expect.Must(t, err)
		again := parsed(t, s.Given)
		var open []*kmd.Device
		for _, o := range []*Device{s, again, s} {
			k, err := kmd.Open(t.Context(), o.Open())
			expect.Must(t, err)
			expect.Equal(t, k.Arch(), d.Arch, "%s: architecture", s.Given)
			open = append(open, k)
		}
		for _, k := range open {
			expect.Fails(t, k.Close(), nil, "k.Close()")
		}
		expect.Fails(t, end(), nil, "end()")
		if d.Given != name || d.Kind != Emulator || s.Kind != Simulator || s.Name != d.Name {
			t.Errorf("%+v became %+v", d, s)
		}
	}
	d := parsed(t, "/dev/tenstorrent/0")
	if s, _, err := d.Share(); err != nil || s != d {
		t.Errorf("silicon becomes %+v, %v", s, err)
	}
}
