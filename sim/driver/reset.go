package driver

import (
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

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
