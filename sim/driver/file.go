package driver

import (
	"os"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// file is an open file of a node: what the driver hangs off struct file. It lives while its descriptor, a mapping of it or
// a request on it does.
type file struct {
	dev  *device
	proc *Process

	closeOnce sync.Once

	// Guarded by device.mu.
	refs    int  // of the descriptor and mappings
	calls   int  // requests under way
	ended   bool // it is being released, or has been
	fd      int  // its descriptor in the process, negative once that is closed
	last    bool // released after all others at the end of the process
	killed  bool
	gen     uint64
	tlbs    map[uint32]int // owned windows and how many mappings of each there are
	maps    map[*barMap]struct{}
	pins    []*pin
	bufs    map[uint8]*dmaBuffer
	cleanup kabi.SetNOCCleanup
	power   kabi.PowerState
	peers   []uint64 // bus addresses of peers' BARs
	desc    int      // descriptor for other ioctls to name the file by, 0 if none was asked for
	message *smcMessage
}

var _ seam.File = (*file)(nil)

// Fault says why the function behind the node stopped.
func (f *file) Fault() error {
	f.dev.mu.Lock()
	fn := f.dev.fn
	f.dev.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn.Fault()
}

// EngineWait says what a thread of the Tensix engines of the tile at a virtual coordinate waits for, where the function knows.
func (f *file) EngineWait(x, y uint8, thread int) (wait string, known bool) {
	f.dev.mu.Lock()
	fn := f.dev.fn
	f.dev.mu.Unlock()
	if b, ok := fn.(interface {
		EngineWait(x, y uint8, thread int) string
	}); ok {
		return b.EngineWait(x, y, thread), true
	}
	return "", false
}

// CoreDebug says whether the processors' debug interface answers: it does unless the function says otherwise.
func (f *file) CoreDebug() bool {
	f.dev.mu.Lock()
	fn := f.dev.fn
	f.dev.mu.Unlock()
	b, ok := fn.(interface{ CoreDebug() bool })
	return !ok || b.CoreDebug()
}

// RemoteFault says why a chip that is reached through the function's links stopped, by its place, where the function knows.
func (f *file) RemoteFault(x, y uint8) error {
	f.dev.mu.Lock()
	fn := f.dev.fn
	f.dev.mu.Unlock()
	if b, ok := fn.(interface{ RemoteFault(x, y uint8) error }); ok {
		return b.RemoteFault(x, y)
	}
	return nil
}

// Close drops the descriptor. The file lives on while it is mapped.
func (f *file) Close() error {
	err := error(syscall.EBADF)
	f.closeOnce.Do(func() {
		f.dev.mu.Lock()
		f.proc.giveBack(f.fd)
		f.fd, f.last = -1, false
		f.dev.mu.Unlock()
		err = f.put()
	})
	return err
}

// ReleaseLast makes the end of the process release the file after all others of the process, whatever its descriptor.
func (f *file) ReleaseLast() error {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	if f.fd < 0 {
		return syscall.EBADF
	}
	f.last = true
	return nil
}

// put drops a reference of the descriptor or a mapping, unless the end of the process has dropped them all. It releases
// the file with the last one.
func (f *file) put() error {
	f.dev.mu.Lock()
	if !f.killed {
		f.refs--
	}
	return f.unlockAndRelease()
}

// enter takes the reference that a request holds on its file, as fdget does in the kernel: a file whose descriptor is
// closed meanwhile is released after the request, with what that took.
func (f *file) enter() error {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	if f.closedLocked() {
		return syscall.EBADF
	}
	f.calls++
	return nil
}

// leave drops it. The device's reset lock must not be held, since a release takes it.
func (f *file) leave() {
	f.dev.mu.Lock()
	f.calls--
	_ = f.unlockAndRelease() // a request has no answer for it, nor has the kernel
}

// unlockAndRelease releases the file if nothing holds it any more. d.mu is held before and not after.
func (f *file) unlockAndRelease() error {
	over := f.overLocked()
	f.dev.mu.Unlock()
	if over {
		return f.dev.release(f)
	}
	return nil
}

// overLocked reports, once, that nothing holds the file any more: the caller that gets true releases it.
func (f *file) overLocked() bool {
	if f.ended || f.refs > 0 || f.calls > 0 {
		return false
	}
	f.ended = true
	return true
}

// closedLocked reports whether requests find no file at the descriptor.
func (f *file) closedLocked() bool { return f.fd < 0 || f.killed }

// gate is the check in front of every ioctl (tt-kmd chardev.c, tt_cdev_ioctl).
func (f *file) gate(req uint32) error {
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	info := req == kabi.IoctlGetDeviceInfo || req == kabi.IoctlGetDriverInfo || req == kabi.IoctlResetDevice
	if d.detached || f.gen != d.gen || d.needsInit && !info {
		return syscall.ENODEV
	}
	return nil
}

// Ioctl performs a request. An argument shorter than what the driver reads or writes is EFAULT, like a bad pointer.
func (f *file) Ioctl(req uint32, arg []byte) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave() // after the reset lock
	if req == kabi.IoctlResetDevice {
		f.dev.reset.Lock()
		defer f.dev.reset.Unlock()
		if err := f.gate(req); err != nil {
			return err
		}
		return f.resetDevice(arg)
	}
	f.dev.reset.RLock()
	defer f.dev.reset.RUnlock()
	if err := f.gate(req); err != nil {
		return err
	}
	v := f.dev.cfg.Version
	switch req {
	case kabi.IoctlGetDeviceInfo:
		return f.deviceInfo(arg)
	case kabi.IoctlQueryMappings:
		return f.queryMappings(arg)
	case kabi.IoctlAllocateDMABuf:
		return f.allocateDMABuf(arg)
	case kabi.IoctlGetDriverInfo:
		return f.driverInfo(arg)
	case kabi.IoctlPinPages:
		return f.pinPages(arg)
	case kabi.IoctlUnpinPages:
		return f.unpinPages(arg)
	case kabi.IoctlLockCtl:
		return f.lockCtl(arg)
	case kabi.IoctlMapPeerBar:
		return f.mapPeerBar(arg)
	case kabi.IoctlAllocateTLB:
		return f.allocateTLB(arg)
	case kabi.IoctlFreeTLB:
		return f.freeTLB(arg)
	case kabi.IoctlConfigureTLB:
		return f.configureTLB(arg)
	case kabi.IoctlSetNOCCleanup:
		if v.atLeast(2, 2) {
			return f.setNOCCleanup(arg)
		}
	case kabi.IoctlSetPowerState:
		if v.atLeast(2, 6) {
			return f.setPowerState(arg)
		}
	case kabi.IoctlExportTLBDMABuf:
		if v.atLeast(2, 10) {
			return f.exportTLB(arg)
		}
	case kabi.IoctlSMCMessage:
		if v.atLeast(2, 11) {
			return f.smcMessage(arg)
		}
	case kabi.IoctlNOCRead, kabi.IoctlNOCWrite:
		if v.atLeast(2, 11) {
			return f.nocAccess(arg, req == kabi.IoctlNOCWrite)
		}
	}
	return syscall.EINVAL
}

