package kmd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
)

var newest = release(11)

func TestFeaturesAreProbed(t *testing.T) {
	for _, tt := range []struct {
		cfg  driver.Config
		want []kmd.Feature
	}{
		{driver.Config{Version: driver.Version{Major: 2}}, nil},
		{driver.Config{Version: release(2)}, []kmd.Feature{kmd.FeatureNOCCleanup}},
		{driver.Config{Version: release(9)}, []kmd.Feature{kmd.FeatureNOCCleanup, kmd.FeaturePower, kmd.FeatureReadOnlyPins}},
		{driver.Config{NoIOMMU: true}, []kmd.Feature{kmd.FeatureNOCCleanup, kmd.FeaturePower, kmd.FeatureExport}},
		{driver.Config{NoExport: true}, []kmd.Feature{kmd.FeatureNOCCleanup, kmd.FeaturePower, kmd.FeatureReadOnlyPins}},
		{driver.Config{Version: newest}, []kmd.Feature{kmd.FeatureNOCCleanup, kmd.FeaturePower, kmd.FeatureExport,
			kmd.FeatureSMCMessage, kmd.FeatureNOCAccess, kmd.FeatureReadOnlyPins}},
	} {
		m := start(t, chip.Blackhole, tt.cfg)
		asked := 0
		node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
			if req == kabi.IoctlGetDriverInfo || req == kabi.IoctlGetDeviceInfo {
				err := f.Ioctl(req, arg)
				if req == kabi.IoctlGetDriverInfo {
					arg[12], arg[13] = 99, 99 // a version that lies
				}
				return err
			}
			asked++
			return f.Ioctl(req, arg)
		}}
		d := value(kmd.Open(t.Context(), target{node}))(t)
		for round := range 2 {
			var got []kmd.Feature
			for f := range kmd.Feature(8) {
				if d.Has(f) {
					got = append(got, f)
				}
			}
			noDiff(t, got, tt.want, "%+v", tt.cfg.Version)
			if round == 0 {
				asked = 0
			} else if asked != 0 {
				t.Errorf("%d requests for what is known", asked)
			}
		}
		must(t, d.Close())
	}
}

func TestWithoutTheFeature(t *testing.T) {
	m := start(t, chip.Blackhole, driver.Config{Version: driver.Version{Major: 2}})
	for name, err := range map[string]error{
		"cleanup": m.dev.SetNOCCleanups(kmd.NOCStore{}), "power": m.dev.SetPower(0),
	} {
		if !errors.Is(err, kmd.ErrDriverTooOld) || !strings.Contains(err.Error(), "tt-kmd") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if release, err := m.dev.HoldPower(kmd.PowerAIClock); err != nil || release() != nil {
		t.Errorf("holding power: %v", err)
	}
}

func TestLocks(t *testing.T) {
	m := blackhole(t)
	other := value(kmd.Open(t.Context(), cardOf(m, 0)))(t)
	l, err := m.dev.TryLock(kmd.LockChipInUse)
	if err != nil || l == nil {
		t.Fatalf("%v, %v", l, err)
	}
	if again, err := m.dev.TryLock(kmd.LockChipInUse); again != nil || err != nil {
		t.Errorf("a lock that is held: %v, %v", again, err)
	}
	for _, tt := range []struct {
		d         *kmd.Device
		mine, any bool
	}{{m.dev, true, true}, {other, false, true}} {
		if mine, any, err := tt.d.TestLock(kmd.LockChipInUse); mine != tt.mine || any != tt.any || err != nil {
			t.Errorf("test: %t %t %v", mine, any, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	_, err = other.Lock(ctx, kmd.LockChipInUse)
	expect.Fails(t, err, kmd.ErrBusy, "error")
	expect.Fails(t, err, context.DeadlineExceeded, "error")
	expect.Says(t, err, nil, "CHIP_IN_USE", "this process once more")
	done := make(chan error, 1)
	go func() {
		_, err := other.Lock(t.Context(), kmd.LockChipInUse)
		done <- err
	}()
	must(t, l.Unlock())
	fails(t, <-done, nil, "after unlock")
	fails(t, l.Unlock(), kmd.ErrClosed, "unlock of another's lock")
	if held, err := other.Locks(); err != nil || !slices.Equal(held, []kmd.LockIndex{kmd.LockChipInUse}) {
		t.Errorf("held: %v, %v", held, err)
	}
	must(t, other.Close())
	if _, any, _ := m.dev.TestLock(kmd.LockChipInUse); any {
		t.Error("close doesn't give locks back")
	}
	fails(t, second(m.dev.TryLock(64)), kmd.ErrOutOfRange, "lock 64")
}

func TestMappings(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		l, err := m.dev.Mappings()
		if err != nil || len(l) != 6 {
			t.Fatalf("%v, %v", l, err)
		}
		for i, w := range l {
			if w.BAR != i/2*2 || w.Caching != kmd.Caching(i&1) || w.Size != a.Params().PCI.BARSize[w.BAR] {
				t.Errorf("%+v", w)
			}
		}
	})
}

func TestHoldPower(t *testing.T) {
	plain := start(t, chip.Blackhole, driver.Config{}, kmd.WithoutPower())
	must(t, plain.dev.SetPower(kmd.PowerAIClock|kmd.PowerTensix))
	flags, _, sent := plain.drv.Node(0).Power()
	equal(t, flags, 0x7FF5, "flags")
	equal(t, sent, 1, "sent")
	m := blackhole(t)
	aiclk := func() bool {
		flags, _, _ := m.drv.Node(0).Power()
		if flags&kabi.PowerTensix == 0 || flags&kabi.PowerDRAMPHY == 0 {
			t.Errorf("flags %#x", flags)
		}
		return flags&kabi.PowerMaxAIClock != 0
	}
	a := value(m.dev.HoldPower(kmd.PowerAIClock))(t)
	b, err := m.dev.HoldPower(kmd.PowerAIClock)
	if err != nil || !aiclk() {
		t.Fatalf("held twice: %t, %v", aiclk(), err)
	}
	if err := errors.Join(a(), a()); err != nil || !aiclk() {
		t.Errorf("held once: %t, %v", aiclk(), err)
	}
	if err := b(); err != nil || aiclk() {
		t.Errorf("released: %t, %v", aiclk(), err)
	}

	// Older firmware of Wormhole takes no settings. SetPower returns an error, HoldPower doesn't.
	end := value(m.drv.Node(0).Inject(driver.NoPower))(t)
	defer end()
	fails(t, m.dev.SetPower(kmd.PowerTensix|kmd.PowerDRAM), kmd.ErrFirmware, "set by firmware without settings")
	if c, err := m.dev.HoldPower(kmd.PowerAIClock); err != nil {
		t.Errorf("held by firmware without settings: %v", err)
	} else if err := c(); err != nil {
		t.Errorf("released by firmware without settings: %v", err)
	}
}

func TestMulticastWindowsAreWriteOnly(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{})
		for name, f := range map[string]func(w *kmd.Window){
			"load":       func(w *kmd.Window) { w.Load32(0) },
			"read":       func(w *kmd.Window) { w.Read(0, make([]byte, 8)) },
			"half words": func(w *kmd.Window) { w.Write(2, make([]byte, 8)) },
			"six bytes":  func(w *kmd.Window) { w.Write(0, make([]byte, 6)) },
		} {
			w := value(m.dev.OpenWindow(2<<20, kmd.WriteCombined))(t)
			must(t, w.Configure(kmd.WindowConfig{Start: chip.XY{X: 1, Y: 2}, Target: chip.XY{X: 2, Y: 3}, Multicast: true}))
			m.fn.Log()
			w.Store32(0, 7)
			w.Write(8, make([]byte, 12))
			fails(t, w.Err(), nil, "a store")
			f(w)
			fails(t, w.Err(), kmd.ErrMulticastRead, "%s", name)
			for _, x := range m.fn.Log() {
				if !x.Store {
					t.Errorf("%s: the device saw %+v", name, x)
				}
			}
			must(t, w.Close())
		}
	})
}

