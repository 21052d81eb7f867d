package kmd_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
)

func TestResetModes(t *testing.T) {
	for _, v := range []driver.Version{{Major: 2, Minor: 10}, {Major: 2, Minor: 6}, {Major: 2, Minor: 4}} {
		each(t, func(t *testing.T, a chip.Arch) {
			if a == chip.Wormhole && v.Minor != 10 {
				return
			}
			drv, fns := machineOf(t, driver.Config{Arch: a, Version: v}, 1)
			var steps []string
			for _, mode := range []kmd.ResetMode{kmd.ResetRestoreState, kmd.ResetLink, kmd.ResetConfigWrite, kmd.ResetASIC,
				kmd.ResetBoard} {
				if a == chip.Wormhole && mode != kmd.ResetASIC {
					continue // each takes half a second, and differs only in that
				}
				resets := 0
				fns[0].OnReset = func() { resets++ }
				rep, err := kmd.Reset(t.Context(), systemOf(drv).Open("/dev/tenstorrent/0"), kmd.ResetConfig{Mode: mode,
					Progress: func(s string) { steps = append(steps, s) }})
				if err != nil {
					t.Errorf("%v of driver %v: %v", mode, v, err)
					continue
				}
				if rep.BDF != "0000:01:00.0" || rep.Harvesting == nil || rep.Mode != mode || rep.Arch != a || rep.Duration <= 0 {
					t.Errorf("%v: %+v", mode, rep)
				}
				equal(t, resets == 1, mode != kmd.ResetRestoreState, "%v: it resets (%d times)", mode, resets)
			}
			if len(steps) == 0 || drv.Node(0).OpenFiles() != 0 {
				t.Errorf("steps %v, %d files stay open", steps, drv.Node(0).OpenFiles())
			}
		})
	}
}

func TestUserReset(t *testing.T) {
	drv, fns := machineOf(t, driver.Config{Arch: chip.Blackhole}, 1)
	c := systemOf(drv).Open("/dev/tenstorrent/0")
	rep, err := kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetUser})
	if err != nil || rep.Harvesting != nil {
		t.Fatal(rep, err)
	}
	fails(t, second(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetPost})), kmd.ErrReset, "post before the reset")
	value(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetUser}))(t)
	must(t, fns[0].Reset())
	if rep, err := kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetPost}); err != nil || rep.Harvesting == nil {
		t.Errorf("post: %+v, %v", rep, err)
	}
}

func TestResetNamesWhoIsInTheWay(t *testing.T) {
	drv, _ := machineOf(t, driver.Config{Arch: chip.Blackhole}, 1)
	p := drv.NewProcess(4711, "server")
	d := value(kmd.Open(t.Context(), target{p.Node(0)}))(t)
	c := systemOf(drv).Open("/dev/tenstorrent/0")
	_, err := kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetASIC})
	var held *kmd.HeldError
	if !errors.As(err, &held) || !errors.Is(err, kmd.ErrBusy) || len(held.Holders) != 1 || held.Holders[0].PID != 4711 ||
		!strings.Contains(err.Error(), "4711 (server)") {
		t.Errorf("%v", err)
	}
	fails(t, d.Alive(), nil, "the holder after a reset that was refused")
	rep, err := kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true})
	if err != nil || len(rep.Losers) != 1 {
		t.Errorf("forced: %+v, %v", rep, err)
	}
	fails(t, d.Alive(), kmd.ErrDeviceLost, "the holder after a forced reset")
	must(t, d.Close())
}

