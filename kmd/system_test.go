package kmd_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
)

func systemOf(drv *driver.Driver) kmd.System {
	return kmd.System{Root: drv.FS(), Open: func(node string) kmd.Target {
		for i := range drv.Len() {
			if n := drv.Node(i); n.String() == node {
				return card{target{n}, drv}
			}
		}
		return kmd.Path(node)
	}}
}

func machineOf(t *testing.T, cfg driver.Config, cards int) (*driver.Driver, []*drivertest.Function) {
	t.Helper()
	var fns []*drivertest.Function
	for range cards {
		f := drivertest.New(cfg.Arch)
		fns = append(fns, f)
		cfg.Functions = append(cfg.Functions, f)
	}
	drv := value(driver.New(cfg))(t)
	t.Cleanup(func() { must(t, drv.Close()) })
	return drv, fns
}

func TestListSortsByPlace(t *testing.T) {
	drv, fns := machineOf(t, driver.Config{Arch: chip.Blackhole, Ordinals: []int{7, 0, 3},
		Addresses: []uint16{0x2200, 0x4100, 0x0100}, NUMANode: 2}, 3)
	fns[1].Subsystem = 0x00431E52
	fns[1].Telemetry = map[uint16]uint32{1: 0x43 << 4, 2: 0xBEEF, 11: 45 << 16, 14: 1350, 7: 88, 6: 800, 8: 60,
		28: 0x13010200, 61: 5, 62: 6, 32: 99, 34: 0x3FFF &^ 3}
	for i := range 2 {
		p := value(drv.NewProcess(4711+i, "python3").Node(1).Open(syscall.O_APPEND))(t)
		defer p.Close()
	}
	cards, err := systemOf(drv).List(t.Context())
	if err != nil || len(cards) != 3 {
		t.Fatalf("%d cards, %v", len(cards), err)
	}
	var places []string
	for _, c := range cards {
		places = append(places, c.Node+" "+c.BDF)
		if c.Problem != nil {
			t.Errorf("%s: %v", c.Node, c.Problem)
		}
	}
	want := []string{"/dev/tenstorrent/3 0000:01:00.0", "/dev/tenstorrent/7 0000:22:00.0", "/dev/tenstorrent/0 0000:41:00.0"}
	noDiff(t, places, want, "places")
	harvested := chip.HarvestingFromTelemetry(func(tag chip.TelemetryTag) (uint32, bool) {
		return 0x3FFF &^ 3, tag == chip.TagEnabledColumns
	})
	full := kmd.Card{Ordinal: 0, Node: "/dev/tenstorrent/0", BDF: "0000:41:00.0", Serial: "000004300000BEEF",
		ASIC: "0000000500000006", Arch: chip.Blackhole, ID: kmd.PCIID{Vendor: 0x1E52, Device: 0xB140},
		Subsystem: kmd.PCIID{Vendor: 0x1E52, Device: 0x43}, Board: "p100a", Driver: "2.10.0", Firmware: "19.1.2.0",
		AICLK: new(1350.0), Temperature: new(45.0), Power: new(88.0), Current: new(60.0), Voltage: new(0.8), Heartbeat: new(99.0),
		Harvesting: &harvested, NUMANode: new(1), IOMMU: kmd.IOMMUTranslating,
		Holders: []kmd.Holder{{PID: 4711, Name: "python3", Files: 1}, {PID: 4712, Name: "python3", Files: 1}}}
	noDiff(t, cards[2], full, "the third card")
	if _, _, sent := drv.Node(1).Power(); sent != 0 {
		t.Errorf("looking sent %d power messages to the firmware", sent)
	}
}