// take reads the input of an ioctl from the front of its argument and returns what follows it.
func take[T kabi.Part](arg []byte, in *T) (rest []byte, ok bool) {
	b := kabi.PartBytes(in)
	if len(arg) < len(b) {
		return nil, false
	}
	copy(b, arg)
	return arg[len(b):], true
}

// put writes the output of an ioctl of fixed size.
func put[T kabi.Part](arg []byte, out *T) { copy(arg, kabi.PartBytes(out)) }

// answer writes an output of which the caller asked for n bytes: n zeroes, then as much of the output as fits.
func answer[T kabi.Part](arg []byte, n uint32, out *T) error {
	if uint64(n) > uint64(len(arg)) {
		return syscall.EFAULT
	}
	clear(arg[:n])
	copy(arg[:n], kabi.PartBytes(out))
	return nil
}

func (f *file) deviceInfo(arg []byte) error {
	var in kabi.GetDeviceInfoIn
	rest, ok := take(arg, &in)
	if !ok {
		return syscall.EFAULT
	}
	d := f.dev
	id, sub := d.fn.ConfigRead(0), d.fn.ConfigRead(0x2C)
	out := kabi.GetDeviceInfoOut{
		OutputSizeBytes:   uint32(kabi.Size[kabi.GetDeviceInfoOut]()),
		VendorID:          uint16(id),
		DeviceID:          uint16(id >> 16),
		SubsystemVendorID: uint16(sub),
		SubsystemID:       uint16(sub >> 16),
		BusDevFn:          d.bdf,
		MaxDMABufSizeLog2: kabi.MaxDMABufLog2,
	}
	return answer(rest, in.OutputSizeBytes, &out)
}

