package sim_test

import (
	"context"
	"errors"
	"io/fs"
	"math/bits"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
)

func open(t *testing.T, c kmd.Target) *kmd.Device {
	t.Helper()
	d := expect.Value(kmd.Open(t.Context(), c))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestHarvestedCards(t *testing.T) {
	for _, tt := range []struct {
		make func(...sim.Option) *sim.Card
		want chip.Harvesting
	}{
		{sim.Wormhole, chip.Harvesting{Tensix: 1 << 4}},
		{sim.Wormhole, chip.Harvesting{Tensix: 1<<0 | 1<<9}},
		{sim.Blackhole, chip.Harvesting{Tensix: 1<<2 | 1<<11}},
		{sim.Blackhole, chip.Harvesting{Tensix: 1<<0 | 1<<13, DRAM: 1 << 5}},
	} {
		d := open(t, tt.make(sim.Harvesting(tt.want)))
		got, err := d.Harvesting(t.Context())
		if err != nil || got.Tensix != tt.want.Tensix || got.DRAM != tt.want.DRAM {
			t.Errorf("%v: %+v, %v, want %+v", d.Arch(), got, err, tt.want)
			continue
		}
		c := expect.Value(chip.New(d.Arch(), got))(t)
		n := uint32(0)
		for core := range c.Workers() {
			n++
			must(t, d.Write32(expect.Value(c.Virtual(core))(t), 0x1000, n))
		}
		for core := range c.Workers() {
			n--
			v, err := d.Read32(expect.Value(c.Virtual(core))(t), 0x1000)
			if w := uint32(core.Y*gridWidth(c) + core.X + 1); err != nil || v != w {
				t.Fatalf("%v holds %d, %v, want %d: two workers are one tile", core, v, err, w)
			}
		}
		expect.Equal(t, n, 0, "workers that weren't read")
	}
}

// tt-umd wants 2 or all of a Blackhole's Ethernet tiles harvested
// (device/coordinates/blackhole_coordinate_manager.cpp).
func TestBlackholeIsAProduct(t *testing.T) {
	for _, tt := range []struct {
		card *sim.Card
		want int
	}{{sim.Blackhole(), 2}, {sim.Blackhole(sim.Harvesting(chip.P100().Chips[0].Harvesting)), 14}} {
		h := expect.Value(open(t, tt.card).Harvesting(t.Context()))(t)
		expect.Equal(t, bits.OnesCount32(h.Ethernet), tt.want, "harvested Ethernet tiles of %+v", h)
	}
}

func gridWidth(c *chip.Chip) int {
	w, _ := c.Grid()
	return w
}

func TestCardsStartAndEnd(t *testing.T) {
	card := sim.Blackhole(sim.Synchronous(), sim.Seed(3))
	if card.Chip() != nil {
		t.Error("a chip before the card was opened")
	}
	xy := chip.XY{X: 1, Y: 2}
	a := open(t, card)
	b := open(t, card)
	first := card.Chip()
	must(t, a.Write32(xy, 0x40, 7))
	expect.Equal(t, expect.Value(b.Read32(xy, 0x40))(t), 7, "what a second opener sees")
	must(t, errors.Join(a.Close(), b.Close()))
	c := open(t, card)
	if card.Chip() == first {
		t.Error("the chip outlived its last opener")
	}
	expect.Equal(t, expect.Value(c.Read32(xy, 0x40))(t), 0, "a word of a new chip")
}

func TestCardsThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		card *sim.Card
		want error
	}{
		{sim.Wormhole(sim.Harvesting(chip.Harvesting{Tensix: 1 << 20})), emu.ErrConfig},
		{sim.Blackhole(sim.Delay(-1)), emu.ErrConfig},
		{sim.Blackhole(sim.DriverVersion(1, 34, 0)), driver.ErrConfig},
	} {
		_, err := kmd.Open(t.Context(), tt.card)
		var op *kmd.OpError
		if !errors.Is(err, tt.want) || !errors.As(err, &op) || op.Path == "" {
			t.Errorf("%v: %v", tt.card, err)
		}
	}
}

