package kmd

import (
	"errors"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// HostMemory is memory of this process that the device reaches over its NoC. Its bytes are ordinary
// memory: shared words must be accessed with sync/atomic, and data is published by the store of a
// word or by a doorbell.
type HostMemory struct {
	dev    *Device
	whole  []byte // the mapping, in whole huge pages; nil if the memory is the caller's
	mem    []byte
	pins   []pinnedRange
	chunk  int       // bytes in each but the last
	config PinConfig // that it was pinned with
	noc    uint64
	phys   uint64
	name   string
	origin string
}

// PinHostMemory maps size bytes, rounded up to whole pages and zeroed, and makes them reachable for
// the device: Pin with nothing but a size.
func (d *Device) PinHostMemory(size int) (*HostMemory, error) {
	m, err := d.Pin(PinConfig{Size: size})
	if err != nil {
		return nil, err
	}
	m.origin = d.leaks.origin()
	return m, nil
}

// Bytes returns the memory, page-aligned, until Close.
func (m *HostMemory) Bytes() []byte { return m.mem }

// NOCAddr returns the address of the memory's first byte in the device's PCIe tile
// (chip.Chip.PCIe).
func (m *HostMemory) NOCAddr() uint64 { return m.noc }

// String names the memory.
func (m *HostMemory) String() string { return m.name }

// Close unpins and unmaps the memory. The device must not access it any more: without an IOMMU
// nothing would stop it. Closing it again does nothing.
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
		err = m.unmap() // Recover has ended its pins with the file that had them
	}
	if err != nil {
		return d.opError("unpin "+m.name, err)
	}
	return nil
}

// Repin pins the memory again, with its contents, after a Recover or a reset of the chip, which
// make pins invalid: see Device.Recover. The NoC address may change. If it fails, the memory stays
// mapped and unpinned, and Repin can be called again. The error is one of Pin, or matches
// ErrClosed.
func (m *HostMemory) Repin() error {
	d := m.dev
	err := d.usable() // Recover drops the pins of a lost device
	var live, stale bool
	if err == nil {
		d.mu.Lock()
		_, live = d.memory[m]
		_, stale = d.stale[m]
		if live {
			delete(d.memory, m)
			d.stale[m] = struct{}{}
		}
		d.mu.Unlock()
		if !live && !stale {
			err = ErrClosed
		}
	}
	if err == nil {
		var old error
		if live {
			old = m.unpin() // fails if the pins are gone already; then pinning works
		}
		if err = d.pinChunks(m, m.chunk, m.config); err != nil {
			err = errors.Join(d.explainPin(err, len(m.mem), int(hostPage()), nil), old)
		}
	}
	if err != nil {
		return d.opError("pin "+m.name+" again", d.note(err))
	}
	d.mu.Lock()
	delete(d.stale, m)
	d.mu.Unlock()
	if _, err := d.keep(m); err != nil {
		return d.opError("pin "+m.name+" again", err)
	}
	return nil
}

// release unpins and unmaps the memory; that of a lost device can't be unpinned and needn't be.
func (m *HostMemory) release() error {
	if err := m.unpinAndUnmap(); err != nil && !m.dev.lost.Load() {
		return err
	}
	return nil
}

// unpinAndUnmap ends the pins before the mapping. A pin outlives its mapping, so memory whose file
// can't unpin any more (a reset made it stale) is unmapped anyway: the kernel keeps the pages until
// the file closes.
func (m *HostMemory) unpinAndUnmap() error {
	err := m.unpin()
	if err != nil {
		err = m.dev.note(err)
	}
	return errors.Join(err, m.unmap())
}

// unpin ends the pins, each with exactly the range that was pinned.
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
