package driver

import (
	"math/bits"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// gate precedes every ioctl (tt-kmd chardev.c, tt_cdev_ioctl).
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
		return kabi.Handle(f.resetDevice, arg)
	}
	f.dev.reset.RLock()
	defer f.dev.reset.RUnlock()
	if err := f.gate(req); err != nil {
		return err
	}
	v := f.dev.cfg.Version
	switch req {
	case kabi.IoctlGetDeviceInfo:
		return kabi.Handle(f.deviceInfo, arg)
	case kabi.IoctlQueryMappings:
		return kabi.Handle(f.queryMappings, arg)
	case kabi.IoctlAllocateDMABuf:
		return kabi.Handle(f.allocateDMABuf, arg)
	case kabi.IoctlGetDriverInfo:
		return kabi.Handle(f.driverInfo, arg)
	case kabi.IoctlPinPages:
		return kabi.Handle(f.pinPages, arg)
	case kabi.IoctlUnpinPages:
		return kabi.Handle(f.unpinPages, arg)
	case kabi.IoctlLockCtl:
		return kabi.Handle(f.lockCtl, arg)
	case kabi.IoctlMapPeerBar:
		return kabi.Handle(f.mapPeerBar, arg)
	case kabi.IoctlAllocateTLB:
		return kabi.Handle(f.allocateTLB, arg)
	case kabi.IoctlFreeTLB:
		return kabi.Handle(f.freeTLB, arg)
	case kabi.IoctlConfigureTLB:
		return kabi.Handle(f.configureTLB, arg)
	case kabi.IoctlSetNOCCleanup:
		if v.atLeast(2) {
			return kabi.Handle(f.setNOCCleanup, arg)
		}
	case kabi.IoctlSetPowerState:
		if v.atLeast(6) {
			return kabi.Handle(f.setPowerState, arg)
		}
	case kabi.IoctlExportTLBDMABuf:
		if v.atLeast(10) {
			if f.dev.cfg.NoExport {
				return syscall.EOPNOTSUPP
			}
			return update(f.exportTLB, arg)
		}
	case kabi.IoctlSMCMessage:
		if v.atLeast(11) {
			return update(f.smcMessage, arg)
		}
	case kabi.IoctlNOCRead, kabi.IoctlNOCWrite:
		if v.atLeast(11) {
			return update(func(in kabi.NOCAccess) (kabi.NOCAccess, error) { return f.nocAccess(in, req == kabi.IoctlNOCWrite) }, arg)
		}
	}
	return syscall.EINVAL
}

