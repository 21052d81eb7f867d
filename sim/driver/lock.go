package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

func (f *file) lockCtl(arg []byte) error {
	var in kabi.LockCtlIn
	rest, ok := take(arg, &in)
	if !ok {
		return syscall.EFAULT
	}
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
		if !d.cfg.Version.atLeast(2, 7) {
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

// awaitLocked waits for a lock as acquire_resource_lock_blocking does: without keeping resets away, and until the device
// is lost for this file. d.mu is held before and after.
func (f *file) awaitLocked(i uint8) error {
	d := f.dev
	signals := f.proc.signals.Load()
	for !d.detached && d.gen == f.gen {
		if f.killed {
			return syscall.EINTR // the signal came before this waited
		}
		if d.locks[i] == nil {
			d.locks[i] = f
			return nil
		}
		d.reset.RUnlock()
		d.wake.Wait()
		// Retaking the reader lock while a reset waits for d.mu would be a deadlock, so in the order reset, mu.
		d.mu.Unlock()
		d.reset.RLock()
		d.mu.Lock()
		if f.proc.signals.Load() != signals {
			return syscall.EINTR
		}
	}
	return syscall.ENODEV
}
