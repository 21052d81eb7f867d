package kmd_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
)

type changed struct {
	seam.Node
	open  func() error // before the node is opened
	ioctl func(f seam.File, req uint32, arg []byte) error
	mmap  func(f seam.File, off uint64, n int) (seam.Mapping, error)
}

func (c changed) Open(flags int) (seam.File, error) {
	if c.open != nil {
		if err := c.open(); err != nil {
			return nil, err
		}
	}
	f, err := c.Node.Open(flags)
	if err != nil {
		return nil, err
	}
	return changedFile{f, c}, nil
}

type changedFile struct {
	seam.File
	c changed
}

func (f changedFile) ReleaseLast() error {
	return f.File.(interface{ ReleaseLast() error }).ReleaseLast()
}

func (f changedFile) Ioctl(req uint32, arg []byte) error {
	if f.c.ioctl != nil {
		return f.c.ioctl(f.File, req, arg)
	}
	return f.File.Ioctl(req, arg)
}

func (f changedFile) Mmap(off uint64, n int) (seam.Mapping, error) {
	if f.c.mmap != nil {
		return f.c.mmap(f.File, off, n)
	}
	return f.File.Mmap(off, n)
}

func (m *machine) node() seam.Node { return m.drv.Node(0) }

func TestPathsThatAreNoDevice(t *testing.T) {
	file := t.TempDir() + "/file"
	must(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		path string
		want error
	}{
		{t.TempDir() + "/missing", kmd.ErrNoDevice},
		{file + "/0", kmd.ErrNoDevice},
		{file, kmd.ErrNotDevice},
		{"/dev/null", kmd.ErrNotDevice},
		{t.TempDir(), kmd.ErrNotDevice},
	} {
		d, err := kmd.Open(t.Context(), kmd.Path(tt.path))
		fails(t, err, tt.want, "%s", tt.path)
		if err == nil {
			d.Close()
		}
	}
}

func TestDevicesThatCannotBeDriven(t *testing.T) {
	m := blackhole(t)
	for _, tt := range []struct {
		name string
		edit func(req uint32, arg []byte)
		want error
		text string
	}{
		{"grayskull", func(req uint32, arg []byte) {
			if req == kabi.IoctlGetDeviceInfo {
				arg[10], arg[11] = 0xCA, 0xFA
			}
		}, kmd.ErrUnsupportedArch, "1e52:faca"},
		{"another vendor", func(req uint32, arg []byte) {
			if req == kabi.IoctlGetDeviceInfo {
				arg[8], arg[9] = 0x86, 0x80
			}
		}, kmd.ErrUnsupportedArch, "8086:b140"},
		{"driver 1.34", func(req uint32, arg []byte) {
			if req == kabi.IoctlGetDriverInfo {
				arg[8] = 1
			}
		}, kmd.ErrDriverTooOld, "2.0.0"},
	} {
		node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
			err := f.Ioctl(req, arg)
			tt.edit(req, arg)
			return err
		}}
		_, err := kmd.Open(t.Context(), target{node})
		expect.Says(t, err, tt.want, tt.text)
		equal(t, m.drv.Node(0).OpenFiles(), 1, "%s: files open after a failed open", tt.name)
	}
	var u *kmd.UnknownDeviceError
	node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
		err := f.Ioctl(req, arg)
		arg[10]++
		return err
	}}
	if _, err := kmd.Open(t.Context(), target{node}); !errors.As(err, &u) || u.Device != 0xB141 {
		t.Errorf("unknown device: %v", err)
	}
}

func TestInterruptedIoctlsAreRetried(t *testing.T) {
	m := blackhole(t)
	n := 0
	node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
		if n++; n%3 != 0 {
			return syscall.EINTR
		}
		return f.Ioctl(req, arg)
	}}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	must(t, d.Write32(worker(chip.Blackhole), 0, 1))
	must(t, d.Close())
}

func TestInterruptedForEver(t *testing.T) {
	m := blackhole(t)
	node := changed{Node: m.node(), ioctl: func(seam.File, uint32, []byte) error { return syscall.EINTR }}
	_, err := kmd.Open(t.Context(), target{node})
	expect.Says(t, err, syscall.EINTR, "1000 times in a row")
}