func TestResetsThatFail(t *testing.T) {
	drv, _ := machineOf(t, driver.Config{Arch: chip.Blackhole}, 1)
	c := systemOf(drv).Open("/dev/tenstorrent/0")
	end := value(drv.Node(0).Inject(driver.StuckReset))(t)
	fails(t, second(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetLink})), kmd.ErrReset, "stuck")
	expect.Says(t, second(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: kmd.ResetConfigWrite})), kmd.ErrReset, "reload its module")
	end()
	silent, fns := machineOf(t, driver.Config{Arch: chip.Blackhole}, 1)
	fns[0].Telemetry = nil
	ctx, cancel := context.WithCancel(t.Context())
	asking := changed{Node: silent.Node(0), ioctl: func(f seam.File, req uint32, arg []byte) error {
		if req == kabi.IoctlConfigureTLB {
			cancel() // the firmware is being asked
		}
		return f.Ioctl(req, arg)
	}}
	_, err := kmd.Reset(ctx, target{asking}, kmd.ResetConfig{Mode: kmd.ResetRestoreState})
	expect.Fails(t, err, kmd.ErrReset, "error")
	expect.Fails(t, err, kmd.ErrFirmware, "error")
	fails(t, second(kmd.Reset(t.Context(), c, kmd.ResetConfig{Mode: 9})), kmd.ErrOutOfRange, "mode 9")
	for _, tt := range []struct {
		no   syscall.Errno
		want error
	}{{syscall.EBUSY, kmd.ErrBusy}, {syscall.EINVAL, kmd.ErrDriverTooOld}, {syscall.ENODEV, kmd.ErrDeviceLost}, {syscall.EINTR, syscall.EINTR}} {
		n := 0
		node := changed{Node: drv.Node(0), ioctl: func(f seam.File, req uint32, arg []byte) error {
			if req == kabi.IoctlResetDevice {
				n++
				return tt.no
			}
			return f.Ioctl(req, arg)
		}}
		_, err := kmd.Reset(t.Context(), target{node}, kmd.ResetConfig{Mode: kmd.ResetASIC})
		expect.Fails(t, err, tt.want, "%v", tt.no)
		equal(t, n, 1, "%v", tt.no)
	}
	for i := range kmd.ResetMode(7) {
		equal(t, value(kmd.ParseResetMode(i.String()))(t), i, "%v", i)
	}
	if _, err := kmd.ParseResetMode("gentle"); !errors.Is(err, kmd.ErrOutOfRange) {
		t.Errorf("%v", err)
	}
}

func TestRecover(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
		h := value(m.dev.PinHostMemory(8192))(t)
		if l, err := m.dev.TryLock(kmd.LockChipInUse); l == nil || err != nil {
			t.Fatal(l, err)
		}
		fails(t, m.dev.Recover(t.Context()), nil, "a device that isn't lost")
		fails(t, w.Configure(kmd.WindowConfig{Target: worker(a)}), nil, "and it is left as it was")
		value(kmd.Reset(t.Context(), target{m.node()}, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(t)
		for range 3 {
			if err := m.dev.Write32(worker(a), 0, 1); !errors.Is(err, kmd.ErrDeviceLost) {
				t.Fatalf("after a reset: %v", err)
			}
		}
		must(t, m.dev.Recover(t.Context()))
		must(t, m.dev.Write32(worker(a), 0, 5))
		if v, err := m.dev.Read32(worker(a), 0); v != 5 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		equal(t, w.Load32(0), 0xFFFFFFFF, "w.Load32(0)")
		expect.Fails(t, w.Err(), kmd.ErrClosed, "w.Err()")
		if l, err := m.dev.TryLock(kmd.LockChipInUse); l == nil || err != nil {
			t.Errorf("the lock of before: %v, %v", l, err)
		}
		h.Bytes()[0] = 1                                        // it is still memory
		expect.Error(t, m.fn.WriteHost(h.NOCAddr(), []byte{9})) // memory that was pinned before
		again, err := m.dev.PinHostMemory(8192)
		if err != nil || again.NOCAddr() != h.NOCAddr() {
			t.Errorf("%v, %v", again, err)
		}
		must(t, errors.Join(w.Close(), h.Close(), h.Close(), again.Close()))
		equal(t, m.drv.Node(0).OpenFiles(), 1, "open files")
	})
}

func TestRecoverFindsTheCardUnderAnotherNumber(t *testing.T) {
	drv, _ := machineOf(t, driver.Config{Arch: chip.Blackhole}, 1)
	c := systemOf(drv).Open("/dev/tenstorrent/0")
	other := value(drv.Node(0).Open(syscall.O_APPEND))(t)
	defer other.Close()
	d := value(kmd.Open(t.Context(), c, kmd.InSystem(systemOf(drv))))(t)
	defer d.Close()
	must(t, d.Write32(worker(chip.Blackhole), 0, 1))
	must(t, drv.Unplug(0))
	fails(t, d.Write32(worker(chip.Blackhole), 0, 1), kmd.ErrDeviceLost, "unplugged")
	fails(t, d.Recover(t.Context()), kmd.ErrNoDevice, "recovering what isn't there")
	fails(t, d.Write32(worker(chip.Blackhole), 0, 1), kmd.ErrDeviceLost, "still")
	n, err := drv.Plug(0, drivertest.New(chip.Blackhole))
	if err != nil || n.Ordinal() != 1 {
		t.Fatal(n.Ordinal(), err)
	}
	must(t, d.Recover(t.Context()))
	fails(t, d.Write32(worker(chip.Blackhole), 0, 7), nil, "after")
}

