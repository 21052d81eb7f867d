package sim_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
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
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func open(t *testing.T, c kmd.Target) *kmd.Device {
	t.Helper()
	d := value(kmd.Open(t.Context(), c))(t)
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
		c := value(chip.New(d.Arch(), got))(t)
		n := uint32(0)
		for core := range c.Workers() {
			n++
			must(t, d.Write32(virtual(t, c, core), 0x1000, n))
		}
		for core := range c.Workers() {
			n--
			v, err := d.Read32(virtual(t, c, core), 0x1000)
			if w := uint32(core.Y*gridWidth(c) + core.X + 1); err != nil || v != w {
				t.Fatalf("%v holds %d, %v, want %d: two workers are one tile", core, v, err, w)
			}
		}
		equal(t, n, 0, "workers that weren't read")
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
	equal(t, value(b.Read32(xy, 0x40))(t), 7, "what a second opener sees")
	must(t, errors.Join(a.Close(), b.Close()))
	c := open(t, card)
	if card.Chip() == first {
		t.Error("the chip outlived its last opener")
	}
	equal(t, value(c.Read32(xy, 0x40))(t), 0, "a word of a new chip")
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
		if _, err := card.Driver(); !errors.Is(err, driver.ErrConfig) {
			t.Errorf("%v", err)
		}
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
	if !errors.Is(err, kmd.ErrDeviceLost) || !errors.Is(err, emu.ErrRefused) {
		t.Errorf("64 bytes to a register: %v", err)
	}
	fails(t, d.Fault(), emu.ErrRefused, "fault")
}

var (
	fails = expect.Fails
	must  = expect.Must
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}
func second[V any](_ V, err error) error { return err }

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

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
		if c.Problem != nil || c.Board != tt.board || c.IOMMU != tt.iommu || c.Harvesting == nil || !c.AICLK.OK || len(c.Holders) != 0 {
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

var backends = []struct {
	name string
	arch chip.Arch
	open func(t *testing.T) kmd.Target
}{
	{"emulated wormhole", chip.Wormhole, func(*testing.T) kmd.Target { return sim.Wormhole() }},
	{"emulated blackhole", chip.Blackhole, func(*testing.T) kmd.Target { return sim.Blackhole() }},
	{"ttsim wormhole", chip.Wormhole, func(t *testing.T) kmd.Target { return library(t, ttsimtest.Wormhole) }},
	{"ttsim blackhole", chip.Blackhole, func(t *testing.T) kmd.Target { return library(t, ttsimtest.Blackhole) }},
}

func library(t *testing.T, variable string) kmd.Target {
	return ttsim.Library(ttsimtest.Path(t, variable), ttsimtest.Server())
}

func TestStack(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			d := value(kmd.Open(t.Context(), b.open(t)))(t)
			t.Cleanup(func() {
				fails(t, d.Fault(), nil, "fault")
				fails(t, d.Close(), nil, "close")
			})
			if d.Arch() != b.arch {
				t.Fatalf("opened a %v", d.Arch())
			}
			fails(t, d.Alive(), nil, "alive")
			h, err := d.Harvesting(t.Context())
			if err != nil || h.Tensix != 0 || h.DRAM != 0 {
				t.Errorf("harvesting %+v, %v, want none of Tensix and DRAM", h, err)
			}
			tel, err := d.Telemetry(t.Context())
			if err != nil {
				t.Fatalf("telemetry: %v", err)
			}
			if v, ok := tel.Value(chip.TagAICLK); !ok || v < 100 || v > 2000 {
				t.Errorf("AICLK %d MHz, %t", v, ok)
			}
			c := value(chip.New(b.arch, h))(t)
			tiles(t, d, c)
			multicast(t, d, c)
			windows(t, d, c)
			hostMemory(t, d, c)
		})
	}
}

func virtual(t *testing.T, c *chip.Chip, core chip.Core) chip.XY {
	t.Helper()
	return value(c.Virtual(core))(t)
}

func tiles(t *testing.T, d *kmd.Device, c *chip.Chip) {
	xy, p := virtual(t, c, chip.Core{X: 3, Y: 4}), c.Params()
	for _, n := range []int{1, 3, 4, 7, 64, 4096, 100_003} {
		want := make([]byte, n)
		for i := range want {
			want[i] = byte(i*31 + n)
		}
		for _, addr := range []uint64{0x20000, 0x30001, 1<<20 - 2} {
			must(t, d.Write(xy, addr, want))
			got := make([]byte, n)
			if err := d.Read(xy, addr, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes at L1 %#x differ, %v", n, addr, err)
			}
		}
	}
	equal(t, value(d.Read32(xy, uint64(p.SoftReset)))(t), p.ResetAll, "soft reset")
	must(t, d.Write32(xy, 0x1000, 0xFFFFFFFF))
	equal(t, value(d.Read32(xy, 0x1000))(t), 0xFFFFFFFF, "a word of all ones on a live chip")
	bank := c.DRAMBanks()[0]
	want := bytes.Repeat([]byte("dram"), 1000)
	addr := bank.Offset + 3<<20 - 100
	must(t, d.Write(bank.HostEndpoint, addr, want))
	got := make([]byte, len(want))
	if err := d.Read(bank.HostEndpoint, addr, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("DRAM differs, %v", err)
	}
}

