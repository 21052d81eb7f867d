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
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
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
	w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
	defer w.Close()
	_, err1 := w.Export(0, 0)
	_, err2 := m.dev.NOCRead(chip.NOC0, worker(chip.Blackhole), 0, 4)
	_, err3 := m.dev.SMCMessage(t.Context(), [8]uint32{1})
	_, err4 := m.dev.Pin(kmd.PinConfig{Size: 1, ReadOnly: true})
	for name, err := range map[string]error{
		"export": err1, "read": err2, "message": err3, "read-only pin": err4,
		"write":   m.dev.NOCWrite(chip.NOC0, worker(chip.Blackhole), 0, 4, 1),
		"cleanup": m.dev.SetNOCCleanups(kmd.NOCStore{}),
		"power":   m.dev.SetPower(0),
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
	if !errors.Is(err, kmd.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting: %v", err)
	}
	for _, text := range []string{"CHIP_IN_USE", "this process once more"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q doesn't say %q", err, text)
		}
	}
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

func TestDriversOwnAccesses(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		m := start(t, a, driver.Config{Version: newest})
		xy := worker(a)
		for i, width := range []int{1, 2, 4, 8} {
			addr, v := uint64(0x100+16*i), uint64(0x8877665544332211)&(1<<(8*width)-1)
			must(t, m.dev.NOCWrite(chip.NOC0, xy, addr, width, v))
			equal(t, value(m.dev.NOCRead(chip.NOC0, xy, addr, width))(t), v, "%d bytes", width)
		}
		_, err := m.dev.NOCRead(chip.NOC0, xy, 2, 4)
		_, err2 := m.dev.NOCRead(chip.NOC0, xy, 0, 3)
		_, err3 := m.dev.NOCRead(2, xy, 0, 4)
		if !errors.Is(err, kmd.ErrMisaligned) || !errors.Is(err2, kmd.ErrOutOfRange) || !errors.Is(err3, kmd.ErrOutOfRange) {
			t.Errorf("%v, %v, %v", err, err2, err3)
		}
	})
}