type hooked struct {
	fs.FS
	at string
	do func()
}

func (h *hooked) Open(name string) (fs.File, error) {
	if name == h.at && h.do != nil {
		do := h.do
		h.do = nil
		do()
	}
	return h.FS.Open(name)
}

type hookedCard struct {
	target
	fs fs.FS
}

func (h hookedCard) FS() fs.FS { return h.fs }

func TestResetThroughHotplug(t *testing.T) {
	drv, _ := machineOf(t, driver.Config{Arch: chip.Blackhole}, 1)
	holder := value(drv.Node(0).Open(syscall.O_APPEND))(t)
	defer holder.Close()
	var plugErr error
	h := &hooked{FS: drv.FS(), at: "sys/bus/pci/devices/0000:01:00.0/config", do: func() {
		if err := drv.Unplug(0); err != nil {
			plugErr = err
			return
		}
		_, plugErr = drv.Plug(0, drivertest.New(chip.Blackhole))
	}}
	s := systemOf(drv)
	s.Root = h
	rep, err := kmd.Reset(t.Context(), hookedCard{target{drv.Node(0)}, h}, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true,
		System: &s})
	if err != nil || plugErr != nil {
		t.Fatal(err, plugErr)
	}
	if !strings.HasSuffix(rep.Node, "/1") {
		t.Errorf("came back as %s", rep.Node)
	}
	if i := slices.IndexFunc(rep.Losers, func(h kmd.Holder) bool { return h.Files == 1 }); i < 0 {
		t.Errorf("losers %v", rep.Losers)
	}
}

func stores(a chip.Arch, n int) (l []kmd.NOCStore) {
	for i := range n {
		l = append(l, kmd.NOCStore{Target: worker(a), Addr: 0x100 + 4*uint64(i), Value: 0xC1EA0000 + uint32(i)})
	}
	return l
}

func made(t *testing.T, d *kmd.Device, l []kmd.NOCStore) (which []int) {
	t.Helper()
	for i, s := range l {
		v := value(d.Read32(s.Target, s.Addr))(t)
		if v == s.Value {
			which = append(which, i)
		}
	}
	return which
}

type watched struct {
	*drivertest.Function
	addr   uint64
	pinned []bool
}

func (w *watched) BARStore(bar int, off uint64, width int, v uint64) {
	if v&0xFFFF0000 == 0xC1EA0000 {
		w.pinned = append(w.pinned, w.ReadHost(w.addr, make([]byte, 4)) == nil)
	}
	w.Function.BARStore(bar, off, width, v)
}

func TestCleanupWritesComeBeforeUnpinning(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		for _, before := range []int{0, 1, 3} {
			w := &watched{Function: drivertest.New(a)}
			drv := value(driver.New(driver.Config{Arch: a, Functions: []driver.Function{w}}))(t)
			p := drv.NewProcess(77, "victim")
			var others []seam.File // their descriptors come to lie below and above
			for range before {
				f := value(p.Node(0).Open(0))(t)
				others = append(others, f)
			}
			d := value(kmd.Open(t.Context(), target{p.Node(0)}))(t)
			for _, f := range others {
				must(t, f.Close())
			}
			mem := value(d.PinHostMemory(4096))(t)
			w.addr = mem.NOCAddr()
			must(t, d.SetNOCCleanups(stores(a, 4)...))
			equal(t, drv.Node(0).OpenFiles(), 4, "files open for 4 stores")
			must(t, p.Kill())
			expect.NoDiff(t, w.pinned, []bool{true, true, true, true}, "after %d files: memory was pinned at the stores", before)
			_ = d.Close() // of a dead process
			must(t, drv.Close())
		}
	})
}

