package kmd_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type target struct{ node seam.Node }

func (t target) Node() seam.Node { return t.node }
func (t target) String() string  { return t.node.String() }

type card struct {
	target
	drv *driver.Driver
}

func (c card) FS() fs.FS { return c.drv.FS() }

func cardOf(m *machine, i int) card { return card{target{m.drv.Node(i)}, m.drv} }

var archs = []chip.Arch{chip.Wormhole, chip.Blackhole}

func each(t *testing.T, f func(t *testing.T, a chip.Arch)) {
	for _, a := range archs {
		t.Run(a.String(), func(t *testing.T) { f(t, a) })
	}
}

type machine struct {
	fn  *drivertest.Function
	drv *driver.Driver
	dev *kmd.Device
}

func start(t *testing.T, a chip.Arch, cfg driver.Config, opts ...kmd.Option) *machine {
	t.Helper()
	m := &machine{fn: drivertest.New(a)}
	cfg.Arch, cfg.Functions = a, []driver.Function{m.fn}
	var err error
	if m.drv, err = driver.New(cfg); err != nil {
		t.Fatal(err)
	}
	if m.dev, err = kmd.Open(t.Context(), target{m.drv.Node(0)}, opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fails(t, m.dev.Close(), nil, "close device")
		equal(t, m.drv.Node(0).OpenFiles(), 0, "files open after Close")
		fails(t, m.drv.Close(), nil, "close driver")
	})
	return m
}

func worker(a chip.Arch) chip.XY {
	if a == chip.Wormhole {
		return chip.XY{X: 18, Y: 18}
	}
	return chip.XY{X: 1, Y: 2}
}

func TestOpenIdentifies(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		i := m.dev.Info()
		p := a.Params()
		equal(t, m.dev.Arch(), a, "m.dev.Arch()")
		equal(t, i.Vendor, p.PCI.Vendor, "i.Vendor")
		equal(t, i.Device, p.PCI.Device, "i.Device")
		if i.BDF() != "0000:01:00.0" || i.Driver.String() != "2.10.0" {
			t.Errorf("BDF %s, driver %v", i.BDF(), i.Driver)
		}
		fails(t, m.dev.Alive(), nil, "a new device")
		fails(t, m.dev.Fault(), nil, "fault")
	})
}

func TestAssertion51_WindowAccessesAreExact(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
		defer w.Close()
		must(t, w.Configure(kmd.WindowConfig{Target: worker(a)}))
		_, base, _ := a.Params().WindowOffset(w.ID())
		m.fn.Log()
		w.Store8(0x101, 0x12)
		w.Store16(0x102, 0x3456)
		w.Store32(0x104, 0x789ABCDE)
		w.Store64(0x108, 0x0123456789ABCDEF)
		got := []uint64{uint64(w.Load8(0x101)), uint64(w.Load16(0x102)), uint64(w.Load32(0x104)), w.Load64(0x108)}
		want := []uint64{0x12, 0x3456, 0x789ABCDE, 0x0123456789ABCDEF}
		noDiff(t, got, want, "read back")
		var log []drivertest.Access
		for i, width := range []int{1, 2, 4, 8} {
			off := base + []uint64{0x101, 0x102, 0x104, 0x108}[i]
			log = append(log, drivertest.Access{Off: off, Width: width, Store: true, Value: want[i]})
		}
		for i := range 4 {
			x := log[i]
			x.Store = false
			log = append(log, x)
		}
		noDiff(t, m.fn.Log(), log, "accesses")
		fails(t, w.Err(), nil, "window")
	})
}

