package driver

import (
	"errors"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
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
	fails(t, err, want, "%s", what)
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
	equal(t, arg[8], 0x52, "arg[8]")
	equal(t, arg[9], 0x1E, "arg[9]")
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

func mappings(t *testing.T, f seam.File, n uint32) []kabi.Mapping {
	t.Helper()
	size := kabi.Size[kabi.Mapping]()
	arg := make([]byte, 8+int(n)*size)
	for i := range arg {
		arg[i] = 0xA5
	}
	in := kabi.QueryMappingsIn{OutputMappingCount: n}
	copy(arg, kabi.PartBytes(&in))
	want(t, "query mappings", f.Ioctl(kabi.IoctlQueryMappings, arg), nil)
	out := make([]kabi.Mapping, n)
	for i := range out {
		copy(kabi.PartBytes(&out[i]), arg[8+i*size:])
	}
	return out
}

func TestAssertion09_QueryMappings(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		f := newRig(t, a).open(0)
		b := a.Params().PCI.BARSize
		w := []kabi.Mapping{
			{MappingID: 1, MappingBase: 0, MappingSize: b[0]}, {MappingID: 2, MappingBase: 1 << 36, MappingSize: b[0]},
			{MappingID: 3, MappingBase: 2 << 36, MappingSize: b[2]}, {MappingID: 4, MappingBase: 3 << 36, MappingSize: b[2]},
			{MappingID: 5, MappingBase: 4 << 36, MappingSize: b[4]}, {MappingID: 6, MappingBase: 5 << 36, MappingSize: b[4]},
			{}, {},
		}
		for n := range uint32(len(w) + 1) {
			if d := cmp.Diff(w[:n], mappings(t, f, n)); d != "" && n > 0 {
				t.Errorf("%d asked (-want +got):\n%s", n, d)
			}
		}
	})
}

func mmap(t *testing.T, what string, f seam.File, off uint64, n int, w error) seam.Mapping {
	t.Helper()
	m, err := f.Mmap(off, n)
	want(t, what, err, w)
	if err == nil {
		t.Cleanup(func() { _ = m.Unmap() })
	}
	return m
}

func TestAssertion10_BARRanges(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f := r.open(0)
	page := int(pageSize())
	m := mmap(t, "a page inside BAR 0", f, 0x1FC00000, page, nil)
	m.IO.Store(8, 4, 77)
	equal(t, r.fn.words[[2]uint64{0, 0x1FC00008}], 77, "the store went elsewhere")
	mmap(t, "all of BAR 2", f, 3<<36, 1<<20, nil)
	mmap(t, "beyond BAR 0", f, 512<<20-uint64(page), 2*page, syscall.EINVAL)
	mmap(t, "after BAR 2", f, 2<<36+1<<20, page, syscall.EINVAL)
	mmap(t, "half a page", f, 2048, page, syscall.EINVAL)
	mmap(t, "nothing", f, 0, 0, syscall.EINVAL)
	mmap(t, "between the TLB range and the buffers", f, 8<<36, page, syscall.EINVAL)
}

func TestAssertion11_WindowMappings(t *testing.T) {
	r := newRig(t, chip.Blackhole, func(c *Config) { c.BAR4Size = 4<<30 + 2<<20 })
	f, other := r.open(0), r.open(0)
	a, err := allocate(f, 2<<20)
	want(t, "allocate", err, nil)
	page := int(pageSize())
	mmap(t, "a window", f, a.MmapOffsetUC, 2<<20, nil)
	mmap(t, "a prefix, write-combined", f, a.MmapOffsetWC, page, nil)
	mmap(t, "inside a window", f, a.MmapOffsetUC+uint64(page), page, syscall.EINVAL)
	mmap(t, "more than a window", f, a.MmapOffsetUC, 2<<20+page, syscall.EINVAL)
	mmap(t, "a window without an owner", f, a.MmapOffsetUC+2<<20, page, syscall.EPERM)
	mmap(t, "somebody else's window", other, a.MmapOffsetUC, page, syscall.EPERM)
	big, err := allocate(f, 4<<30)
	want(t, "allocate 4 GiB", err, nil)
	mmap(t, "a large window", f, big.MmapOffsetUC, page, nil)
	mmap(t, "a large window that the BAR is too small for", f, big.MmapOffsetUC+4<<30, page, syscall.EINVAL)
	_, err = allocate(f, 4<<30)
	want(t, "a second large window", err, syscall.ENOMEM)
}

