package sim_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

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
				if err := d.Fault(); err != nil {
					t.Errorf("fault: %v", err)
				}
				if err := d.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			if d.Arch() != b.arch {
				t.Fatalf("opened a %v", d.Arch())
			}
			if err := d.Alive(); err != nil {
				t.Errorf("alive: %v", err)
			}
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
			if err := errors.Join(w.Err(), w.Close()); err != nil {
				t.Errorf("%v: %v", w, err)
			}
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