func TestWindowKeepsBadAccessesBack(t *testing.T) {
	m := blackhole(t)
	for _, tt := range []struct {
		name string
		do   func(w *kmd.Window)
		want error
	}{
		{"misaligned load", func(w *kmd.Window) {
			equal(t, w.Load32(2), 0xFFFFFFFF, "a misaligned load")
		}, kmd.ErrMisaligned},
		{"misaligned store", func(w *kmd.Window) { w.Store64(4, 1) }, kmd.ErrMisaligned},
		{"load at the end", func(w *kmd.Window) { w.Load8(2 << 20) }, kmd.ErrOutOfRange},
		{"store far outside", func(w *kmd.Window) { w.Store32(1<<63, 1) }, kmd.ErrOutOfRange},
		{"read over the end", func(w *kmd.Window) { w.Read(2<<20-4, make([]byte, 8)) }, kmd.ErrOutOfRange},
		{"write with a wrapping end", func(w *kmd.Window) { w.Write(1<<64-4, make([]byte, 8)) }, kmd.ErrOutOfRange},
		{"store after close", func(w *kmd.Window) { w.Close(); w.Store32(0, 1) }, kmd.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
			defer w.Close()
			m.fn.Log()
			tt.do(w)
			fails(t, w.Err(), tt.want, "the window's error")
			equal(t, len(m.fn.Log()), 0, "the device saw")
		})
	}
}

func TestConfigureRefusesWhatHardwareCannotHold(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
		defer w.Close()
		for _, tt := range []struct {
			name string
			c    kmd.WindowConfig
			want error
		}{
			{"address inside a window", kmd.WindowConfig{Addr: 4}, kmd.ErrMisaligned},
			{"coordinate of 7 bits", kmd.WindowConfig{Target: chip.XY{X: 64}}, kmd.ErrOutOfRange},
			{"start without multicast", kmd.WindowConfig{Start: chip.XY{X: 1}}, kmd.ErrOutOfRange},
			{"third network", kmd.WindowConfig{NOC: 2}, kmd.ErrOutOfRange},
			{"fourth ordering", kmd.WindowConfig{Ordering: 3}, kmd.ErrOutOfRange},
		} {
			fails(t, w.Configure(tt.c), tt.want, "%s", tt.name)
		}
		err := w.Configure(kmd.WindowConfig{Addr: 1 << 40})
		equal(t, errors.Is(err, kmd.ErrOutOfRange), a == chip.Wormhole, "refusal of an address of 41 bits: %v", err)
	})
}

func TestConfigureReachesHardware(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		for _, class := range a.Params().Windows {
			w := value(m.dev.OpenWindow(class.Size, kmd.WriteCombined))(t)
			for _, tt := range []struct {
				c    kmd.WindowConfig
				want drivertest.Target
			}{
				{kmd.WindowConfig{Target: chip.XY{X: 5, Y: 9}, Addr: 3 * class.Size},
					drivertest.Target{X: 5, Y: 9, Addr: 3 * class.Size, Ordering: 1}},
				{kmd.WindowConfig{Target: chip.XY{X: 63, Y: 62}, NOC: chip.NOC1, Ordering: kmd.Posted},
					drivertest.Target{X: 63, Y: 62, NOC: 1, Ordering: 2}},
				{kmd.WindowConfig{Target: chip.XY{X: 4, Y: 5}, Start: chip.XY{X: 2, Y: 3}, Multicast: true, Ordering: kmd.Relaxed},
					drivertest.Target{X: 4, Y: 5, StartX: 2, StartY: 3, Multicast: 1}},
			} {
				must(t, w.Configure(tt.c))
				noDiff(t, m.fn.WindowTarget(w.ID()), tt.want, "%v: hardware", w)
			}
			must(t, w.Close())
		}
	})
}

func TestHostMemoryIsSharedWithTheDevice(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		h := value(m.dev.PinHostMemory(100_000))(t)
		equal(t, len(h.Bytes()), 102_400, "bytes of memory")
		equal(t, h.NOCAddr(), a.Params().PCI.NOCBase, "NoC address")
		must(t, m.fn.WriteHost(h.NOCAddr()+8, []byte("from the device")))
		equal(t, string(h.Bytes()[8:23]), "from the device", "what the host sees")
		copy(h.Bytes()[50_000:], "from the host")
		got := make([]byte, 13)
		if err := m.fn.ReadHost(h.NOCAddr()+50_000, got); err != nil || string(got) != "from the host" {
			t.Errorf("device sees %q, %v", got, err)
		}
		noc := h.NOCAddr()
		must(t, h.Close())
		fails(t, h.Close(), nil, "closing again")
		expect.Error(t, m.fn.ReadHost(noc, got)) // unpinned memory
	})
}

