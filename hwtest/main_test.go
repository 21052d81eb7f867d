package hwtest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var (
	deviceFlag  = flag.String("device", "", "device to test: emu:blackhole, emu:wormhole, ttsim:PATH or /dev/tenstorrent/N; default both emulators")
	compareFlag = flag.String("compare", "", "second device for the differential cases, named as in -device")
	reportFlag  = flag.String("report", "", "file to write a report to: JSON, or JUnit if the name ends in .xml")
	unsafeFlag  = flag.Bool("unsafe", false, "also run on silicon what leaves it in need of a reset")
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

// kind is what sort of device a target is.
type kind int

const (
	emulator kind = iota
	vendorSimulator
	silicon
)

// device is a target and how to open it.
type device struct {
	name string
	kind kind
	arch chip.Arch // of an emulator; of the others opening tells
	open func() kmd.Target
}

// emulated opens the device with more options, which only emulators have.
func (d *device) emulated(opts ...sim.Option) kmd.Target {
	if d.arch == chip.Wormhole {
		return sim.Wormhole(opts...)
	}
	return sim.Blackhole(opts...)
}

func parseDevice(s string) (*device, error) {
	what, rest, _ := strings.Cut(s, ":")
	switch {
	case strings.HasPrefix(s, "/"):
		return &device{name: strings.Trim(strings.ReplaceAll(s, "/", "_"), "_"), kind: silicon, open: func() kmd.Target { return kmd.Path(s) }}, nil
	case what == "emu":
		arch, err := chip.ParseArch(rest)
		if err != nil {
			return nil, fmt.Errorf("device %q: %w", s, err)
		}
		d := &device{name: "emu_" + arch.String(), kind: emulator, arch: arch}
		d.open = func() kmd.Target { return d.emulated() }
		return d, nil
	case what == "ttsim" && rest != "":
		name := "ttsim"
		for _, part := range strings.Split(rest, "/") {
			for suffix, label := range map[string]string{"_wh": "ttsim_wormhole", "_bh": "ttsim_blackhole"} {
				if strings.HasSuffix(part, suffix) {
					name = label
				}
			}
		}
		return &device{name: name, kind: vendorSimulator, open: func() kmd.Target { return ttsim.Library(rest, ttsimtest.Server()) }}, nil
	}
	return nil, fmt.Errorf("device %q is not known: use emu:blackhole, emu:wormhole, ttsim:PATH or /dev/tenstorrent/N", s)
}

// devices are what the flags and the environment ask for.
func devices(t *testing.T) []*device {
	t.Helper()
	names := []string{*deviceFlag}
	if *deviceFlag == "" {
		names = []string{"emu:wormhole", "emu:blackhole"}
		for _, v := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
			if path := os.Getenv(v); path != "" {
				names = append(names, "ttsim:"+path)
			}
		}
	}
	var out []*device
	for _, n := range names {
		d, err := parseDevice(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

// TestConformance runs all cases on all devices, layer by layer.
func TestConformance(t *testing.T) {
	rep := &report{}
	for _, d := range devices(t) {
		t.Run(d.name, func(t *testing.T) {
			b := &bench{device: d}
			t.Cleanup(func() {
				if err := b.close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			all := cases()
			for _, l := range layers {
				t.Run(l.name, func(t *testing.T) {
					for i := range all {
						if c := &all[i]; c.layer == l.name {
							t.Run(c.name, func(t *testing.T) { run(t, b, c, rep) })
						}
					}
				})
			}
		})
	}
	if *reportFlag != "" {
		if err := rep.write(*reportFlag); err != nil {
			t.Error(err)
		}
	}
}

// Names are what -run and reports go by, so there may be no two alike, and none without a layer.
func TestCaseNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	known := map[string]bool{}
	for _, l := range layers {
		known[l.name] = true
	}
	for _, c := range cases() {
		key := c.layer + "/" + c.name
		if seen[key] {
			t.Errorf("two cases are called %s", key)
		}
		if !known[c.layer] {
			t.Errorf("case %s has no layer", key)
		}
		if c.protects == "" {
			t.Errorf("case %s doesn't say what it protects", key)
		}
		seen[key] = true
	}
	t.Logf("%d cases", len(seen))
}
