package kmd_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
)

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
			if want := []bool{true, true, true, true}; !slices.Equal(w.pinned, want) {
				t.Errorf("after %d files: memory was pinned at the stores: %v, want %v", before, w.pinned, want)
			}
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
	if err := d.SetNOCCleanups(l[0]); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	equal(t, m.drv.Node(0).OpenFiles()-1, 1, "files open for a store")
	if err := d.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
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
		if err := m.dev.Close(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		d := value(kmd.Open(t.Context(), target{m.drv.Node(0)}))(t)
		equal(t, fmt.Sprint(made(t, d, l)), tt.made, "%s: made", tt.name)
		must(t, d.Close())
	}
}