func (f *file) driverInfo(arg []byte) error {
	var in kabi.GetDriverInfoIn
	rest, ok := take(arg, &in)
	if !ok {
		return syscall.EFAULT
	}
	v := f.dev.cfg.Version
	out := kabi.GetDriverInfoOut{
		OutputSizeBytes:    uint32(kabi.Size[kabi.GetDriverInfoOut]()),
		DriverVersion:      kabi.DriverAPIVersion,
		DriverVersionMajor: v.Major,
		DriverVersionMinor: v.Minor,
		DriverVersionPatch: v.Patch,
	}
	return answer(rest, in.OutputSizeBytes, &out)
}

func (f *file) queryMappings(arg []byte) error {
	var in kabi.QueryMappingsIn
	rest, ok := take(arg, &in)
	size := kabi.Size[kabi.Mapping]()
	if !ok || uint64(in.OutputMappingCount)*uint64(size) > uint64(len(rest)) {
		return syscall.EFAULT
	}
	rest = rest[:int(in.OutputMappingCount)*size]
	clear(rest)
	for i, bar := range []int{0, 2, 4} {
		n := f.dev.barLen(bar)
		if n == 0 {
			continue
		}
		for k := range 2 {
			if len(rest) < size {
				return nil
			}
			put(rest, &kabi.Mapping{
				MappingID:   uint32(1 + 2*i + k),
				MappingBase: uint64(2*i+k) * offsetStep,
				MappingSize: n,
			})
			rest = rest[size:]
		}
	}
	return nil
}

func (f *file) setNOCCleanup(arg []byte) error {
	var in kabi.SetNOCCleanup
	if _, ok := take(arg, &in); !ok {
		return syscall.EFAULT
	}
	if in.Argsz != uint32(kabi.Size[kabi.SetNOCCleanup]()) || in.Flags != 0 || in.Enabled > 1 || in.Addr&3 != 0 ||
		in.NOC > 1 || in.X > 64 || in.Y > 64 {
		return syscall.EINVAL
	}
	f.dev.mu.Lock()
	f.cleanup = in
	f.dev.mu.Unlock()
	return nil
}

func (f *file) setPowerState(arg []byte) error {
	var in kabi.PowerState
	if _, ok := take(arg, &in); !ok {
		return syscall.EFAULT
	}
	if in.Argsz != uint32(kabi.Size[kabi.PowerState]()) || in.Flags != 0 || in.Reserved0 != 0 ||
		in.Validity > kabi.MaxPowerValidity {
		return syscall.EINVAL
	}
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	f.power = in
	f.dev.aggregatePowerLocked()
	if f.dev.faults.noPower {
		return syscall.EINVAL // tt-kmd wormhole.c, wormhole_set_power_state: the message had no answer
	}
	return nil
}

func pageSize() uint64 { return uint64(os.Getpagesize()) }