func TestInterruptionAfterTheEnd(t *testing.T) {
	m := blackhole(t)
	open := func(ctx context.Context, c changed) error {
		d, err := kmd.Open(ctx, target{c})
		if err == nil {
			err = d.Close()
		}
		return err
	}
	for name, do := range map[string]func(ctx context.Context, interrupt func() error) error{
		"open": func(ctx context.Context, interrupt func() error) error {
			return open(ctx, changed{Node: m.node(), open: interrupt})
		},
		"its requests": func(ctx context.Context, interrupt func() error) error {
			return open(ctx, changed{Node: m.node(), ioctl: func(seam.File, uint32, []byte) error { return interrupt() }})
		},
		"lock": func(ctx context.Context, interrupt func() error) error {
			node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
				if req == kabi.IoctlLockCtl {
					return interrupt()
				}
				return f.Ioctl(req, arg)
			}}
			d := value(kmd.Open(ctx, target{node}))(t)
			_, err := d.Lock(ctx, kmd.LockChipInUse)
			return errors.Join(err, d.Close())
		},
		"reset": func(ctx context.Context, interrupt func() error) error {
			reset := false
			node := changed{Node: m.node(), open: func() error {
				if reset {
					return interrupt()
				}
				return nil
			}, ioctl: func(f seam.File, req uint32, arg []byte) error {
				reset = reset || req == kabi.IoctlResetDevice
				return f.Ioctl(req, arg)
			}}
			_, err := kmd.Reset(ctx, target{node}, kmd.ResetConfig{Mode: kmd.ResetASIC})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			const ends = 3
			n := 0
			err := do(ctx, func() error {
				if n++; n == ends {
					cancel()
				}
				return syscall.EINTR
			})
			expect.Fails(t, err, context.Canceled, "error")
			equal(t, n, ends, "interruptions")
		})
	}
}

func TestFailedRetargetIsForgotten(t *testing.T) {
	m := start(t, chip.Wormhole, driver.Config{})
	fail := false
	node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
		err := f.Ioctl(req, arg)
		if req == kabi.IoctlConfigureTLB && fail {
			return syscall.EIO
		}
		return err
	}}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	defer d.Close()
	must(t, d.Write(chip.XY{X: 18, Y: 18}, 0, make([]byte, 300)))
	fail = true
	if err := d.Write(chip.XY{X: 18, Y: 19}, 0, make([]byte, 300)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the re-target that fails: %v", err)
	}
	fail = false
	p := []byte(strings.Repeat("x", 300))
	must(t, d.Write(chip.XY{X: 18, Y: 18}, 0, p))
	if got := string(m.fn.Tile(18, 18, 0, 300)); got != string(p) {
		t.Errorf("the tile holds %q", got[:10])
	}
}

func TestOpenWaitsForAnExclusiveHolder(t *testing.T) {
	m := blackhole(t)
	must(t, m.dev.Close())
	holder := value(m.node().Open(syscall.O_EXCL))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := kmd.Open(ctx, target{m.node()}); !errors.Is(err, kmd.ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while held: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		d, err := kmd.Open(t.Context(), target{m.node()})
		if err == nil {
			err = d.Close()
		}
		done <- err
	}()
	must(t, holder.Close())
	fails(t, <-done, nil, "after it")
}

func TestCloseGivesEverythingBack(t *testing.T) {
	m := start(t, chip.Blackhole, driver.Config{})
	w := value(m.dev.OpenWindow(4<<30, kmd.WriteCombined))(t)
	closed := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
	must(t, closed.Close())
	h := value(m.dev.PinHostMemory(1))(t)
	must(t, m.dev.Write32(worker(chip.Blackhole), 0, 1))
	must(t, m.dev.Close())
	if h.Bytes() != nil {
		t.Error("unmapped memory is still handed out")
	}
	for name, err := range map[string]error{
		"close":  m.dev.Close(),
		"window": w.Close(),
		"memory": h.Close(),
	} {
		expect.Fails(t, err, nil, "%s again", name)
	}
	_, err := m.dev.OpenWindow(2<<20, kmd.Uncached)
	for name, err := range map[string]error{
		"window":    err,
		"configure": w.Configure(kmd.WindowConfig{}),
		"write":     m.dev.Write(worker(chip.Blackhole), 0, []byte{1}),
		"alive":     m.dev.Alive(),
	} {
		fails(t, err, kmd.ErrClosed, "%s after close", name)
	}
}