func TestAssertion13_MmapDuringAReset(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f, by := r.open(0), r.open(0)
	in, goOn := make(chan struct{}), make(chan struct{})
	r.fn.onReset = func() { close(in); <-goOn }
	done := make(chan uint32)
	go func() { res, _ := reset(by, kabi.ResetPCIeLink); done <- res }()
	soon(t, "reset", in)
	page := int(pageSize())
	mmap(t, "during the reset", f, 0, page, syscall.ENODEV)
	close(goOn)
	equal(t, soon(t, "result", done), 0, "result")
	mmap(t, "afterwards", f, 0, page, nil)
}

func TestAssertion14_MappingsKeepTheFile(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	f, other := r.open(0), r.open(0)
	a, err := allocate(f, 1<<20)
	want(t, "allocate", err, nil)
	equal(t, value(lock(f, kabi.LockAcquire, 5))(t), 1, "the lock")
	m, err := f.Mmap(a.MmapOffsetUC, 1<<20)
	want(t, "map", err, nil)
	want(t, "close", f.Close(), nil)
	m.IO.Store(0x10, 4, 9)
	equal(t, r.fn.words[[2]uint64{0, 0x10}], 9, "the mapping is dead")
	equal(t, value(lock(other, kabi.LockAcquire, 5))(t), 0, "the lock went with the descriptor")
	if b, _ := allocate(other, 1<<20); b.ID != a.ID+1 {
		t.Errorf("the window went with the descriptor: got %d", b.ID)
	}
	want(t, "unmap", m.Unmap(), nil)
	equal(t, value(lock(other, kabi.LockAcquire, 5))(t), 1, "the lock stayed after the last mapping")
	if b, _ := allocate(other, 1<<20); b.ID != a.ID {
		t.Errorf("the window stayed after the last mapping: got %d", b.ID)
	}
}

func TestAssertion15_TLBQuantities(t *testing.T) {
	for _, tt := range []struct {
		arch chip.Arch
		bar4 uint64
		size uint64
		n    int
	}{
		{chip.Wormhole, 0, 1 << 20, 156},
		{chip.Wormhole, 0, 2 << 20, 10},
		{chip.Wormhole, 0, 16 << 20, 19},
		{chip.Blackhole, 0, 2 << 20, 201},
		{chip.Blackhole, 0, 4 << 30, 8},
		{chip.Blackhole, 13 << 30, 4 << 30, 3},
	} {
		f := newRig(t, tt.arch, func(c *Config) { c.BAR4Size = tt.bar4 }).open(0)
		for i := range tt.n {
			if _, err := allocate(f, tt.size); err != nil {
				t.Fatalf("%v %#x: window %d: %v", tt.arch, tt.size, i, err)
			}
		}
		_, err := allocate(f, tt.size)
		want(t, "one more", err, syscall.ENOMEM)
	}
	f := newRig(t, chip.Blackhole, func(c *Config) { c.BAR4Size = 2 << 30 }).open(0)
	_, err := allocate(f, 4<<30)
	want(t, "a class with no windows", err, syscall.EINVAL)
}

func TestAssertion16_TLBSizesAreExact(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		f := newRig(t, a).open(0)
		other := uint64(4 << 30)
		if a == chip.Blackhole {
			other = 16 << 20
		}
		for _, size := range []uint64{0, 1, 4096, 3 << 20, other, 1 << 63} {
			_, err := allocate(f, size)
			want(t, "allocate", err, syscall.EINVAL)
		}
	})
	old := newRig(t, chip.Wormhole, version(2, 1)).open(0)
	a, err := allocate(old, 1<<20+1)
	want(t, "rounded up before 2.2.0", err, nil)
	equal(t, a.ID, 156, "window")
}