func TestSMCMessage(t *testing.T) {
	m := start(t, chip.Blackhole, driver.Config{Version: newest})
	m.fn.Messages = func(r [8]uint32) [8]uint32 { return [8]uint32{r[1], r[2] + 1} }
	if a, err := m.dev.SMCMessage(t.Context(), [8]uint32{0x90, 0, 41}); a[1] != 42 || err != nil {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := m.dev.SMCMessage(t.Context(), [8]uint32{0x90, 5}); !errors.Is(err, kmd.ErrFirmware) ||
		!strings.Contains(err.Error(), "0x5") {
		t.Errorf("a refusal: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fails(t, second(m.dev.SMCMessage(ctx, [8]uint32{0x90})), context.Canceled, "cancelled")
	fails(t, second(m.dev.SMCMessage(t.Context(), [8]uint32{0x90})), nil, "after a message that was abandoned")
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

func TestDMABuffers(t *testing.T) {
	m := start(t, chip.Wormhole, driver.Config{NoIOMMU: true})
	a := value(m.dev.AllocateDMABuffer(100_000))(t)
	b := value(m.dev.AllocateDMABuffer(4096))(t)
	if len(a.Bytes()) != 102_400 || a.NOCAddr() == b.NOCAddr() || a.BusAddr() == b.BusAddr() {
		t.Errorf("%d bytes at %#x and %#x", len(a.Bytes()), a.NOCAddr(), b.NOCAddr())
	}
	if err := m.fn.WriteHost(a.NOCAddr()+5, []byte("device")); err != nil || string(a.Bytes()[5:11]) != "device" {
		t.Errorf("%q, %v", a.Bytes()[5:11], err)
	}
	for _, n := range []int{0, -1, 256<<20 + 1} {
		fails(t, second(m.dev.AllocateDMABuffer(n)), kmd.ErrOutOfRange, "%d bytes", n)
	}
	must(t, errors.Join(a.Close(), a.Close()))
	for range 254 {
		c, err := m.dev.AllocateDMABuffer(1)
		if err != nil {
			break // 16 regions are all that there are
		}
		must(t, c.Close())
	}
	fails(t, second(m.dev.AllocateDMABuffer(1)), kmd.ErrBusy, "without regions")
	// b is still mapped: closing the device ends it, or its file would live on (start checks).
}

func pair(t *testing.T, a chip.Arch) (x, y *kmd.Device, fx, fy *drivertest.Function) {
	t.Helper()
	fx, fy = drivertest.New(a), drivertest.New(a)
	drv := value(driver.New(driver.Config{Arch: a, Functions: []driver.Function{fx, fy}}))(t)
	open := func(i int) *kmd.Device {
		return value(kmd.Open(t.Context(), target{drv.Node(i)}))(t)
	}
	x, y = open(0), open(1)
	t.Cleanup(func() { must(t, errors.Join(x.Close(), y.Close(), drv.Close())) })
	return x, y, fx, fy
}

func TestMapPeerBAR(t *testing.T) {
	x, y, _, _ := pair(t, chip.Blackhole)
	other := start(t, chip.Wormhole, driver.Config{})
	addr, err := x.MapPeerBAR(y, 4, 0x1000, 0x10000)
	if err != nil || addr == 0 {
		t.Errorf("%#x, %v", addr, err)
	}
	for name, f := range map[string]func() error{
		"itself":          func() error { _, err := x.MapPeerBAR(x, 0, 0, 4096); return err },
		"another kind":    func() error { _, err := x.MapPeerBAR(other.dev, 0, 0, 4096); return err },
		"half of a BAR":   func() error { _, err := x.MapPeerBAR(y, 1, 0, 4096); return err },
		"nothing":         func() error { _, err := x.MapPeerBAR(y, 0, 0, 0); return err },
		"beyond the BAR":  func() error { _, err := x.MapPeerBAR(y, 2, 1<<20-4096, 8192); return err },
		"begins too late": func() error { _, err := x.MapPeerBAR(y, 2, 1<<20, 4096); return err },
	} {
		fails(t, f(), kmd.ErrOutOfRange, "%s", name)
	}
}

func TestExport(t *testing.T) {
	m := blackhole(t)
	w := value(m.dev.OpenWindow(2<<20, kmd.Uncached))(t)
	id := w.ID()
	f := value(w.Export(4096, 8192))(t)
	for _, tt := range []struct {
		off, size uint64
		want      error
	}{{1, 0, kmd.ErrMisaligned}, {0, 1, kmd.ErrMisaligned}, {2 << 20, 0, kmd.ErrOutOfRange}, {4096, 2 << 20, kmd.ErrOutOfRange}} {
		fails(t, second(w.Export(tt.off, tt.size)), tt.want, "%#x bytes at %#x", tt.size, tt.off)
	}
	must(t, w.Close())
	fails(t, second(w.Export(0, 0)), kmd.ErrClosed, "after close")
	if x, err := m.dev.OpenWindow(2<<20, kmd.Uncached); err != nil || x.ID() == id {
		t.Errorf("an exported window is given away (%v)", err)
	} else if err := x.Close(); err != nil {
		t.Error(err)
	}
	must(t, f.Close())
	x, err := m.dev.OpenWindow(2<<20, kmd.Uncached)
	if err != nil || x.ID() != id {
		t.Errorf("the window isn't back (%v)", err)
	}
	must(t, x.Close())
}

func TestHoldPower(t *testing.T) {
	plain := start(t, chip.Blackhole, driver.Config{}, kmd.WithoutPower())
	must(t, plain.dev.SetPower(kmd.PowerAIClock|kmd.PowerTensix))
	if flags, _, sent := plain.drv.Node(0).Power(); flags != 0x7FF5 || sent != 1 {
		t.Errorf("flags %#x in %d messages, want the two and all without a name", flags, sent)
	}
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
		{kabi.IoctlAllocateDMABuf, syscall.ENOMEM, func(d *kmd.Device) error { _, err := d.AllocateDMABuffer(1); return err }, kmd.ErrBusy, "cma="},
		{kabi.IoctlSetPowerState, syscall.EINVAL, func(d *kmd.Device) error { return d.SetPower(0) }, kmd.ErrFirmware, "power"},
		{kabi.IoctlSetNOCCleanup, syscall.EOPNOTSUPP, func(d *kmd.Device) error { return d.SetNOCCleanups() }, kmd.ErrUnsupportedArch, "chip"},
		{kabi.IoctlSMCMessage, syscall.EBUSY, func(d *kmd.Device) error { _, err := d.SMCMessage(context.Background(), [8]uint32{}); return err }, kmd.ErrBusy, "under way"},
		{kabi.IoctlSMCMessage, syscall.EOPNOTSUPP, func(d *kmd.Device) error { _, err := d.SMCMessage(context.Background(), [8]uint32{}); return err }, kmd.ErrFirmware, "tt-flash"},
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
