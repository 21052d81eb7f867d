package driver

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The assertions are numbered after the list of what a model of the driver must match.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type regFile struct {
	arch    chip.Arch
	sub     uint32
	words   map[[2]uint64]uint64
	stores  [][4]uint64 // bar, offset, width, value
	command uint32
	dma     DMA
	onReset func()
	closed  bool
	fault   error
}

func newRegFile(a chip.Arch) *regFile {
	return &regFile{arch: a, sub: 0x00401E52, words: map[[2]uint64]uint64{}}
}

func (r *regFile) ConfigRead(off uint32) uint32 {
	p := r.arch.Params().PCI
	switch off {
	case 0:
		return uint32(p.Vendor) | uint32(p.Device)<<16
	case configCommand:
		return r.command
	case 0x2C:
		return r.sub
	}
	return 0
}

func (r *regFile) ConfigWrite(off, v uint32) {
	if off == configCommand {
		r.command = v
	}
}

func (r *regFile) BARLoad(bar int, off uint64, width int) uint64 {
	return r.words[[2]uint64{uint64(bar), off}]
}

func (r *regFile) BARStore(bar int, off uint64, width int, v uint64) {
	r.words[[2]uint64{uint64(bar), off}] = v
	r.stores = append(r.stores, [4]uint64{uint64(bar), off, uint64(width), v})
}

func (r *regFile) BARRead(bar int, off uint64, p []byte)  { clear(p) }
func (r *regFile) BARWrite(bar int, off uint64, p []byte) {}
func (r *regFile) AttachDMA(d DMA)                        { r.dma = d }
func (r *regFile) Fault() error                           { return r.fault }
func (r *regFile) Close() error                           { r.closed = true; return nil }

func (r *regFile) Reset() error {
	if r.onReset != nil {
		r.onReset()
	}
	r.command &^= commandParity
	return nil
}

type rig struct {
	t   *testing.T
	fn  *regFile
	drv *Driver
}

func newRig(t *testing.T, a chip.Arch, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, fn: newRegFile(a)}
	cfg := Config{Arch: a, Functions: []Function{r.fn}}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if r.drv, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fails(t, r.drv.Close(), nil, "close")
	})
	return r
}

func version(major, minor uint8) func(*Config) {
	return func(c *Config) { c.Version = Version{Major: major, Minor: minor} }
}

func (r *rig) open(flags int) seam.File {
	r.t.Helper()
	f, err := r.drv.Node(0).Open(syscall.O_RDWR | flags)
	if err != nil {
		r.t.Fatalf("open %#x: %v", flags, err)
	}
	return f
}

