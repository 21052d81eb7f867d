package kmd

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/dustin/go-humanize"

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
		return d.note(errors.Join(d.explainPin(err, len(m.mem), nil), old))
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
	return errors.Join(m.dev.note(m.unpin()), m.unmap())
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

// PinConfig describes the memory to pin.
type PinConfig struct {
	// Size in bytes is rounded up to whole pages.
	Size int
	// Memory, if not nil, is pinned instead: whole pages mmap'ed by the caller, who unmaps them
	// after Close.
	Memory []byte
	// Chunk is how many bytes to pin at a time, rounded up to whole pages; 0 is all at once. Each
	// takes one of 16 outbound regions, and is at most a huge page without an IOMMU.
	Chunk    int
	Progress func(pinned, total int)

	readOnly bool // the device can't write the memory
}

const (
	hugePage1G = 1 << 30
	hugePage2M = 2 << 20
)

// Pin makes memory reachable for the device at consecutive NoC addresses. New memory is in huge
// pages if there are any, on the card's NUMA node. The error matches ErrOutOfRange for a size
// beyond what the device can address, ErrNotContiguous without a translating IOMMU and enough huge
// pages, and ErrBusy if all regions or addresses are taken.
func (d *Device) Pin(c PinConfig) (*HostMemory, error) {
	m, err := d.pin(c)
	return m, d.opError(err, "pin %s of host memory", humanize.IBytes(uint64(max(c.Size, 0))))
}

func (d *Device) pin(c PinConfig) (*HostMemory, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	page := int(hostPage())
	if c.Memory != nil {
		if len(c.Memory) == 0 || len(c.Memory)%page != 0 || addressOf(c.Memory)%uint64(page) != 0 {
			return nil, fmt.Errorf("%w: %d B of memory: give whole pages of %d B", ErrMisaligned, len(c.Memory), page)
		}
		if onHeap(addressOf(c.Memory)) {
			return nil, errors.New("memory of Go's heap, which the runtime may use for something else: give memory of unix.Mmap, or none")
		}
		c.Size = len(c.Memory)
	}
	if c.Size <= 0 || uint64(c.Size) > d.params.PCI.NOCSize {
		return nil, fmt.Errorf("%w: size %d, want 1 to %s", ErrOutOfRange, c.Size,
			humanize.IBytes(d.params.PCI.NOCSize))
	}
	round := func(n, to int) int { return (n + to - 1) &^ (to - 1) }
	size := round(c.Size, page)
	chunk := size
	if c.Chunk > 0 {
		chunk = round(min(c.Chunk, size), page)
	}
	if c.Memory != nil {
		m := &HostMemory{dev: d, mem: c.Memory[:size:size]}
		if err := d.pinChunks(m, chunk, c); err != nil {
			return nil, d.explainPin(err, size, nil)
		}
		return d.keep(m)
	}
	var missing []string
	var regions error // outbound regions ran out
	for _, class := range []int{hugePage1G, hugePage2M, page} {
		if class > page && size < class {
			continue
		}
		huge := fmt.Sprintf("%d huge pages of %s", (size+class-1)/class, humanize.IBytes(uint64(class)))
		mem, err := d.mapMemory(round(size, class), class, d.numa)
		if err != nil {
			if class == page {
				return nil, fmt.Errorf("map %s: %w", humanize.IBytes(uint64(size)), err)
			}
			missing = append(missing, fmt.Sprintf("%s (%v)", huge, err))
			continue
		}
		m := &HostMemory{dev: d, whole: mem, mem: mem[:size:size]}
		err = d.pinChunks(m, chunk, c)
		if errors.Is(err, syscall.EINVAL) && chunk > class && class > page {
			err = d.pinChunks(m, class, c)
		}
		if err == nil {
			return d.keep(m)
		}
		err = errors.Join(d.explainPin(err, size, missing), unmapMemory(mem))
		switch {
		case class == page && regions != nil && errors.Is(err, ErrNotContiguous):
			return nil, regions // enough huge pages, too few regions
		case class == page || !errors.Is(err, ErrNotContiguous) && !errors.Is(err, syscall.ENOSPC):
			return nil, err
		case errors.Is(err, syscall.ENOSPC):
			regions = fmt.Errorf("%s: %w", huge, err)
		}
	}
	panic("kmd: no class of pages") // unreachable: the last class always returns
}