func (f *file) deviceInfo(in kabi.GetDeviceInfoIn, rest []byte) error {
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

func (f *file) driverInfo(in kabi.GetDriverInfoIn, rest []byte) error {
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

func (f *file) queryMappings(in kabi.QueryMappingsIn, rest []byte) error {
	size := kabi.Size[kabi.Mapping]()
	if uint64(in.OutputMappingCount)*uint64(size) > uint64(len(rest)) {
		return syscall.EFAULT
	}
	rest = rest[:int(in.OutputMappingCount)*size]
	clear(rest)
	for i, bar := range []int{0, 2, 4} {
		n := f.dev.barSize[bar]
		if n == 0 {
			continue
		}
		for k := range 2 {
			if len(rest) < size {
				return nil
			}
			kabi.Put(rest, &kabi.Mapping{
				MappingID:   uint32(1 + 2*i + k),
				MappingBase: uint64(2*i+k) * offsetStep,
				MappingSize: n,
			})
			rest = rest[size:]
		}
	}
	return nil
}

func (f *file) setNOCCleanup(in kabi.SetNOCCleanup, _ []byte) error {
	if in.Argsz != uint32(kabi.Size[kabi.SetNOCCleanup]()) || in.Flags != 0 || in.Enabled > 1 || in.Addr&3 != 0 ||
		in.NOC > 1 || in.X > 64 || in.Y > 64 {
		return syscall.EINVAL
	}
	f.dev.mu.Lock()
	f.cleanup = in
	f.dev.mu.Unlock()
	return nil
}

func (f *file) setPowerState(in kabi.PowerState, _ []byte) error {
	if in.Argsz != uint32(kabi.Size[kabi.PowerState]()) || in.Flags != 0 || in.Reserved0 != 0 ||
		in.Validity > kabi.MaxPowerValidity {
		return syscall.EINVAL
	}
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	f.power = in
	f.dev.aggregatePowerLocked()
	if f.dev.faults.noPower {
		return syscall.EINVAL // tt-kmd wormhole.c, wormhole_set_power_state: no answer to the message
	}
	return nil
}

func (f *file) lockCtl(in kabi.LockCtlIn, rest []byte) error {
	if in.Index >= kabi.LockCount {
		return syscall.EINVAL
	}
	d := f.dev
	var out kabi.LockCtlOut
	d.mu.Lock()
	defer d.mu.Unlock()
	switch in.Flags {
	case kabi.LockAcquire:
		if d.locks[in.Index] == nil {
			d.locks[in.Index] = f
			out.Value = 1
		}
	case kabi.LockAcquireBlocking:
		if !d.cfg.Version.atLeast(7) {
			return syscall.EINVAL
		}
		if err := f.awaitLocked(in.Index); err != nil {
			return err
		}
		out.Value = 1
	case kabi.LockRelease:
		if d.locks[in.Index] == f {
			d.locks[in.Index] = nil
			out.Value = 1
			d.wake.Broadcast()
		}
	case kabi.LockTest:
		if d.locks[in.Index] == f {
			out.Value |= 1
		}
		if d.locks[in.Index] != nil {
			out.Value |= 2
		}
	default:
		return syscall.EINVAL
	}
	return answer(rest, in.OutputSizeBytes, &out)
}

// awaitLocked waits as acquire_resource_lock_blocking: without blocking resets, until the device is
// lost for this file.
func (f *file) awaitLocked(i uint8) error {
	d := f.dev
	signals := f.proc.signals.Load()
	for !d.detached && d.gen == f.gen {
		if f.killed {
			return syscall.EINTR // the signal came before the wait
		}
		if d.locks[i] == nil {
			d.locks[i] = f
			return nil
		}
		d.reset.RUnlock()
		d.wake.Wait()
		// Lock in the order reset, mu: a reset may be waiting for d.mu.
		d.mu.Unlock()
		d.reset.RLock()
		d.mu.Lock()
		if f.proc.signals.Load() != signals {
			return syscall.EINTR
		}
	}
	return syscall.ENODEV
}

// Messenger is a Function with a message queue; an answer's first word is 0 for success.
type Messenger interface {
	Message(request [8]uint32) (answer [8]uint32)
}

// smcMessage posts, polls or abandons a file's only message (tenstorrent/tt-kmd#266).
func (f *file) smcMessage(in kabi.SMCMessage) (kabi.SMCMessage, error) {
	if in.Argsz != uint32(kabi.Size[kabi.SMCMessage]()) || in.QueueIndex != 0 || in.Reserved0 != 0 {
		return in, syscall.EINVAL
	}
	d := f.dev
	m, ok := d.fn.(Messenger)
	if !ok {
		return in, syscall.EOPNOTSUPP
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch in.Flags {
	case kabi.SMCPost:
		if f.message != nil {
			return in, syscall.EBUSY
		}
		f.message = &smcMessage{answer: m.Message(in.Message), early: true}
	case kabi.SMCPoll:
		if f.message == nil {
			return in, syscall.ESRCH
		}
		if f.message.early {
			f.message.early = false
			return in, syscall.EAGAIN
		}
		in.Message = f.message.answer
		f.message = nil
	case kabi.SMCAbandon:
		f.message = nil
	default:
		return in, syscall.EINVAL
	}
	return in, nil
}

// No reset unmaps the driver's own window (tenstorrent/tt-kmd#283).
func (f *file) nocAccess(in kabi.NOCAccess, store bool) (kabi.NOCAccess, error) {
	if w := in.Width; w > 8 || bits.OnesCount8(w) != 1 || in.Argsz != uint32(kabi.Size[kabi.NOCAccess]()) || in.Flags != 0 ||
		in.Reserved0 != [2]uint8{} || in.NOC > 1 || in.X > 63 || in.Y > 63 || in.Addr%uint64(w) != 0 {
		return in, syscall.EINVAL
	}
	v, err := f.dev.kernelAccess(uint8(in.X), uint8(in.Y), in.NOC, in.Addr, int(in.Width), in.Value, store)
	if !store {
		in.Value = v
	}
	return in, err
}

// update is kabi.Handle for a request whose input becomes its output.
func update[T kabi.Part](do func(in T) (T, error), arg []byte) error {
	return kabi.Handle(func(in T, _ []byte) error {
		out, err := do(in)
		if err == nil {
			kabi.Put(arg, &out)
		}
		return err
	}, arg)
}

// answer encodes an output for a caller who asked for n bytes, the rest zero.
func answer[T kabi.Part](arg []byte, n uint32, out *T) error {
	if uint64(n) > uint64(len(arg)) {
		return syscall.EFAULT
	}
	clear(arg[:n])
	kabi.Put(arg[:n], out)
	return nil
}

// The reset marker in the PCI command register: the driver sets the bit, and a reset clears it
// (tt-kmd pcie.c).
const (
	configCommand = 0x04
	commandParity = 1 << 6
)

func (f *file) resetDevice(in kabi.ResetDeviceIn, rest []byte) error {
	d := f.dev
	switch in.Flags {
	case kabi.ResetPCIeLink, kabi.ResetConfigWrite, kabi.ResetUser, kabi.ResetASIC, kabi.ResetASICDMC:
		// No card may access a chip that is being reset (tt-kmd chardev.c).
		d.mu.Lock()
		live := len(d.exports.live()) > 0
		d.mu.Unlock()
		if live {
			return syscall.EBUSY
		}
	}
	success := true
	switch in.Flags {
	case kabi.ResetRestoreState:
	case kabi.ResetPCIeLink:
		d.mu.Lock()
		d.zapSince27Locked()
		d.mu.Unlock()
		success = d.resetFunction()
	case kabi.ResetConfigWrite:
		d.invalidate(f, false)
		success = d.resetFunction()
	case kabi.ResetUser, kabi.ResetASIC, kabi.ResetASICDMC:
		if !d.cfg.Version.atLeast(4) {
			return syscall.EINVAL
		}
		d.invalidate(f, true)
		d.fn.ConfigWrite(configCommand, d.fn.ConfigRead(configCommand)&0xFFFF|commandParity)
		if in.Flags != kabi.ResetUser {
			success = d.resetFunction()
		}
	case kabi.ResetPost:
		if !d.cfg.Version.atLeast(4) {
			return syscall.EINVAL
		}
		success = d.fn.ConfigRead(configCommand)&commandParity == 0
		d.mu.Lock()
		d.needsInit = false
		d.mu.Unlock()
	default:
		return syscall.EINVAL
	}
	d.mu.Lock()
	d.wake.Broadcast()
	d.mu.Unlock()
	out := kabi.ResetDeviceOut{OutputSizeBytes: uint32(kabi.Size[kabi.ResetDeviceOut]())}
	if !success {
		out.Result = 1
	}
	return answer(rest, in.OutputSizeBytes, &out)
}

func (d *device) resetFunction() bool {
	if d.faults.stuckReset.Load() {
		return false
	}
	r, ok := d.fn.(Resetter)
	return ok && r.Reset() == nil
}

func (d *device) zapSince27Locked() {
	if d.cfg.Version.atLeast(7) {
		d.zapLocked()
	}
}

// invalidate precedes modes 2 to 5: a new generation, and mappings are zapped. From 2.10 on it
// releases stale files' windows and outbound regions, which the reset wipes in hardware (tt-kmd
// memory.c, tenstorrent_reset_reclaim_iatus).
func (d *device) invalidate(by *file, window bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cfg.Version.atLeast(6) {
		d.gen++
	}
	d.zapSince27Locked()
	if d.cfg.Version.atLeast(10) {
		by.gen = d.gen
		for f := range d.files {
			if f.gen != d.gen {
				d.reclaim(f)
			}
		}
	}
	if window {
		d.needsInit = true
	}
}

func (d *device) reclaim(f *file) {
	d.freeWindowsLocked(f)
	for _, p := range f.pins {
		d.iatu.unmapOutbound(nil, &p.region)
	}
	for _, b := range f.bufs {
		d.iatu.unmapOutbound(nil, &b.region)
	}
}