func TestReadWriteSplitAndKeepOrder(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		size := a.Params().Windows[0].Size
		for _, n := range []int{1, 3, 4, 8, 255, 256, 1000, int(size) + 12} {
			for _, addr := range []uint64{0, 1, 4, size - 4, size - 2, 3*size - 100} {
				want := make([]byte, n)
				for i := range want {
					want[i] = byte(i*7 + n)
				}
				must(t, m.dev.Write(worker(a), addr, want))
				xy := worker(a)
				if !bytes.Equal(m.fn.Tile(xy.X, xy.Y, addr, n), want) {
					t.Fatalf("%d bytes at %#x: the tile has others", n, addr)
				}
				got := make([]byte, n)
				if err := m.dev.Read(worker(a), addr, got); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes at %#x read back different, %v", n, addr, err)
				}
			}
		}
	})
}

func TestWordsAreSingleAccesses(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		reg := uint64(0xFFB121B0)
		words := func() (n int) {
			for _, x := range m.fn.Log() {
				if x.BAR == 0 && x.Off < 0x1FC00000 {
					if x.Width != 4 || x.Bulk {
						t.Errorf("access %+v to a register", x)
					}
					n++
				}
			}
			return n
		}
		if err := m.dev.Write(worker(a), reg, []byte{1, 2, 3, 4}); err != nil || words() != 1 {
			t.Errorf("Write: %v", err)
		}
		if err := m.dev.Read(worker(a), reg, make([]byte, 4)); err != nil || words() != 1 {
			t.Errorf("Read: %v", err)
		}
		if err := m.dev.Write32(worker(a), reg, 0x47000); err != nil || words() != 1 {
			t.Errorf("Write32: %v", err)
		}
		if v, err := m.dev.Read32(worker(a), reg); err != nil || v != 0x47000 || words() != 1 {
			t.Errorf("Read32: %#x, %v", v, err)
		}
		fails(t, m.dev.Write32(worker(a), reg+2, 1), kmd.ErrMisaligned, "misaligned word")
		fails(t, m.dev.Multicast(worker(a), worker(a), 0x1000, make([]byte, 3)), kmd.ErrMisaligned, "multicast of three bytes")
	})
}

func TestScatteredAccessesKeepFewWindows(t *testing.T) {
	m := blackhole(t)
	for i := range 100 {
		xy := chip.XY{X: uint8(1 + i%7), Y: uint8(2 + i%10)}
		must(t, m.dev.Write(xy, uint64(i)<<21, make([]byte, 300)))
		must(t, m.dev.Write32(xy, uint64(i)<<21, uint32(i)))
	}
	w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
	equal(t, w.ID(), 5, "the next window")
}