func multicast(t *testing.T, d *kmd.Device, c *chip.Chip) {
	want := []byte("to everyone in the grid.")
	for _, r := range c.Rects(c.All()) {
		start, end := r.Corners(chip.NOC0)
		must(t, d.Multicast(start, end, 0x8000, want))
	}
	for core := range c.Workers() {
		got := make([]byte, len(want))
		if err := d.Read(virtual(t, c, core), 0x8000, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v has %q, %v", core, got, err)
		}
	}
}

func windows(t *testing.T, d *kmd.Device, c *chip.Chip) {
	xy := virtual(t, c, chip.Core{})
	for _, class := range c.Params().Windows {
		for _, caching := range []kmd.Caching{kmd.Uncached, kmd.WriteCombined} {
			w := value(d.OpenWindow(class.Size, caching))(t)
			for _, o := range []kmd.Ordering{kmd.Strict, kmd.Relaxed, kmd.Posted} {
				must(t, w.Configure(kmd.WindowConfig{Target: xy, Ordering: o}))
				w.Store64(0x4000, 0x1122334455667788+uint64(o))
				w.Store32(0x4008, 7)
				w.Drain()
				if v := w.Load64(0x4000); v != 0x1122334455667788+uint64(o) || w.Load32(0x4008) != 7 {
					t.Errorf("%v %d: %#x", w, o, v)
				}
			}
			fails(t, errors.Join(w.Err(), w.Close()), nil, "%v", w)
		}
	}
}

func hostMemory(t *testing.T, d *kmd.Device, c *chip.Chip) {
	// Two pins, so that the second isn't at the start of the aperture, where an unprogrammed region
	// would do as well.
	for i := range 2 {
		h := value(d.PinHostMemory(1 << 20))(t)
		defer h.Close()
		p := c.Params()
		xy := virtual(t, c, chip.Core{X: 1, Y: i})
		binary.LittleEndian.PutUint32(h.Bytes()[0x10040:], 0xC0FFEE00+uint32(i))
		equal(t, value(d.Read32(c.PCIe(chip.NOC0), h.NOCAddr()+0x10040))(t), 0xC0FFEE00+uint32(i), "host memory through the PCIe tile")
		// The tile's network interface, programmed from outside, writes L1 to host memory.
		const want = "written by the chip............."
		must(t, d.Write(xy, 0x5000, []byte(want)))
		niu, to, pcie := &p.NIU, h.NOCAddr()+0x20000, p.Arch.NOCXY(c.PCIe(chip.NOC0))
		regs := [][2]uint32{
			{niu.Ctrl, chip.CtrlWrite | chip.CtrlResponse | chip.CtrlStaticVC | 1<<chip.CtrlVCShift},
			{niu.TargAddrLo, 0x5000},
			{niu.TargCoord, p.Arch.NOCXY(xy)},
			{niu.RetAddrLo, uint32(to)},
			{niu.AtLenBe, uint32(len(want))},
			{niu.RetCoord, pcie | uint32(to>>32)}, // Wormhole: above the address's bits 35:32
		}
		if p.Arch == chip.Blackhole {
			regs[5] = [2]uint32{niu.RetCoord, pcie}
			regs = append(regs, [2]uint32{niu.TargAddrMid, 0}, [2]uint32{niu.RetAddrMid, uint32(to >> 32)})
		}
		for _, r := range append(regs, [2]uint32{niu.CmdCtrl, 1}) {
			must(t, d.Write32(xy, uint64(niu.Command(chip.NOC0, 0, r[0])), r[1]))
		}
		// The simulator finishes a request inside the store that starts it, and a load comes after
		// that store.
		equal(t, value(d.Read32(xy, uint64(niu.Command(chip.NOC0, 0, niu.CmdCtrl))))(t), 0, "request still pending")
		equal(t, string(h.Bytes()[0x20000:0x20000+len(want)]), want, "host memory")
	}
}

func machine(t *testing.T, m *sim.Machine) *sim.Machine {
	t.Helper()
	if m.Err() != nil {
		t.Fatal(m.Err())
	}
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
