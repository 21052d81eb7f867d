//go:build unix

package driverdiff

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
)

func model(t *testing.T, cfg driver.Config) *driver.Node {
	t.Helper()
	f := drivertest.New(cfg.Arch)
	f.Quiet(true)
	cfg.Functions = []driver.Function{f}
	d := expect.Value(driver.New(cfg))(t)
	t.Cleanup(func() {
		expect.Fails(t, d.Close(), nil, "d.Close()")
	})
	return d.Node(0)
}

func TestSame(t *testing.T) {
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for seed := range uint64(4) {
			cfg := Config{A: model(t, driver.Config{Arch: a}), B: model(t, driver.Config{Arch: a}), Arch: a, Seed: seed,
				Steps: 1500, Resets: true}
			l := expect.Value(Run(cfg))(t)
			for _, d := range l {
				t.Errorf("%v, seed %d: %v", a, seed, d)
			}
		}
	}
}

func TestReleases(t *testing.T) {
	for _, w := range []struct {
		version driver.Version
		request string // that differs from the newest release
	}{
		{driver.Version{Major: 2, Minor: 9}, "EXPORT_TLB_DMABUF"},
		{driver.Version{Major: 2, Minor: 8}, "PIN_PAGES"},
		{driver.Version{Major: 2, Minor: 5}, "SET_POWER_STATE"},
		{driver.Version{Major: 2, Minor: 1}, "SET_NOC_CLEANUP"},
		{driver.Version{Major: 2, Minor: 3}, "RESET_DEVICE"},
	} {
		a := chip.Blackhole
		l, err := Run(Config{A: model(t, driver.Config{Arch: a}), B: model(t, driver.Config{Arch: a, Version: w.version}), Arch: a, Steps: 1500,
			Resets: true})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, d := range l {
			found = found || strings.Contains(d.String(), w.request)
		}
		if !found {
			t.Errorf("%v: nothing differs for %s; %d other requests do", w.version, w.request, len(l))
		}
	}
}

func TestFiles(t *testing.T) {
	files := func(v driver.Version, a chip.Arch) fs.FS {
		d := expect.Value(driver.New(driver.Config{Arch: a, Version: v, Functions: []driver.Function{drivertest.New(a)}}))(t)
		t.Cleanup(func() { d.Close() })
		return d.FS()
	}
	one := files(driver.Version{}, chip.Wormhole)
	for name, w := range map[string]struct {
		a    fs.FS
		want []string
	}{
		"itself":          {one, nil},
		"another release": {files(driver.Version{Major: 2, Minor: 9}, chip.Wormhole), []string{"file sys/module/tenstorrent/version"}},
		"nothing": {fstest.MapFS{}, []string{"file sys/bus/pci/devices/0000:01:00.0/vendor",
			"file sys/class/tenstorrent/tenstorrent!0/tt_aiclk"}},
		"more": {fstest.MapFS{"sys/class/tenstorrent/tenstorrent!0/tt_new": {}},
			[]string{"file sys/class/tenstorrent/tenstorrent!0/tt_new"}},
	} {
		l := expect.Value(Files(w.a, one))(t)
		got := map[string]bool{}
		for _, d := range l {
			got[d.Request] = true
		}
		for _, f := range w.want {
			if !got[f] {
				t.Errorf("%s: no difference in %s", name, f)
			}
		}
		if w.want == nil && len(l) > 0 {
			t.Errorf("%s: %v", name, l)
		}
	}
}