func TestCleanupWritesAndTheirFiles(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		d := value(kmd.Open(t.Context(), cardOf(m, 0)))(t)
		l := stores(a, 5)
		for _, tt := range []struct{ stores, files int }{{5, 5}, {2, 2}, {3, 3}, {1, 1}, {0, 1}, {3, 3}} {
			must(t, d.SetNOCCleanups(l[:tt.stores]...))
			equal(t, m.drv.Node(0).OpenFiles()-1, tt.files, "files open for %d stores", tt.stores)
		}
		if got := made(t, m.dev, l); got != nil {
			t.Errorf("made before the end: %v", got)
		}
		for s, want := range map[kmd.NOCStore]error{{Addr: 2}: kmd.ErrMisaligned, {Target: chip.XY{X: 64}}: kmd.ErrOutOfRange,
			{NOC: 2}: kmd.ErrOutOfRange} {
			fails(t, d.SetNOCCleanups(kmd.NOCStore{Addr: 4}, s), want, "%+v", s)
		}
		h := kmd.Inspect(t.Context(), cardOf(m, 0)).Holders
		if len(h) != 1 || h[0].Files != 4 {
			t.Errorf("holders %v, want this process with 4 files", h)
		}
		must(t, d.Close())
		equal(t, fmt.Sprint(made(t, m.dev, l)), "[0 1 2]", "made by the close")
		equal(t, m.drv.Node(0).OpenFiles(), 1, "files open after the close")
		fails(t, d.SetNOCCleanups(l...), kmd.ErrClosed, "after the close")
	})
}

func TestCleanupWritesAfterRecover(t *testing.T) {
	m := blackhole(t)
	l := stores(chip.Blackhole, 3)
	must(t, m.dev.SetNOCCleanups(l...))
	value(kmd.Reset(t.Context(), cardOf(m, 0), kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true}))(t)
	if err := m.dev.Alive(); !errors.Is(err, kmd.ErrDeviceLost) {
		t.Fatalf("after a reset: %v", err)
	}
	fails(t, m.dev.SetNOCCleanups(l...), kmd.ErrDeviceLost, "of a lost device")
	must(t, m.dev.Recover(t.Context()))
	equal(t, m.drv.Node(0).OpenFiles(), 1, "files open after the recovery")
	must(t, m.dev.SetNOCCleanups(l...))
	equal(t, m.drv.Node(0).OpenFiles(), 3, "files open for 3 stores")
}

func TestCleanupWriteThatStays(t *testing.T) {
	m := blackhole(t)
	refuse := false
	node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
		if req == kabi.IoctlSetNOCCleanup && refuse && arg[8] == 0 { // not enabled any more
			return syscall.EIO
		}
		return f.Ioctl(req, arg)
	}}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	l := stores(chip.Blackhole, 3)
	must(t, d.SetNOCCleanups(l...))
	refuse = true
	fails(t, d.SetNOCCleanups(l[0]), syscall.EIO, "a store that can't be taken back")
	refuse = false
	fails(t, d.SetNOCCleanups(l[0]), nil, "afterwards")
	equal(t, m.drv.Node(0).OpenFiles()-1, 1, "files open for a store")
	fails(t, d.Close(), nil, "close")
}

func TestCleanupWritesThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  driver.Config
		opts []kmd.Option
		want error
		made string
	}{
		{"exclusive", driver.Config{}, []kmd.Option{kmd.Exclusive()}, kmd.ErrBusy, "[0]"},
		{"driver 2.1", driver.Config{Version: release(1)}, nil, kmd.ErrDriverTooOld, "[]"},
	} {
		m := start(t, chip.Wormhole, tt.cfg, tt.opts...)
		l := stores(chip.Wormhole, 2)
		fails(t, m.dev.SetNOCCleanups(l...), tt.want, "%s", tt.name)
		equal(t, m.drv.Node(0).OpenFiles(), 1, "%s: open files", tt.name)
		fails(t, m.dev.Close(), nil, "%s", tt.name)
		d := value(kmd.Open(t.Context(), target{m.drv.Node(0)}))(t)
		equal(t, fmt.Sprint(made(t, d, l)), tt.made, "%s: made", tt.name)
		must(t, d.Close())
	}
}