func TestErrnosAreExplained(t *testing.T) {
	const bh = chip.Blackhole
	for _, tt := range []struct {
		req  uint32
		no   syscall.Errno
		do   func(d *kmd.Device) error
		want error
		text string
	}{
		{kabi.IoctlAllocateTLB, syscall.ENOMEM, func(d *kmd.Device) error { _, err := d.OpenWindow(2<<20, 0); return err }, kmd.ErrBusy, "pids"},
		{kabi.IoctlAllocateTLB, syscall.EINVAL, func(d *kmd.Device) error { _, err := d.OpenWindow(4<<30, 0); return err }, kmd.ErrOutOfRange, "board"},
		{kabi.IoctlPinPages, syscall.ENOSPC, func(d *kmd.Device) error { _, err := d.PinHostMemory(1); return err }, kmd.ErrBusy, "16"},
		{kabi.IoctlPinPages, syscall.ENOMEM, func(d *kmd.Device) error { _, err := d.PinHostMemory(1); return err }, kmd.ErrBusy, "room"},
		{kabi.IoctlPinPages, syscall.EFAULT, func(d *kmd.Device) error { _, err := d.PinHostMemory(1); return err }, kmd.ErrOutOfRange, "anonymous"},
		{kabi.IoctlPinPages, syscall.EEXIST, func(d *kmd.Device) error { _, err := d.PinHostMemory(1); return err }, kmd.ErrBusy, "already"},
		{kabi.IoctlPinPages, syscall.EINVAL, func(d *kmd.Device) error { _, err := d.PinHostMemory(1 << 20); return err }, kmd.ErrNotContiguous, "IOMMU"},
		{kabi.IoctlSetPowerState, syscall.EINVAL, func(d *kmd.Device) error { return d.SetPower(0) }, kmd.ErrFirmware, "power"},
		{kabi.IoctlSetNOCCleanup, syscall.EOPNOTSUPP, func(d *kmd.Device) error { return d.SetNOCCleanups() }, kmd.ErrUnsupportedArch, "chip"},
		{kabi.IoctlLockCtl, syscall.EINVAL, func(d *kmd.Device) error { _, err := d.TryLock(0); return err }, kmd.ErrOutOfRange, "63"},
		{kabi.IoctlQueryMappings, syscall.EBADF, func(d *kmd.Device) error { _, err := d.Mappings(); return err }, kmd.ErrClosed, "closed"},
	} {
		m := start(t, bh, driver.Config{Version: newest})
		node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
			if req == tt.req && arg != nil {
				return tt.no
			}
			return f.Ioctl(req, arg)
		}}
		d := value(kmd.Open(t.Context(), target{node}))(t)
		err := tt.do(d)
		name := fmt.Sprintf("request %d, %v", tt.req&0xFF, tt.no)
		var op *kmd.OpError
		if !errors.Is(err, tt.want) || !errors.Is(err, tt.no) || !errors.As(err, &op) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", name, err, tt.want, tt.text)
		}
		must(t, d.Close())
	}
}