func TestListWithoutCards(t *testing.T) {
	for name, root := range map[string]fs.FS{
		"no driver":         fstest.MapFS{},
		"an empty machine":  os.DirFS(t.TempDir()),
		"nothing but by-id": fstest.MapFS{"dev/tenstorrent/by-id/blackhole-0001": {}},
		"odd names":         fstest.MapFS{"dev/tenstorrent/00": {}, "dev/tenstorrent/-1": {}, "dev/tenstorrent/x": {}},
	} {
		s := kmd.System{Root: root, Open: kmd.Path}
		if l, err := s.List(t.Context()); len(l) != 0 || err != nil {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	if l, err := kmd.Host().List(t.Context()); err != nil {
		t.Errorf("this machine: %v, %v", l, err)
	}
}

func TestListTellsWhyNot(t *testing.T) {
	drv, _ := machineOf(t, driver.Config{Arch: chip.Wormhole}, 1)
	holder := value(drv.NewProcess(99, "tt-flash").Node(0).Open(syscall.O_EXCL))(t)
	defer holder.Close()
	l, err := systemOf(drv).List(t.Context())
	if err != nil || len(l) != 1 {
		t.Fatal(l, err)
	}
	c := l[0]
	if !errors.Is(c.Problem, kmd.ErrBusy) || c.Arch != chip.Wormhole || c.BDF != "0000:01:00.0" || len(c.Holders) != 1 ||
		c.Holders[0].Name != "tt-flash" {
		t.Errorf("%+v", c)
	}
}

func TestInspectAsksTheCard(t *testing.T) {
	m := blackhole(t)
	m.fn.Telemetry = map[uint16]uint32{1: 0x40 << 4, 2: 1, 11: 50 << 16, 14: 800, 28: 0x01020304, 61: 1, 62: 2}
	c := kmd.Inspect(t.Context(), target{m.node()})
	if c.Problem != nil || *c.AICLK != 800 || *c.Temperature != 50 || c.Board != "p150a" || c.Firmware != "1.2.3.4" ||
		c.Serial != "0000040000000001" || c.ASIC != "0000000100000002" || c.Power != nil || c.IOMMU != kmd.IOMMUUnknown ||
		c.Driver != "2.10.0" {
		t.Errorf("%+v", c)
	}
	if c := kmd.Inspect(t.Context(), cardOf(m, 0)); c.Problem != nil || c.Ordinal != 0 || len(c.Holders) != 1 {
		t.Errorf("%+v", c)
	}
}

type sleepy struct {
	*drivertest.Function
	loads int
}

func (s *sleepy) BARLoad(bar int, off uint64, width int) uint64 {
	if s.loads++; s.loads == 8 {
		s.Telemetry = map[uint16]uint32{14: 800}
	}
	return s.Function.BARLoad(bar, off, width)
}

func TestInspectWaitsForTheStart(t *testing.T) {
	effort.Raced(t)
	fn := &sleepy{Function: drivertest.New(chip.Blackhole)}
	fn.Telemetry = nil
	drv, err := driver.New(driver.Config{Arch: chip.Blackhole, Start: func() (driver.Function, error) {
		time.Sleep(kmd.ProbeWait + 10*time.Millisecond)
		return fn, nil
	}})
	must(t, err)
	if c := kmd.Inspect(t.Context(), target{drv.Node(0)}); c.Problem != nil || *c.AICLK != 800 {
		t.Errorf("%+v", c)
	}
	must(t, drv.Close())
}

func checks(l []kmd.Check) map[string]kmd.Status {
	m := map[string]kmd.Status{}
	for _, c := range l {
		m[c.Name] = c.Status
	}
	return m
}

func TestDiagnose(t *testing.T) {
	const ok, warn, failed, skipped = kmd.StatusOK, kmd.StatusWarning, kmd.StatusFailed, kmd.StatusSkipped
	well := map[string]kmd.Status{"driver": ok, "cards": ok, "open": ok, "chip": ok, "firmware": ok, "memory": ok,
		"power": ok, "windows": ok, "locks": ok}
	lame := map[string]kmd.Status{"open": failed, "chip": skipped, "firmware": skipped, "memory": skipped, "power": skipped,
		"windows": skipped, "locks": skipped}
	dead := map[string]kmd.Status{"chip": failed, "firmware": skipped, "memory": skipped, "power": skipped,
		"windows": skipped, "locks": skipped}
	for _, tt := range []struct {
		name  string
		cfg   driver.Config
		spoil func(t *testing.T, drv *driver.Driver, fn *drivertest.Function)
		want  map[string]kmd.Status // where it differs from all being well
		fix   map[string]string     // a part of it
	}{
		{name: "all is well"},
		{name: "no IOMMU and no huge pages", cfg: driver.Config{NoIOMMU: true},
			want: map[string]kmd.Status{"memory": failed}, fix: map[string]string{"memory": "iommu=pt"}},
		{name: "old driver", cfg: driver.Config{Version: release(4)},
			want: map[string]kmd.Status{"power": warn}, fix: map[string]string{"power": "2.6.0"}},
		{name: "firmware without power settings", spoil: inject(driver.NoPower),
			want: map[string]kmd.Status{"power": warn}, fix: map[string]string{"power": "tt-flash"}},
		{name: "windows taken", spoil: inject(driver.BusyWindows),
			want: map[string]kmd.Status{"windows": failed, "firmware": skipped}, fix: map[string]string{"windows": "end a process"}},
		{name: "fell off the bus", spoil: inject(driver.AllOnes), want: dead, fix: map[string]string{"chip": "reprise reset"}},
		{name: "firmware silent", spoil: func(t *testing.T, _ *driver.Driver, fn *drivertest.Function) { fn.Telemetry = nil },
			want: map[string]kmd.Status{"firmware": failed}, fix: map[string]string{"firmware": "tt-flash"}},
		{name: "held exclusively", spoil: func(t *testing.T, drv *driver.Driver, _ *drivertest.Function) {
			f := value(drv.NewProcess(99, "tt-flash").Node(0).Open(syscall.O_EXCL))(t)
			t.Cleanup(func() { f.Close() })
		}, want: lame, fix: map[string]string{"open": "99 (tt-flash)"}},
		{name: "in use", spoil: func(t *testing.T, drv *driver.Driver, _ *drivertest.Function) {
			d := value(kmd.Open(t.Context(), target{drv.NewProcess(77, "server").Node(0)}))(t)
			t.Cleanup(func() { d.Close() })
			if l, err := d.TryLock(kmd.LockChipInUse); l == nil || err != nil {
				t.Fatal(l, err)
			}
		}, want: map[string]kmd.Status{"locks": warn}, fix: map[string]string{"locks": "wait"}},
		{name: "reset under way", spoil: func(t *testing.T, drv *driver.Driver, _ *drivertest.Function) {
			value(kmd.Reset(t.Context(), target{drv.Node(0)}, kmd.ResetConfig{Mode: kmd.ResetUser}))(t)
		}, want: dead, fix: map[string]string{"chip": "--mode post"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Arch = chip.Blackhole
			drv, fns := machineOf(t, tt.cfg, 1)
			fns[0].Telemetry[28] = 0x01020304
			if tt.spoil != nil {
				tt.spoil(t, drv, fns[0])
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // silent firmware ends with it
			defer cancel()
			l := systemOf(drv).Diagnose(ctx)
			want := map[string]kmd.Status{}
			for k, v := range well {
				want[k] = v
			}
			for k, v := range tt.want {
				want[k] = v
			}
			if d := cmp.Diff(want, checks(l)); d != "" {
				t.Errorf("(-want +got):\n%s\n%+v", d, l)
			}
			for _, c := range l {
				if needs := c.Status == failed || c.Status == warn; needs != (c.Fix != "") || c.Found == "" {
					t.Errorf("%+v: what to do and what is don't go together", c)
				}
				if w := tt.fix[c.Name]; !strings.Contains(c.Fix, w) {
					t.Errorf("%s: fix %q, want %q in it", c.Name, c.Fix, w)
				}
			}
			if n := drv.Node(0).OpenFiles(); n > 1 || n == 1 && tt.want["locks"] != warn && tt.want["open"] != failed {
				t.Errorf("%d files stay open", n)
			}
		})
	}
}

func inject(f driver.Fault) func(*testing.T, *driver.Driver, *drivertest.Function) {
	return func(t *testing.T, drv *driver.Driver, _ *drivertest.Function) {
		value(drv.Node(0).Inject(f))(t)
	}
}

func TestDiagnoseEmptyMachines(t *testing.T) {
	pci := func(driverVersion string) fs.FS {
		m := fstest.MapFS{"sys/bus/pci/devices/0000:05:00.0/vendor": {Data: []byte("0x1e52\n")},
			"sys/bus/pci/devices/0000:06:00.0/vendor": {Data: []byte("0x8086\n")}}
		if driverVersion != "" {
			m["sys/module/tenstorrent/version"] = &fstest.MapFile{Data: []byte(driverVersion + "\n")}
		}
		return m
	}
	for _, tt := range []struct {
		name string
		root fs.FS
		want map[string]kmd.Status
		fix  string
	}{
		{"nothing", fstest.MapFS{}, map[string]kmd.Status{"driver": kmd.StatusFailed, "cards": kmd.StatusFailed}, "lspci"},
		{"a card without a driver", pci(""), map[string]kmd.Status{"driver": kmd.StatusFailed, "cards": kmd.StatusWarning}, "modprobe"},
		{"a card that the driver refused", pci("2.10.0"), map[string]kmd.Status{"driver": kmd.StatusOK, "cards": kmd.StatusFailed}, "dmesg"},
	} {
		l := kmd.System{Root: tt.root, Open: kmd.Path}.Diagnose(t.Context())
		noDiff(t, checks(l), tt.want, "%s", tt.name)
		all := ""
		for _, c := range l {
			all += c.Fix + c.Found
		}
		if !strings.Contains(all, tt.fix) {
			t.Errorf("%s: %q isn't in %q", tt.name, tt.fix, all)
		}
	}
}

// Trap 7.1.
func TestLookingDoesNotDisturb(t *testing.T) {
	drv, _ := machineOf(t, driver.Config{Arch: chip.Blackhole}, 1)
	var flags []int
	s := kmd.System{Root: drv.FS(), Open: func(string) kmd.Target {
		return card{target{recorded{drv.Node(0), &flags}}, drv}
	}}
	value(s.List(t.Context()))(t)
	s.Diagnose(t.Context())
	equal(t, len(flags), 2, "opens")
	for _, f := range flags {
		equal(t, f, syscall.O_RDWR|syscall.O_APPEND|syscall.O_NONBLOCK, "opened with")
	}
}

type recorded struct {
	seam.Node
	flags *[]int
}

func (r recorded) Open(flags int) (seam.File, error) {
	*r.flags = append(*r.flags, flags)
	return r.Node.Open(flags)
}

func TestIdentityOpensNoCard(t *testing.T) {
	drv, fns := machineOf(t, driver.Config{Arch: chip.Blackhole, Addresses: []uint16{0x2200, 0x4100}, NUMANode: 2}, 2)
	fns[1].Telemetry = map[uint16]uint32{1: 0x43 << 4, 2: 0xBEEF}
	s := systemOf(drv)
	serial, node := s.Identity("0000:41:00.0")
	equal(t, serial, "000004300000BEEF", "serial")
	equal(t, node, 1, "node")
	for _, bdf := range []string{"0000:99:00.0", ""} {
		if serial, node := s.Identity(bdf); serial != "" || node != -1 {
			t.Errorf("a card that isn't there (%q) has serial %q and memory node %d", bdf, serial, node)
		}
	}
	if serial, node := (kmd.System{}).Identity("0000:41:00.0"); serial != "" || node != -1 {
		t.Errorf("a system that tells nothing says %q, %d", serial, node)
	}
}
