package kmd

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// DMABuffer is physically contiguous kernel memory, of at most 256 MiB, that the device reaches
// over its NoC without an IOMMU or huge pages. Without a reserve (cma= on the kernel's command
// line) there are often only a few MiB. It is freed with the Device.
type DMABuffer struct {
	dev       *Device
	mapping   seam.Mapping
	noc, phys uint64

	once sync.Once
}

// AllocateDMABuffer has the driver allocate and map size bytes, rounded up to whole pages; at most
// 256 buffers per device. The error matches ErrOutOfRange for an impossible size, and ErrBusy
// without enough contiguous memory or addresses.
func (d *Device) AllocateDMABuffer(size int) (*DMABuffer, error) {
	b, err := d.allocateDMABuffer(size)
	return b, d.opError(err, "allocate %s in the kernel", humanize.IBytes(uint64(max(size, 0))))
}

func (d *Device) allocateDMABuffer(size int) (*DMABuffer, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	page := int(hostPage())
	if size <= 0 || size > 1<<kabi.MaxDMABufLog2 {
		return nil, fmt.Errorf("%w: size %d, want 1 to %s", ErrOutOfRange, size, humanize.IBytes(1<<kabi.MaxDMABufLog2))
	}
	size = (size + page - 1) &^ (page - 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.windows == nil {
		return nil, ErrClosed
	}
	if d.buffers >= kabi.MaxDMABufs {
		return nil, fmt.Errorf("%w: all %d buffers of this file are used", ErrBusy, kabi.MaxDMABufs)
	}
	a := kabi.AllocateDMABuf{In: kabi.AllocateDMABufIn{
		RequestedSize: uint32(size), BufIndex: uint8(d.buffers), Flags: kabi.AllocateDMABufNOCDMA,
	}}
	switch err := ioctl(d.file, kabi.IoctlAllocateDMABuf, &a); {
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("%w: the kernel lacks contiguous memory, or the device outbound regions: ask for less, or reserve "+
			"memory with cma= on the kernel's command line (%w)", ErrBusy, err)
	case err != nil:
		return nil, d.note(err)
	}
	d.buffers++
	m, err := d.mmap(a.Out.MappingOffset, size)
	if err != nil {
		return nil, d.note(err)
	}
	b := &DMABuffer{dev: d, mapping: m, noc: a.Out.NOCAddress, phys: a.Out.PhysicalAddress}
	d.mapped[b] = struct{}{}
	return b, nil
}

// Bytes returns the memory, until Close. Don't touch it once the device is lost: the driver frees a
// removed card's buffers.
func (b *DMABuffer) Bytes() []byte { return b.mapping.Mem }

// NOCAddr returns the buffer's address in the device's PCIe tile.
func (b *DMABuffer) NOCAddr() uint64 { return b.noc }

// BusAddr returns the buffer's address for the PCI device itself.
func (b *DMABuffer) BusAddr() uint64 { return b.phys }

// Close unmaps the buffer, which the device can access until the Device is closed.
func (b *DMABuffer) Close() error {
	var err error
	b.once.Do(func() {
		err = b.mapping.Unmap()
		b.mapping = seam.Mapping{}
		b.dev.mu.Lock()
		delete(b.dev.mapped, b)
		b.dev.mu.Unlock()
	})
	return b.dev.opError(err, "unmap a kernel buffer")
}