func TestAssertion18_FreeTLB(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f, other := r.open(0), r.open(0)
	a, _ := allocate(f, 2<<20)
	m, err := f.Mmap(a.MmapOffsetUC, 2<<20)
	want(t, "map", err, nil)
	want(t, "mapped", free(f, a.ID), syscall.EBUSY)
	want(t, "foreign", free(other, a.ID), syscall.EPERM)
	want(t, "not allocated", free(f, 7), syscall.EPERM)
	want(t, "no such id", free(f, 256), syscall.EINVAL)
	want(t, "unmap", m.Unmap(), nil)
	want(t, "unmapped", free(f, a.ID), nil)
	want(t, "again", free(f, a.ID), syscall.EPERM)
}

func TestAssertion19_ConfigureTLB(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		r := newRig(t, a)
		f, other := r.open(0), r.open(0)
		w, _ := allocate(f, 2<<20)
		want(t, "aligned", configure(f, w.ID, kabi.NOCTLBConfig{Addr: 6 << 20}), nil)
		want(t, "misaligned", configure(f, w.ID, kabi.NOCTLBConfig{Addr: 1 << 20}), syscall.EINVAL)
		far := configure(f, w.ID, kabi.NOCTLBConfig{Addr: 1 << 36})
		if a == chip.Wormhole {
			want(t, "37 bits", far, syscall.EINVAL)
		} else {
			want(t, "37 bits", far, nil)
		}
		want(t, "foreign", configure(other, w.ID, kabi.NOCTLBConfig{}), syscall.EPERM)
		want(t, "no such id", configure(f, 256, kabi.NOCTLBConfig{}), syscall.EINVAL)
	})
}

func TestAssertion20_TLBOffsets(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		f := newRig(t, a).open(0)
		p := a.Params()
		for _, class := range p.Windows {
			w, err := allocate(f, class.Size)
			want(t, "allocate", err, nil)
			off := class.Offset
			if class.BAR == 4 {
				off += 512 << 20
			}
			expect.Equal(t, [2]uint64{w.MmapOffsetUC, w.MmapOffsetWC}, [2]uint64{0x60_0000_0000 + off, w.MmapOffsetUC + 1<<36},
				"window %d: offsets", w.ID)
		}
	})
}

func TestAssertion21_TLBValuesAreCut(t *testing.T) {
	each(t, func(t *testing.T, a chip.Arch) {
		r := newRig(t, a)
		f := r.open(0)
		w, _ := allocate(f, 2<<20)
		reg := a.Params().WindowRegister(int(w.ID))
		read := func(c kabi.NOCTLBConfig) (lo, hi uint64) {
			r.fn.stores = nil
			want(t, "configure", configure(f, w.ID, c), nil)
			if a == chip.Wormhole {
				noDiff(t, r.fn.stores, [][4]uint64{{0, reg, 8, r.fn.words[[2]uint64{0, reg}]}}, "stores")
				return r.fn.words[[2]uint64{0, reg}], 0
			}
			if len(r.fn.stores) != 3 || r.fn.stores[0][2] != 4 || r.fn.stores[1][2] != 4 || r.fn.stores[2][2] != 4 {
				t.Errorf("stores %v, want three of 4 bytes", r.fn.stores)
			}
			return r.fn.words[[2]uint64{0, reg}] | r.fn.words[[2]uint64{0, reg + 4}]<<32, r.fn.words[[2]uint64{0, reg + 8}]
		}
		zeroLo, zeroHi := read(kabi.NOCTLBConfig{})
		wideLo, wideHi := read(kabi.NOCTLBConfig{XEnd: 64, YEnd: 64, XStart: 64, YStart: 64, NOC: 4, Mcast: 2, Ordering: 4, Linked: 2})
		equal(t, zeroLo, wideLo, "zeroLo")
		equal(t, zeroHi, wideHi, "zeroHi")
		vcLo, vcHi := read(kabi.NOCTLBConfig{StaticVC: 1})
		equal(t, vcLo == 0 && vcHi == 0, a == chip.Wormhole, "static_vc is %#x %#x: it stays", vcLo, vcHi)
	})
}

