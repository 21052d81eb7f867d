package target

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// Reports and -run go by a device's name, so it has no slashes and stays what it is.
func TestParse(t *testing.T) {
	for _, want := range []Device{
		{Given: "emu:blackhole", Name: "emu_blackhole", Arch: chip.Blackhole},
		{Given: "emu:wh", Name: "emu_wormhole", Arch: chip.Wormhole},
		{Given: "/dev/tenstorrent/0", Name: "dev_tenstorrent_0", Kind: Silicon},
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

// An error names what was given, has a cause to ask for and says what to give instead.
func TestParseErrors(t *testing.T) {
	for name, want := range map[string]error{"": ErrUnknown, "emu:foo": chip.ErrUnknownArch, "emu": chip.ErrUnknownArch, "ttsim:": ErrUnknown, "socket:": ErrUnknown, "gpu:0": ErrUnknown} {
		_, err := Parse(name, ttsim.Server("false"))
		var e *Error
		if !errors.As(err, &e) || e.Value != name || e.Hint == "" || !errors.Is(err, want) {
			t.Errorf("%q: error %v, want an *Error of %v", name, err, want)
		}
	}
}

// Options belong to emulators: a name for reports tells the two apart, and the device itself stays as it was.
func TestEmulated(t *testing.T) {
	d, err := Parse("emu:wormhole", ttsim.Server("false"))
	if err != nil {
		t.Fatal(err)
	}
	if e := d.Emulated("_slow"); e.Name != "emu_wormhole_slow" || d.Name != "emu_wormhole" {
		t.Errorf("%q of %q", e.Name, d.Name)
	}
}