func TestWindowsRunOut(t *testing.T) {
	m := start(t, chip.Wormhole, driver.Config{})
	_, err := m.dev.OpenWindow(4<<30, kmd.Uncached)
	fails(t, err, kmd.ErrOutOfRange, "a size that doesn't exist")
	var ws []*kmd.Window
	for {
		w, err := m.dev.OpenWindow(2<<20, kmd.Uncached)
		if err != nil {
			expect.Fails(t, err, kmd.ErrBusy, "error")
			equal(t, len(ws), 10, "windows")
			break
		}
		ws = append(ws, w)
	}
	must(t, ws[3].Close())
	equal(t, value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t).ID(), ws[3].ID(), "the freed window")
	for range 155 {
		value(m.dev.OpenWindow(1<<20, kmd.Uncached))(t)
	}
	for i := range uint64(10) {
		must(t, m.dev.Write(worker(chip.Wormhole), i<<20, make([]byte, 300)))
		if v, err := m.dev.Read32(chip.XY{X: 1, Y: 1}, i<<20); err != nil || v != 0 {
			t.Fatalf("%#x, %v", v, err)
		}
	}
}

func TestPinsThatCannotBe(t *testing.T) {
	m := start(t, chip.Blackhole, driver.Config{NoIOMMU: true})
	_, err := m.dev.PinHostMemory(1 << 20)
	expect.Says(t, err, kmd.ErrNotContiguous, "iommu=pt")
	if h, err := m.dev.PinHostMemory(os.Getpagesize()); err != nil || h.Close() != nil {
		t.Errorf("a page without an IOMMU: %v", err)
	}
	for _, n := range []int{0, -1, -1 << 63} {
		fails(t, second(m.dev.PinHostMemory(n)), kmd.ErrOutOfRange, "%d bytes", n)
	}
	for range 16 {
		value(m.dev.PinHostMemory(1))(t)
	}
	expect.Says(t, second(m.dev.PinHostMemory(1)), kmd.ErrBusy, "16")
}

func TestResetByAnother(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
		h := value(m.dev.PinHostMemory(1))(t)
		must(t, m.dev.Write32(worker(a), 0, 1))
		other := value(m.node().Open(0))(t)
		defer other.Close()
		r := kabi.ResetDevice{In: kabi.ResetDeviceIn{OutputSizeBytes: 8, Flags: kabi.ResetASIC}}
		if err := other.Ioctl(kabi.IoctlResetDevice, kabi.Bytes(&r)); err != nil || r.Out.Result != 0 {
			t.Fatalf("reset: %v, %d", err, r.Out.Result)
		}
		fails(t, m.dev.Guard(func() error { w.Load32(0); return nil }), kmd.ErrDeviceLost, "a window's load")
		_, err := m.dev.Harvesting(t.Context())
		_, err2 := m.dev.PinHostMemory(1)
		for name, err := range map[string]error{
			"word":       m.dev.Write32(worker(a), 0, 1),
			"read":       m.dev.Read(worker(a), 0, make([]byte, 100)),
			"configure":  w.Configure(kmd.WindowConfig{}),
			"harvesting": err,
			"pin":        err2,
			"alive":      m.dev.Alive(),
		} {
			fails(t, err, kmd.ErrDeviceLost, "%s", name)
		}
		fails(t, errors.Join(w.Close(), h.Close()), nil, "close")
	})
}

func TestLinkResetByAnother(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
		other := value(m.node().Open(0))(t)
		defer other.Close()
		r := kabi.ResetDevice{In: kabi.ResetDeviceIn{OutputSizeBytes: 8, Flags: kabi.ResetPCIeLink}}
		if err := other.Ioctl(kabi.IoctlResetDevice, kabi.Bytes(&r)); err != nil || r.Out.Result != 0 {
			t.Fatalf("reset: %v, %d", err, r.Out.Result)
		}
		fails(t, m.dev.Guard(func() error { w.Load32(0); return nil }), kmd.ErrDeviceLost, "a window's load")
		must(t, m.dev.Recover(t.Context()))
		fails(t, m.dev.Write32(worker(a), 0, 1), nil, "after the recovery")
	})
}