func want(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func reset(f seam.File, mode uint32) (result uint32, err error) {
	a := kabi.ResetDevice{In: kabi.ResetDeviceIn{OutputSizeBytes: 8, Flags: mode}}
	err = f.Ioctl(kabi.IoctlResetDevice, kabi.Bytes(&a))
	return a.Out.Result, err
}

func info(f seam.File) error {
	a := kabi.GetDriverInfo{In: kabi.GetDriverInfoIn{OutputSizeBytes: 12}}
	return f.Ioctl(kabi.IoctlGetDriverInfo, kabi.Bytes(&a))
}

func allocate(f seam.File, size uint64) (kabi.AllocateTLBOut, error) {
	a := kabi.AllocateTLB{In: kabi.AllocateTLBIn{Size: size}}
	err := f.Ioctl(kabi.IoctlAllocateTLB, kabi.Bytes(&a))
	return a.Out, err
}

func free(f seam.File, id uint32) error {
	a := kabi.FreeTLB{In: kabi.FreeTLBIn{ID: id}}
	return f.Ioctl(kabi.IoctlFreeTLB, kabi.Bytes(&a))
}

func configure(f seam.File, id uint32, c kabi.NOCTLBConfig) error {
	a := kabi.ConfigureTLB{In: kabi.ConfigureTLBIn{ID: id, Config: c}}
	return f.Ioctl(kabi.IoctlConfigureTLB, kabi.Bytes(&a))
}

func lock(f seam.File, op uint32, i uint8) (uint8, error) {
	a := kabi.LockCtl{In: kabi.LockCtlIn{OutputSizeBytes: 4, Flags: op, Index: i}}
	err := f.Ioctl(kabi.IoctlLockCtl, kabi.Bytes(&a))
	return a.Out.Value, err
}

var archs = []chip.Arch{chip.Wormhole, chip.Blackhole}

func each(t *testing.T, f func(t *testing.T, a chip.Arch)) {
	for _, a := range archs {
		t.Run(a.String(), func(t *testing.T) { f(t, a) })
	}
}

func TestNewRefusesImpossibleMachines(t *testing.T) {
	fn := newRegFile(chip.Wormhole)
	for name, c := range map[string]Config{
		"no architecture": {Functions: []Function{fn}},
		"no card":         {Arch: chip.Wormhole},
		"two kinds":       {Arch: chip.Wormhole, Functions: []Function{fn}, Start: func() (Function, error) { return fn, nil }},
		"too old":         {Arch: chip.Wormhole, Functions: []Function{fn}, Version: Version{1, 34, 0}},
	} {
		fails(t, second(New(c)), ErrConfig, "%s", name)
	}
}

func TestStartOnDemand(t *testing.T) {
	var made []*regFile
	r := newRig(t, chip.Blackhole, func(c *Config) {
		c.Functions = nil
		c.Start = func() (Function, error) {
			made = append(made, newRegFile(chip.Blackhole))
			return made[len(made)-1], nil
		}
	})
	a, b := r.open(0), r.open(0)
	want(t, "close", a.Close(), nil)
	if len(made) != 1 || made[0].closed {
		t.Fatalf("%d cards, first closed: %t", len(made), made[0].closed)
	}
	want(t, "close", b.Close(), nil)
	if !made[0].closed {
		t.Error("card lives on after the last close")
	}
	c := r.open(0)
	want(t, "ioctl", info(c), nil)
	want(t, "close", c.Close(), nil)
	want(t, "close again", c.Close(), syscall.EBADF)
	equal(t, len(made), 2, "cards")
}

func TestStartThatFailsFailsTheOpen(t *testing.T) {
	why := errors.New("no library")
	r := newRig(t, chip.Blackhole, func(c *Config) {
		c.Functions = nil
		c.Start = func() (Function, error) { return nil, why }
	})
	_, err := r.drv.Node(0).Open(0)
	want(t, "open", err, why)
	equal(t, r.drv.Node(0).OpenFiles(), 0, "open files")
}

// ENOTTY would be the usual answer; the driver's is EINVAL.
func TestAssertion01_UnknownIoctls(t *testing.T) {
	f := newRig(t, chip.Wormhole).open(0)
	for _, req := range []uint32{0, 0xFA00 + 17, 0xFA00 + 255, kabi.IoctlGetHarvesting, kabi.IoctlFreeDMABuf, 0xFB00} {
		want(t, "ioctl", f.Ioctl(req, make([]byte, 64)), syscall.EINVAL)
	}
}

func TestAssertion02_DetachedStaleAndResetWindow(t *testing.T) {
	all := []uint32{}
	for n := range uint32(20) {
		all = append(all, 0xFA00+n)
	}
	r := newRig(t, chip.Wormhole)
	stale, by := r.open(0), r.open(0)
	if res, err := reset(by, kabi.ResetUser); res != 0 || err != nil {
		t.Fatalf("user reset: %d, %v", res, err)
	}
	for _, req := range all {
		want(t, "stale file", stale.Ioctl(req, make([]byte, 256)), syscall.ENODEV)
		err := by.Ioctl(req, make([]byte, 256))
		switch req {
		case kabi.IoctlGetDeviceInfo, kabi.IoctlGetDriverInfo, kabi.IoctlResetDevice:
			want(t, "in the reset window", err, nil)
		default:
			want(t, "in the reset window", err, syscall.ENODEV)
		}
	}
	r2 := newRig(t, chip.Wormhole)
	f := r2.open(0)
	want(t, "remove", r2.drv.Close(), nil)
	for _, req := range all {
		want(t, "detached", f.Ioctl(req, make([]byte, 256)), syscall.ENODEV)
	}
}

func TestAssertion03_BadPointers(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	f := r.open(0)
	for n := range uint32(17) {
		if n == 1 || n == 4 || n == 16 {
			continue
		}
		want(t, "no argument", f.Ioctl(0xFA00+n, nil), syscall.EFAULT)
	}
	// The lock is taken although its outcome can't be told.
	in := kabi.LockCtlIn{OutputSizeBytes: 4, Flags: kabi.LockAcquire, Index: 3}
	want(t, "no room for the outcome", f.Ioctl(kabi.IoctlLockCtl, kabi.PartBytes(&in)), syscall.EFAULT)
	equal(t, value(lock(f, kabi.LockTest, 3))(t), 3, "lock after EFAULT")
	ri := kabi.ResetDeviceIn{OutputSizeBytes: 8, Flags: kabi.ResetUser}
	want(t, "no room for the result", f.Ioctl(kabi.IoctlResetDevice, kabi.PartBytes(&ri)), syscall.EFAULT)
	if r.fn.command&commandParity == 0 {
		t.Error("no reset marker after EFAULT")
	}
}

func TestAssertion04_NoOutputWanted(t *testing.T) {
	f := newRig(t, chip.Wormhole).open(0)
	for _, req := range []uint32{kabi.IoctlGetDeviceInfo, kabi.IoctlGetDriverInfo, kabi.IoctlLockCtl} {
		arg := make([]byte, 64)
		for i := 12; i < len(arg); i++ {
			arg[i] = 0xA5
		}
		want(t, "ioctl", f.Ioctl(req, arg), nil)
		for i := 12; i < len(arg); i++ {
			if arg[i] != 0xA5 {
				t.Fatalf("%#x wrote byte %d", req, i)
			}
		}
	}
}

func TestAssertion05_MoreOutputThanThereIs(t *testing.T) {
	f := newRig(t, chip.Wormhole).open(0)
	arg := make([]byte, 4+4096)
	for i := range arg {
		arg[i] = 0xA5
	}
	copy(arg, []byte{0, 0x10, 0, 0})
	want(t, "ioctl", f.Ioctl(kabi.IoctlGetDeviceInfo, arg), nil)
	if arg[8] != 0x52 || arg[9] != 0x1E {
		t.Errorf("vendor %#x %#x", arg[8], arg[9])
	}
	for i := 24; i < len(arg); i++ {
		if arg[i] != 0 {
			t.Fatalf("byte %d is %#x", i, arg[i])
		}
	}
}

func TestAssertion06_DriverInfoPrefix(t *testing.T) {
	f := newRig(t, chip.Wormhole, func(c *Config) { c.Version = Version{2, 9, 3} }).open(0)
	for _, tt := range []struct {
		n    uint32
		want kabi.GetDriverInfoOut
	}{
		{8, kabi.GetDriverInfoOut{OutputSizeBytes: 12, DriverVersion: 2}},
		{12, kabi.GetDriverInfoOut{OutputSizeBytes: 12, DriverVersion: 2, DriverVersionMajor: 2,
			DriverVersionMinor: 9, DriverVersionPatch: 3}},
	} {
		a := kabi.GetDriverInfo{In: kabi.GetDriverInfoIn{OutputSizeBytes: tt.n}}
		want(t, "ioctl", f.Ioctl(kabi.IoctlGetDriverInfo, kabi.Bytes(&a)), nil)
		noDiff(t, a.Out, tt.want, "%d bytes", tt.n)
	}
}

func TestAssertion07_DeviceInfo(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		f := newRig(t, a).open(0)
		arg := kabi.GetDeviceInfo{In: kabi.GetDeviceInfoIn{OutputSizeBytes: 20}}
		want(t, "ioctl", f.Ioctl(kabi.IoctlGetDeviceInfo, kabi.Bytes(&arg)), nil)
		p := a.Params().PCI
		w := kabi.GetDeviceInfoOut{OutputSizeBytes: 20, VendorID: p.Vendor, DeviceID: p.Device, SubsystemVendorID: 0x1E52,
			SubsystemID: 0x40, BusDevFn: 0x100, MaxDMABufSizeLog2: 28}
		noDiff(t, arg.Out, w, "result")
	})
}