func TestResidentCardsThatCannotBe(t *testing.T) {
	for _, option := range []sim.Option{sim.Fault("hiccups"), sim.DriverVersion(1, 34, 0)} {
		card := sim.Blackhole(sim.Resident(), option)
		expect.Fails(t, second(card.Driver()), driver.ErrConfig, "card.Driver()")
		fails(t, card.Chip().Reset(), emu.ErrClosed, "the chip runs on")
	}
}

func TestMachineOptions(t *testing.T) {
	d := open(t, sim.Wormhole(sim.WithoutIOMMU(), sim.DriverVersion(2, 4, 1), sim.Name("card ")))
	fails(t, second(d.PinHostMemory(1<<20)), kmd.ErrNotContiguous, "1 MiB without an IOMMU")
	if d.Info().Driver.String() != "2.4.1" || d.String() != "card 0" {
		t.Errorf("driver %v of %v", d.Info().Driver, d)
	}
}

func TestRefusalsReachTheHost(t *testing.T) {
	d := open(t, sim.Blackhole(sim.RefuseUnwritten(), sim.Delay(4)))
	err := d.Write(chip.XY{X: 1, Y: 2}, 0xFFB121B0, make([]byte, 64))
	if err == nil {
		err = d.Read(chip.XY{X: 1, Y: 2}, 0xFFB121B0, make([]byte, 64))
	}
	expect.Fails(t, err, kmd.ErrDeviceLost, "error")
	expect.Fails(t, err, emu.ErrRefused, "error")
	fails(t, d.Fault(), emu.ErrRefused, "fault")
}

var (
	fails = expect.Fails
	must  = expect.Must
)

func second[V any](_ V, err error) error { return err }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCardsHaveAMachine(t *testing.T) {
	for _, tt := range []struct {
		card  *sim.Card
		board string
		iommu kmd.IOMMU
	}{
		{sim.Blackhole(), "p150a", kmd.IOMMUTranslating},
		{sim.Wormhole(sim.WithoutIOMMU()), "n150", kmd.IOMMUOff},
	} {
		c := kmd.Inspect(t.Context(), tt.card)
		h := c.Harvesting
		if c.Problem != nil || c.Board != tt.board || c.IOMMU != tt.iommu || c.AICLK == nil || len(c.Holders) != 0 ||
			h == nil || h.Tensix != 0 || h.DRAM != 0 {
			t.Errorf("%+v", c)
		}
		open(t, tt.card)
		if c := kmd.Inspect(t.Context(), tt.card); len(c.Holders) != 1 {
			t.Errorf("open, and held by %v", c.Holders)
		}
		b, err := fs.ReadFile(tt.card.FS(), "sys/module/tenstorrent/version")
		if err != nil || strings.TrimSpace(string(b)) != "2.10.0" {
			t.Errorf("version %q, %v", b, err)
		}
	}
}

func TestFaultyCards(t *testing.T) {
	d := open(t, sim.Blackhole(sim.Fault("busy-windows")))
	fails(t, second(d.OpenWindow(2<<20, kmd.Uncached)), kmd.ErrBusy, "busy windows")
	fails(t, second(kmd.Open(t.Context(), sim.Blackhole(sim.Fault("hiccups")))), driver.ErrConfig, "a fault that isn't known")
	fails(t, second(fs.ReadFile(sim.Blackhole(sim.DriverVersion(1, 0, 0)).FS(), "dev")), fs.ErrNotExist, "a machine that can't exist")
}

