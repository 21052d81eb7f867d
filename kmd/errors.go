package kmd

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrNoDevice: the card is absent, or the driver isn't loaded.
	ErrNoDevice = errors.New("no such device")
	// ErrPermission: this user may not open the node.
	ErrPermission = errors.New("no permission for the device")
	// ErrNotDevice: the path isn't a node of Tenstorrent's driver.
	ErrNotDevice = errors.New("not a Tenstorrent device")
	// ErrUnsupportedArch: an *UnknownDeviceError names the PCI device.
	ErrUnsupportedArch = errors.New("unsupported architecture")
	// ErrDriverTooOld: the loaded driver lacks something; tt-kmd 2.0.0 has the minimum.
	ErrDriverTooOld = errors.New("kernel driver too old")
	// ErrUnsupportedSystem: the operating system has no Tenstorrent driver.
	ErrUnsupportedSystem = errors.New("no Tenstorrent driver on this operating system")
	// ErrDeviceLost: the device was reset by another process, removed, fell off the bus, or its
	// simulator stopped. It stays lost until Recover. A *LostError says what showed it.
	ErrDeviceLost = errors.New("device lost")
	// ErrBusy: a shared resource (TLB windows, outbound regions, an exclusive opener) is taken.
	ErrBusy = errors.New("device busy")
	// ErrClosed: the Device, Window or HostMemory was closed before.
	ErrClosed = errors.New("already closed")
	// ErrMisaligned: an address, offset or length isn't a multiple of what the operation needs.
	ErrMisaligned = errors.New("misaligned")
	// ErrOutOfRange: an access outside of its window, or an argument that hardware can't hold.
	ErrOutOfRange = errors.New("out of range")
	// ErrNotContiguous: without a translating IOMMU only a single page or huge page can be pinned.
	ErrNotContiguous = errors.New("memory is not physically contiguous and no IOMMU translates for the device")
	// ErrResetting: a reset waits for ResetPost. The device isn't lost: try again.
	ErrResetting = errors.New("a reset of the device isn't over")
	// ErrMulticastRead: a read through a multicast window, or a write of less than a word.
	ErrMulticastRead = errors.New("a multicast window can't be read")
	// ErrReset: after a reset the card didn't come back as it should.
	ErrReset = errors.New("reset failed")
	// ErrLinkDown: the Ethernet link to a chip without a PCI interface is down.
	ErrLinkDown = errors.New("the Ethernet link is down")
	// ErrFirmware: the card's management firmware didn't answer, or refused.
	ErrFirmware = errors.New("management firmware")
)

// OpError is the error of an operation on a device.
type OpError struct {
	Op   string // the operation, such as "open" or "pin 2.0 MiB"
	Path string // the device
	Err  error
}

func (e *OpError) Error() string { return fmt.Sprintf("kmd: %s: %s: %v", e.Path, e.Op, e.Err) }

func (e *OpError) Unwrap() error { return e.Err }

// UnknownDeviceError is an unknown PCI device. It matches ErrUnsupportedArch.
type UnknownDeviceError struct{ Vendor, Device uint16 }

func (e *UnknownDeviceError) Error() string {
	return fmt.Sprintf("PCI device %04x:%04x: want Tenstorrent's 1e52:401e (Wormhole) or 1e52:b140 (Blackhole)",
		e.Vendor, e.Device)
}

func (e *UnknownDeviceError) Unwrap() error { return ErrUnsupportedArch }

// LostError matches ErrDeviceLost. Until Recover, later calls on the device return the first one.
type LostError struct {
	// Found is what showed it; empty if an emulator or simulator stopped and says why in Err.
	Found string
	Err   error // also of the driver, or nil
}

func (e *LostError) Error() string {
	s := ErrDeviceLost.Error()
	if e.Found != "" {
		s += ": " + e.Found
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrDeviceLost.
func (e *LostError) Is(target error) bool { return target == ErrDeviceLost }

func (e *LostError) Unwrap() error { return e.Err }

const wasReset = "it was reset or removed since it was opened"

func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENODEV):
		return &LostError{wasReset, err}
	case errors.Is(err, syscall.EBADF):
		return fmt.Errorf("%w (%w)", ErrClosed, err)
	}
	return err
}

func classifyOpen(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV),
		errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w (%w): is the card in the machine (lspci -d 1e52:) and the driver loaded "+
			"(modprobe tenstorrent)?", ErrNoDevice, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w (%w): install the driver's udev rule (mode 0666), join the group that owns the node, "+
			"or give the container the node with \"rw\"", ErrPermission, err)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w (%w)", ErrNotDevice, err)
	}
	return err
}
