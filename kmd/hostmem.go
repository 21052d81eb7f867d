package kmd

import (
	"errors"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
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
