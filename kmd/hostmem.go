package kmd

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// HostMemory is memory of this process that the device reaches over its NoC. Its bytes are ordinary memory: shared
// words must be accessed with sync/atomic, and data is published by the store of a word or by a doorbell.
type HostMemory struct {
	dev    *Device
	mem    []byte
	noc    uint64
	phys   uint64
	name   string
	origin string
}

// PinHostMemory maps size bytes, rounded up to whole pages and zeroed, and makes them reachable for the device. The
// memory is not of Go's heap, whose pages move between uses. The error matches ErrNotContiguous if there is no
// translating IOMMU and size is more than a page, and ErrBusy if all outbound regions or addresses of the device are
// taken.
func (d *Device) PinHostMemory(size int) (*HostMemory, error) {
	m, err := d.pin(size)
	if err != nil {
		return nil, d.opError(fmt.Sprintf("pin %s of host memory", humanize.IBytes(uint64(max(size, 0)))), err)
	}
	m.origin = d.origin()
	return m, nil
}

func (d *Device) pin(size int) (*HostMemory, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	page := int(hostPage())
	if size <= 0 || size > 1<<62 {
		return nil, fmt.Errorf("%w: size %d, want a positive number of bytes", ErrOutOfRange, size)
	}
	size = (size + page - 1) &^ (page - 1)
	mem, err := mapMemory(size)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", humanize.IBytes(uint64(size)), err)
	}
	var a kabi.PinPagesExtended
	a.In = kabi.PinPagesIn{
		OutputSizeBytes: uint32(kabi.Size[kabi.PinPagesOutExtended]()),
		Flags:           kabi.PinPagesNOCDMA,
		VirtualAddress:  addressOf(mem),
		Size:            uint64(size),
	}
	if err := ioctl(d.file, kabi.IoctlPinPages, kabi.Bytes(&a)); err != nil {
		return nil, errors.Join(d.explainPin(err, size), unmapMemory(mem))
	}
	m := &HostMemory{dev: d, mem: mem, noc: a.Out.NOCAddress, phys: a.Out.PhysicalAddress,
		name: fmt.Sprintf("host memory of %s at %#x", humanize.IBytes(uint64(size)), a.Out.NOCAddress)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory == nil {
		return nil, errors.Join(ErrClosed, m.unpinAndUnmap())
	}
	d.memory[m] = struct{}{}
	return m, nil
}

// explainPin says what an errno of pinning means and what to do about it.
func (d *Device) explainPin(err error, size int) error {
	switch {
	case errors.Is(err, syscall.EINVAL) && size > int(hostPage()):
		return fmt.Errorf("%w (%w): turn the IOMMU on and leave it translating (in the firmware, and without iommu=pt "+
			"on the kernel's command line), or pin at most %s at a time", ErrNotContiguous, err, humanize.IBytes(hostPage()))
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: all %d outbound regions of the device are in use, by the processes in "+
			"/proc/driver/tenstorrent/*/pids (%w)", ErrBusy, kabi.MaxIATURegions, err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: no room for the range among the addresses that the device reaches (%w)", ErrBusy, err)
	}
	return d.note(err)
}

// Bytes is the memory: page-aligned, until Close.
func (m *HostMemory) Bytes() []byte { return m.mem }

// NOCAddr is the address of the memory's first byte in the device's PCIe tile (chip.Chip.PCIe).
func (m *HostMemory) NOCAddr() uint64 { return m.noc }

// String names the memory.
func (m *HostMemory) String() string { return m.name }

// Close unpins and unmaps the memory. The device must not access it any more: without an IOMMU nothing would stop it.
// Closing it again does nothing.
func (m *HostMemory) Close() error {
	d := m.dev
	d.mu.Lock()
	_, live := d.memory[m]
	delete(d.memory, m)
	d.mu.Unlock()
	if !live {
		return nil
	}
	if err := m.release(); err != nil {
		return d.opError("unpin "+m.name, err)
	}
	return nil
}

func (m *HostMemory) release() error {
	if err := m.unpinAndUnmap(); err != nil && !m.dev.lost.Load() {
		return err
	}
	return nil
}

// unpinAndUnmap ends the pin before the mapping. A pin outlives its mapping, so memory of a file that can't unpin any
// more (a reset made it stale) is unmapped all the same: the kernel keeps the pages until the file closes.
func (m *HostMemory) unpinAndUnmap() error {
	u := kabi.UnpinPages{In: kabi.UnpinPagesIn{VirtualAddress: addressOf(m.mem), Size: uint64(len(m.mem))}}
	err := ioctl(m.dev.file, kabi.IoctlUnpinPages, kabi.Bytes(&u))
	if err != nil {
		err = m.dev.note(err)
	}
	mem := m.mem
	m.mem = nil
	return errors.Join(err, unmapMemory(mem))
}