func TestAssertion08_ArgszIsExact(t *testing.T) {
	f := newRig(t, chip.Wormhole).open(0)
	for _, d := range []int32{-1, 0, 1} {
		w := error(syscall.EINVAL)
		if d == 0 {
			w = nil
		}
		c := kabi.SetNOCCleanup{Argsz: uint32(32 + d)}
		want(t, "cleanup", f.Ioctl(kabi.IoctlSetNOCCleanup, kabi.Bytes(&c)), w)
		p := kabi.PowerState{Argsz: uint32(40 + d)}
		want(t, "power", f.Ioctl(kabi.IoctlSetPowerState, kabi.Bytes(&p)), w)
	}
	c := kabi.SetNOCCleanup{Argsz: 32, Flags: 1}
	want(t, "cleanup flags", f.Ioctl(kabi.IoctlSetNOCCleanup, kabi.Bytes(&c)), syscall.EINVAL)
	p := kabi.PowerState{Argsz: 40, Flags: 1}
	want(t, "power flags", f.Ioctl(kabi.IoctlSetPowerState, kabi.Bytes(&p)), syscall.EINVAL)
	for name, c := range map[string]kabi.SetNOCCleanup{
		"enabled 2": {Enabled: 2}, "odd address": {Addr: 2}, "third network": {NOC: 2}, "x 65": {X: 65}, "y 65": {Y: 65},
	} {
		c.Argsz = 32
		want(t, name, f.Ioctl(kabi.IoctlSetNOCCleanup, kabi.Bytes(&c)), syscall.EINVAL)
	}
	edge := kabi.SetNOCCleanup{Argsz: 32, X: 64, Y: 64}
	want(t, "x and y of 64", f.Ioctl(kabi.IoctlSetNOCCleanup, kabi.Bytes(&edge)), nil)
}

func soon[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s doesn't happen", what)
	}
	return v
}

func pages(t *testing.T, n int, flags int) []byte {
	t.Helper()
	b := value(unix.Mmap(-1, 0, n*int(pageSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|flags))(t)
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

var (
	fails  = expect.Fails
	must   = expect.Must
	noDiff = expect.NoDiff
)

func second[V any](_ V, err error) error { return err }

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}