func machine(t *testing.T, m *sim.Machine) *sim.Machine {
	t.Helper()
	expect.Must(t, m.Err())
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMachinesAreListed(t *testing.T) {
	for _, tt := range []struct {
		machine *sim.Machine
		cards   int
		board   string
	}{
		{sim.N150(), 1, "n150"}, {sim.N300(), 1, "n300"}, {sim.T3000(), 4, "n300"}, {sim.P100(), 1, "p100a"},
		{sim.P150(), 1, "p150a"}, {sim.P300(), 2, "p300b"}, {sim.QuietBox(), 4, "p150a"},
	} {
		m := machine(t, tt.machine)
		l, err := kmd.SystemOf(m.Card(0)).List(t.Context())
		if err != nil || len(l) != tt.cards || len(m.Cards()) != tt.cards {
			t.Fatalf("%v: %d cards of %d, %v", m, len(l), len(m.Cards()), err)
		}
		serials := map[string]bool{}
		for _, c := range l {
			if c.Problem != nil || c.Board != tt.board || c.Harvesting == nil {
				t.Errorf("%v: %+v", m, c)
			}
			serials[c.Serial] = true
		}
		if tt.cards > 2 && len(serials) != tt.cards {
			t.Errorf("%v: serial numbers %v", m, serials)
		}
	}
}

func TestGalaxiesAreCheap(t *testing.T) {
	for _, open := range []func(...sim.Option) *sim.Machine{sim.GalaxyWormhole, sim.GalaxyBlackhole} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		m := machine(t, open())
		var g errgroup.Group
		devices := make([]*kmd.Device, len(m.Cards()))
		for i, c := range m.Cards() {
			g.Go(func() (err error) {
				devices[i], err = kmd.Open(context.Background(), c)
				return err
			})
		}
		must(t, g.Wait())
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		// What tests before have left may be collected only now, so that there is less than before.
		perChip := max(int64(after.HeapAlloc)-int64(before.HeapAlloc), 0) / int64(len(devices))
		t.Logf("%v: 32 chips open in %v, %d KiB of memory for each", m, took, perChip>>10)
		if perChip > 16<<20 {
			t.Errorf("%v: %d bytes of memory for an idle chip", m, perChip)
		}
		for i, d := range devices {
			if d.Arch() != m.Spec().Arch || len(m.Chip(i).Cores()) != 0 {
				t.Errorf("%v: chip %d is %v and runs %v", m, i, d.Arch(), m.Chip(i).Cores())
			}
			d.Close()
		}
	}
}

func TestImpossibleMachines(t *testing.T) {
	for _, m := range []*sim.Machine{
		sim.NewMachine(chip.Machine{Name: "none", Arch: chip.Wormhole}),
		sim.N300(sim.LinkFault("link-cut=0:8")), sim.N300(sim.LinkFault("link-down=0:1")), sim.N300(sim.LinkFault("link-drop=8")),
		sim.N300(sim.LinkFault("link-drop=0:8/0")),
	} {
		fails(t, m.Err(), emu.ErrConfig, "%v", m)
		for _, c := range m.Cards() {
			fails(t, second(kmd.Open(t.Context(), c)), emu.ErrConfig, "%v: open", m)
		}
	}
	fails(t, second(kmd.Open(t.Context(), sim.Wormhole(sim.LinkFault("link-down=0:8")))), emu.ErrConfig, "a link of a card by itself")
	m := machine(t, sim.N300(sim.LinkFault("link-down=0:8"), sim.LinkFault("link-delay=1:1/5"), sim.LinkFault("link-duplicate=0:9/5")))
	must(t, m.SetLink(0, 8, true))
}

func TestTopologyIsCleanOnStrictMachines(t *testing.T) {
	for _, m := range []*sim.Machine{
		sim.N300(sim.Strict(3)), sim.T3000(sim.Strict(5), sim.Synchronous()), sim.QuietBox(sim.Strict(4), sim.Synchronous()),
	} {
		machine(t, m)
		var ds []*kmd.Device
		for _, c := range m.Cards() {
			ds = append(ds, open(t, c))
		}
		g, err := topology.Discover(t.Context(), ds)
		if err != nil || len(g.Degraded()) != 0 || len(g.Links) != len(m.Spec().Links) {
			t.Errorf("%v: %d links, %v, %v", m, len(g.Links), g.Degraded(), err)
		}
		for i := range m.Spec().Chips {
			fails(t, m.Chip(i).Fault(), nil, "%v: chip %d", m, i)
		}
	}
}
