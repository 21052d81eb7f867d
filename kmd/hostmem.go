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

// HostMemory is memory of this process that the device reaches over its NoC. Access shared words
// with sync/atomic; a word's store publishes earlier data.
type HostMemory struct {
	dev    *Device
	whole  []byte // the mapping, in whole huge pages; nil for the caller's memory
	mem    []byte
	pins   []pinnedRange
	chunk  int       // bytes in each pin but the last
	config PinConfig // for Repin
	noc    uint64
	name   string
}

// PinHostMemory is Pin of size zeroed bytes, rounded up to whole pages.
func (d *Device) PinHostMemory(size int) (*HostMemory, error) {
	return d.Pin(PinConfig{Size: size})
}

// Bytes returns the memory, page-aligned, until Close.
func (m *HostMemory) Bytes() []byte { return m.mem }

// NOCAddr returns the memory's address in the device's PCIe tile (chip.Chip.PCIe).
func (m *HostMemory) NOCAddr() uint64 { return m.noc }

func (m *HostMemory) String() string { return m.name }

// Close unpins and unmaps the memory, which the device must not access any more: without an IOMMU
// nothing stops it. Further calls do nothing.
func (m *HostMemory) Close() error {
	d := m.dev
	d.mu.Lock()
	_, live := d.memory[m]
	_, stale := d.stale[m]
	delete(d.memory, m)
	delete(d.stale, m)
	d.mu.Unlock()
	var err error
	switch {
	case live:
		err = m.release()
	case stale:
		err = m.unmap() // Recover closed the file of the pins
	}
	return d.opError(err, "unpin %s", m.name)
}

// Repin pins the memory again, with its contents, after a Recover or a reset. The NoC address may
// change. After a failure it can be called again. The error is one of Pin, or matches ErrClosed.
func (m *HostMemory) Repin() error {
	return m.dev.opError(m.repin(), "pin %s again", m.name)
}

func (m *HostMemory) repin() error {
	d := m.dev
	if err := d.usable(); err != nil {
		return d.note(err)
	}
	d.mu.Lock()
	_, live := d.memory[m]
	_, stale := d.stale[m]
	if live {
		delete(d.memory, m)
		d.stale[m] = struct{}{}
	}
	d.mu.Unlock()
	if !live && !stale {
		return ErrClosed
	}
	var old error
	if live {
		old = m.unpin() // reported only if pinning fails too
	}
	if err := d.pinChunks(m, m.chunk, m.config); err != nil {
		return d.note(errors.Join(d.explainPin(err, len(m.mem), int(hostPage()), nil), old))
	}
	d.mu.Lock()
	delete(d.stale, m)
	d.mu.Unlock()
	_, err := d.keep(m)
	return err
}

// A lost device's memory can't be unpinned and needn't be.
func (m *HostMemory) release() error {
	if err := m.unpinAndUnmap(); err != nil && m.dev.Lost() == nil {
		return err
	}
	return nil
}

// If a reset made the file stale, the kernel keeps the pinned pages until it closes.
func (m *HostMemory) unpinAndUnmap() error {
	err := m.unpin()
	if err != nil {
		err = m.dev.note(err)
	}
	return errors.Join(err, m.unmap())
}

// The driver wants exactly the pinned ranges.
func (m *HostMemory) unpin() error {
	var errs []error
	for _, p := range m.pins {
		u := kabi.UnpinPages{In: kabi.UnpinPagesIn{VirtualAddress: addressOf(m.mem) + uint64(p.off), Size: uint64(p.size)}}
		if err := ioctl(m.dev.file, kabi.IoctlUnpinPages, &u); err != nil {
			errs = append(errs, err)
			if errors.Is(err, syscall.ENODEV) {
				break
			}
		}
	}
	m.pins = nil
	return errors.Join(errs...)
}

func (m *HostMemory) unmap() error {
	mem := m.whole
	m.mem, m.whole, m.config.Memory = nil, nil, nil
	if mem == nil {
		return nil // the caller's
	}
	return unmapMemory(mem)
}

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