func TestAllOnesIsConfirmed(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		must(t, m.dev.Write32(worker(a), 0x40, 0xFFFFFFFF))
		equal(t, value(m.dev.Read32(worker(a), 0x40))(t), 0xFFFFFFFF, "all ones in memory")
		must(t, m.dev.Read(worker(a), 0x40, make([]byte, 4)))
		m.fn.Kill()
		err := m.dev.Read(worker(a), 0x80, make([]byte, 300))
		fails(t, err, kmd.ErrDeviceLost, "all ones from a dead card")
		var first *kmd.LostError
		if !errors.As(err, &first) {
			t.Fatalf("%v, want a *LostError", err)
		}
		fails(t, second(m.dev.Read32(worker(a), 0x80)), first, "a word")
		fails(t, m.dev.Write32(worker(a), 0x80, 1), first, "afterwards")
	})
}

func TestRefusedRequestOfADeadCard(t *testing.T) {
	m := blackhole(t)
	node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
		if req == kabi.IoctlAllocateTLB {
			return syscall.EIO
		}
		return f.Ioctl(req, arg)
	}}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	defer d.Close()
	if _, err := d.OpenWindow(2<<20, kmd.Uncached); !errors.Is(err, syscall.EIO) || errors.Is(err, kmd.ErrDeviceLost) {
		t.Errorf("a refused request: %v", err)
	}
	m.fn.Kill()
	fails(t, second(d.OpenWindow(2<<20, kmd.Uncached)), kmd.ErrDeviceLost, "of a dead card")
}

func TestFaultOfTheBackEndIsTold(t *testing.T) {
	m := blackhole(t)
	why := errors.New("NoC write of 3 bytes to a register")
	m.fn.Break(why)
	err := m.dev.Write32(worker(chip.Blackhole), 0, 1)
	expect.Fails(t, err, kmd.ErrDeviceLost, "error")
	expect.Fails(t, err, why, "error")
	expect.Fails(t, m.dev.Fault(), why, "m.dev.Fault()")
	expect.Fails(t, m.dev.Alive(), why, "m.dev.Alive()")
}

func plain(mem func(n int) ([]byte, error)) func(seam.File, uint64, int) (seam.Mapping, error) {
	return func(f seam.File, off uint64, n int) (seam.Mapping, error) {
		b, err := mem(n)
		if err != nil {
			return seam.Mapping{}, err
		}
		return seam.Mapping{Mem: b, Unmap: func() error { return unix.Munmap(b) }}, nil
	}
}

func TestWindowOnMemory(t *testing.T) {
	m := blackhole(t)
	// A page that can't be accessed follows the window, so that an access that is too wide at its
	// end faults.
	node := changed{Node: m.node(), mmap: func(_ seam.File, _ uint64, n int) (seam.Mapping, error) {
		b, err := unix.Mmap(-1, 0, n+os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return seam.Mapping{}, err
		}
		return seam.Mapping{Mem: b[:n:n], Unmap: func() error { return unix.Munmap(b) }},
			unix.Mprotect(b[n:], unix.PROT_NONE)
	}}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	defer d.Close()
	w := value(d.OpenWindow(2<<20, kmd.WriteCombined))(t)
	const end = 2 << 20
	w.Store64(end-8, 0x8877665544332211)
	w.Store32(end-4, 0x0C0B0A09)
	w.Store16(end-2, 0x0E0D)
	w.Store8(end-1, 0x0F)
	a, b, c, e := w.Load8(end-1), w.Load16(end-2), w.Load32(end-4), w.Load64(end-8)
	equal(t, a, 0x0F, "8 bits")
	equal(t, b, 0x0F0D, "16 bits")
	equal(t, c, 0x0F0D0A09, "32 bits")
	equal(t, e, 0x0F0D0A09_44332211, "64 bits")
	p := []byte("seven b")
	w.Write(2<<20-7, p)
	w.Drain()
	got := make([]byte, 7)
	w.Read(2<<20-7, got)
	equal(t, string(got), string(p), "what is read back")
	must(t, w.Err())
	equal(t, testing.AllocsPerRun(100, func() { w.Store32(0, w.Load32(4)); w.Write(3, p); w.Read(5, got) }), 0, "allocations")
	must(t, d.Write(worker(chip.Blackhole), 0x1001, p))
	if err := d.Read(worker(chip.Blackhole), 0x1001, got); err != nil || string(got) != string(p) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMmapWaitsForResets(t *testing.T) {
	m := blackhole(t)
	tries := 0
	node := changed{Node: m.node(), mmap: func(f seam.File, off uint64, n int) (seam.Mapping, error) {
		if tries++; tries < 4 {
			return seam.Mapping{}, syscall.ENODEV
		}
		return f.Mmap(off, n)
	}}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	defer d.Close()
	if err := d.Write32(worker(chip.Blackhole), 0, 1); err != nil || tries != 4 {
		t.Errorf("%v after %d tries", err, tries)
	}
	end := value(m.drv.Node(0).Inject(driver.Resetting))(t)
	if _, err := m.dev.OpenWindow(2<<20, kmd.Uncached); !errors.Is(err, kmd.ErrResetting) || errors.Is(err, kmd.ErrDeviceLost) {
		t.Errorf("a reset that goes on: %v", err)
	}
	end()
	fails(t, m.dev.Write32(worker(chip.Blackhole), 0, 1), nil, "after it")
}

func TestUnfinishedResets(t *testing.T) {
	m := blackhole(t)
	c := target{m.node()}
	value(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetUser, Force: true}))(t)
	d := value(kmd.Open(t.Context(), c))(t)
	defer d.Close()
	_, err1 := d.OpenWindow(2<<20, kmd.Uncached)
	_, err2 := d.PinHostMemory(1)
	for name, err := range map[string]error{"window": err1, "pin": err2, "power": d.SetPower(0), "cleanup": d.SetNOCCleanups()} {
		if !errors.Is(err, kmd.ErrResetting) || !strings.Contains(err.Error(), "mode post") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, m.fn.Reset())
	value(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetPost}))(t)
	fails(t, d.Write32(worker(chip.Blackhole), 0, 1), nil, "after the end")
	fails(t, m.dev.Alive(), kmd.ErrDeviceLost, "the user that had it open before")
}