func (d *Device) keep(m *HostMemory) (*HostMemory, error) {
	m.noc = m.pins[0].noc
	m.name = fmt.Sprintf("host memory of %s at %#x", humanize.IBytes(uint64(len(m.mem))), m.noc)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory == nil {
		return nil, errors.Join(ErrClosed, m.unpinAndUnmap())
	}
	d.memory[m] = struct{}{}
	return m, nil
}

type pinnedRange struct {
	off, size int
	noc       uint64
}

// pinChunks relies on the driver's choice of the lowest gap; if the chunks aren't adjacent, it
// tries the highest addresses, last chunk first.
func (d *Device) pinChunks(m *HostMemory, chunk int, c PinConfig) error {
	m.chunk, m.config = chunk, c
	m.config.Progress = nil
	err := d.pinUp(m, chunk, c, false)
	if errors.Is(err, errScattered) {
		err = d.pinUp(m, chunk, c, true)
	}
	return err
}

var errScattered = fmt.Errorf("%w: other users' memory lies between the chunks", ErrBusy)

func (d *Device) pinUp(m *HostMemory, chunk int, c PinConfig, topDown bool) error {
	total := len(m.mem)
	flags := uint32(kabi.PinPagesNOCDMA)
	if topDown {
		flags = kabi.PinPagesNOCDMA | kabi.PinPagesNOCTopDown
	}
	if c.readOnly {
		flags |= kabi.PinPagesReadOnly
	}
	n, done := (total+chunk-1)/chunk, 0
	for i := range n {
		at := i
		if topDown {
			at = n - 1 - i
		}
		p := pinnedRange{off: at * chunk, size: min(chunk, total-at*chunk)}
		a := kabi.PinPagesExtended{In: kabi.PinPagesIn{
			Flags:          flags,
			VirtualAddress: addressOf(m.mem) + uint64(p.off),
			Size:           uint64(p.size),
		}}
		err := ioctl(d.file, kabi.IoctlPinPages, &a)
		if err == nil {
			p.noc = a.Out.NOCAddress
			m.pins = append(m.pins, p)
			if first := m.pins[0]; p.noc-first.noc != uint64(p.off-first.off) {
				err = errScattered
			}
		}
		if err != nil {
			return errors.Join(err, m.unpin())
		}
		if done += p.size; c.Progress != nil {
			c.Progress(done, total)
		}
	}
	if topDown {
		slices.Reverse(m.pins)
	}
	return nil
}

func (d *Device) explainPin(err error, size int, missing []string) error {
	switch {
	case errors.Is(err, ErrBusy):
		return err
	case errors.Is(err, syscall.EINVAL) && size > int(hostPage()):
		huge := ""
		if len(missing) > 0 {
			huge = fmt.Sprintf(", or give the kernel huge pages, of which it lacks %v: "+
				"echo N > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, or hugepagesz=1G hugepages=N on its "+
				"command line", missing)
		}
		return fmt.Errorf("%w (%w): let the IOMMU translate (in the machine's firmware, and without iommu=pt on the "+
			"kernel's command line)%s, or pin at most %s at a time", ErrNotContiguous, err, huge, humanize.IBytes(hostPage()))
	case errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: read-only pins need an IOMMU that translates (%w)", ErrNotContiguous, err)
	case errors.Is(err, syscall.EFAULT):
		return fmt.Errorf("%w: this memory can't be pinned: want anonymous memory of this process (%w)", ErrOutOfRange, err)
	case errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("%w: the range is pinned already by this device (%w)", ErrBusy, err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: all %d outbound regions of the device are in use%s (%w)", ErrBusy, kabi.MaxIATURegions,
			d.otherHolders(), err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: no room for the range among the addresses that the device reaches%s (%w)", ErrBusy,
			d.otherHolders(), err)
	}
	return d.note(err)
}