func TestConfigureClearsStrides(t *testing.T) {
	r := newRig(t, chip.Blackhole)
	f := r.open(0)
	w, _ := allocate(f, 2<<20)
	m := mmap(t, "registers", f, 0x1FC00000, int(pageSize()), nil)
	m.IO.Store(0x9D8+4*uint64(w.ID), 4, 0x55)
	want(t, "configure", configure(f, w.ID, kabi.NOCTLBConfig{}), nil)
	equal(t, r.fn.words[[2]uint64{0, 0x1FC009D8 + 4*uint64(w.ID)}], 0, "stride")
}

func TestAssertion22_WindowsRetargetAtOnce(t *testing.T) {
	// The mapping is of the BAR range, whose registers decide where it leads: nothing in between
	// remembers.
	r := newRig(t, chip.Wormhole)
	f := r.open(0)
	w, _ := allocate(f, 16<<20)
	m := mmap(t, "map", f, w.MmapOffsetUC, 16<<20, nil)
	for x := range uint16(3) {
		want(t, "configure", configure(f, w.ID, kabi.NOCTLBConfig{XEnd: x}), nil)
		m.IO.Store(64, 4, uint64(x))
		n := len(r.fn.stores)
		if cfg, data := r.fn.stores[n-2], r.fn.stores[n-1]; cfg[1] != 0x1FC00000+8*166 || cfg[3]>>12&63 != uint64(x) ||
			data != [4]uint64{0, 0xB000000 + 64, 4, uint64(x)} {
			t.Errorf("stores %v", r.fn.stores[n-2:])
		}
	}
}

func TestAssertion43_ZappedMappingsFault(t *testing.T) {
	r := newRig(t, chip.Wormhole)
	f := r.open(0)
	w, _ := allocate(f, 1<<20)
	m := mmap(t, "map", f, w.MmapOffsetUC, 1<<20, nil)
	if raisesFault(func() { m.IO.Load(0, 4) }) {
		t.Error("a good mapping faults")
	}
	for name, access := range map[string]func(){
		"load":             func() { m.IO.Load(1<<20-2, 4) },
		"store":            func() { m.IO.Store(1<<20-2, 4, 1) },
		"store far beyond": func() { m.IO.Store(1<<64-2, 4, 1) },
	} {
		if !raisesFault(access) {
			t.Errorf("%s across the end of a mapping", name)
		}
	}
	if raisesFault(func() { m.IO.Store(1<<20-4, 4, 1) }) {
		t.Error("the last word of a mapping faults")
	}
	if res, err := reset(f, kabi.ResetPCIeLink); res != 0 || err != nil {
		t.Fatalf("reset: %d, %v", res, err)
	}
	for name, access := range map[string]func(){
		"load":  func() { m.IO.Load(0, 4) },
		"store": func() { m.IO.Store(0, 4, 1) },
		"read":  func() { m.IO.Read(0, make([]byte, 8)) },
		"write": func() { m.IO.Write(0, make([]byte, 8)) },
	} {
		if !raisesFault(access) {
			t.Errorf("%s through a zapped mapping", name)
		}
	}
	// The window isn't mapped any more as far as the driver knows, and a new mapping works.
	n := mmap(t, "map again", f, w.MmapOffsetUC, 1<<20, nil)
	if raisesFault(func() { n.IO.Load(0, 4) }) {
		t.Error("the new mapping faults")
	}
}

func raisesFault(f func()) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		_, yes = recover().(interface{ Addr() uintptr })
	}()
	f()
	return false
}