func TestHotUnplugUnderUse(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		drv, _ := machineOf(t, driver.Config{Arch: a}, 1)
		d := value(kmd.Open(t.Context(), target{drv.Node(0)}))(t)
		w := value(d.OpenWindow(2<<20, kmd.Uncached))(t)
		h := value(d.PinHostMemory(4096))(t)
		must(t, drv.Unplug(0))
		fails(t, d.Guard(func() error { w.Load32(0); return nil }), kmd.ErrDeviceLost, "load")
		h.Bytes()[0] = 1 // it is this process's
		fails(t, errors.Join(w.Close(), h.Close(), d.Close()), nil, "closing what is gone")
		equal(t, drv.Node(0).OpenFiles(), 0, "open files")
	})
}

func FuzzTelemetry(f *testing.F) {
	f.Add(uint32(0x10001000), uint32(0x10002000), uint32(0x10000), uint32(2), []byte{14, 0, 0, 0, 1, 0, 1, 0})
	f.Add(uint32(0x1007FFFC), uint32(0x10080000), uint32(0), uint32(1<<31), []byte{})
	f.Add(uint32(0x10000000), uint32(0x10000000), uint32(0), uint32(1000), []byte{255, 255, 255, 255})
	f.Add(uint32(0), uint32(0xFFFFFFFF), uint32(0x20000), uint32(0), []byte{})
	f.Fuzz(func(t *testing.T, table, values, version, count uint32, tags []byte) {
		fn := drivertest.New(chip.Blackhole)
		fn.Telemetry = nil
		drv := value(driver.New(driver.Config{Arch: chip.Blackhole, Functions: []driver.Function{fn}}))(t)
		defer drv.Close()
		d := value(kmd.Open(t.Context(), target{drv.Node(0)}))(t)
		defer d.Close()
		arc := d.Params().ARC
		word := func(addr uint64, v uint32) {
			fn.SetTile(8, 0, addr, []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
		}
		word(arc.ResetUnit+uint64(arc.TelemetryTable), table)
		word(arc.ResetUnit+uint64(arc.TelemetryValues), values)
		word(arc.PointerBase+uint64(table), version)
		word(arc.PointerBase+uint64(table)+4, count)
		fn.SetTile(8, 0, arc.PointerBase+uint64(table)+8, tags)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if v, err := d.Telemetry(ctx); (err == nil) != (v != nil) {
			t.Errorf("%v, %v", v, err)
		}
		if _, err := d.Harvesting(ctx); err != nil && !errors.Is(err, kmd.ErrFirmware) && !errors.Is(err, kmd.ErrDeviceLost) {
			t.Errorf("%v", err)
		}
	})
}