func TestConcurrentAccessesGoWhereTheyShould(t *testing.T) {
	m := start(t, chip.Wormhole, driver.Config{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			xy := chip.XY{X: 18, Y: uint8(18 + g)}
			for i := range 50 {
				if err := m.dev.Write32(xy, uint64(i)*4, uint32(g<<16|i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for g := range 8 {
		for i := range 50 {
			v, err := m.dev.Read32(chip.XY{X: 18, Y: uint8(18 + g)}, uint64(i)*4)
			if err != nil || v != uint32(g<<16|i) {
				t.Fatalf("tile %d word %d is %#x, %v", g, i, v, err)
			}
		}
	}
}

func TestAccessesDoNotAllocate(t *testing.T) {
	m := blackhole(t)
	w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
	p := make([]byte, 64)
	xy := worker(chip.Blackhole)
	for name, f := range map[string]func(){
		"Load32":    func() { w.Load32(0) },
		"Store32":   func() { w.Store32(0, 1) },
		"Store64":   func() { w.Store64(0, 1) },
		"Read":      func() { w.Read(0, p) },
		"Write":     func() { w.Write(0, p) },
		"Drain":     func() { w.Drain() },
		"Configure": func() { _ = w.Configure(kmd.WindowConfig{Target: xy}) },
		"Device.Read32": func() {
			value(m.dev.Read32(xy, 0x100))(t)
		},
		"Device.Write": func() { _ = m.dev.Write(xy, 0x100, p) },
		"re-targeting": func() {
			for i := range uint64(6) {
				_ = m.dev.Write32(xy, i<<21, 1)
			}
		},
	} {
		f()
		m.fn.Log() // the record of accesses grows; it is the test's, not the package's
		m.fn.Quiet(true)
		equal(t, testing.AllocsPerRun(100, f), 0, "%s: allocations", name)
		m.fn.Quiet(false)
	}
}

func TestHarvesting(t *testing.T) {
	for _, want := range []chip.Harvesting{{}, {Tensix: 1 << 3}, {Tensix: 1<<2 | 1<<9}} {
		t.Run("wormhole", func(t *testing.T) {
			m := start(t, chip.Wormhole, driver.Config{})
			m.fn.Harvesting = want.ARCWord()
			equal(t, value(m.dev.Harvesting(t.Context()))(t), want, "harvesting")
		})
	}
	for _, want := range []chip.Harvesting{{}, {Tensix: 1<<3 | 1<<13}, {Tensix: 1, DRAM: 1 << 4, Ethernet: 3 << 12}} {
		t.Run("blackhole", func(t *testing.T) {
			m := blackhole(t)
			if want != (chip.Harvesting{}) {
				c, e, g := want.Telemetry()
				m.fn.Telemetry[34], m.fn.Telemetry[35], m.fn.Telemetry[36] = c, e, g
			} // else the tags are absent, and nothing is harvested
			equal(t, value(m.dev.Harvesting(t.Context()))(t), want, "harvesting")
		})
	}
}

func TestFirmwareThatDoesNotAnswer(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		m.fn.Mute, m.fn.Telemetry = true, nil
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, err := m.dev.Harvesting(ctx)
		expect.Fails(t, err, kmd.ErrFirmware, "error")
		expect.Fails(t, err, context.DeadlineExceeded, "error")
		m.fn.Mute, m.fn.Telemetry = false, map[uint16]uint32{14: 1}
		fails(t, second(m.dev.Harvesting(t.Context())), nil, "afterwards")
	})
}

type failing struct{ err error }

func (f failing) Open(int) (seam.File, error) { return nil, f.err }
func (f failing) String() string              { return "/dev/tenstorrent/7" }

func TestOpenErrorsSayWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		errno error
		want  error
		text  string
	}{
		{syscall.ENOENT, kmd.ErrNoDevice, "modprobe"},
		{syscall.ENXIO, kmd.ErrNoDevice, "lspci"},
		{syscall.EACCES, kmd.ErrPermission, "udev rule"},
		{syscall.EPERM, kmd.ErrPermission, "group"},
		{syscall.EISDIR, kmd.ErrNotDevice, "not a Tenstorrent"},
	} {
		_, err := kmd.Open(t.Context(), target{failing{tt.errno}})
		var op *kmd.OpError
		if !errors.Is(err, tt.want) || !errors.Is(err, tt.errno) || !errors.As(err, &op) || op.Path != "/dev/tenstorrent/7" {
			t.Errorf("%v: %v, want %v", tt.errno, err, tt.want)
		}
		expect.Says(t, err, nil, tt.text)
	}
}

func release(minor uint8) driver.Version { return driver.Version{Major: 2, Minor: minor} }

func blackhole(t *testing.T) *machine { t.Helper(); return start(t, chip.Blackhole, driver.Config{}) }

var (
	fails  = expect.Fails
	must   = expect.Must
	noDiff = expect.NoDiff
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}

func second[V any](_ V, err error) error { return err }
