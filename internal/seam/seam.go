// Package seam is the boundary between Reprise and an operating system's Tenstorrent driver: open,
// ioctl, mmap, close. Linux with tt-kmd and the model of that driver in sim/driver implement it. It
// is internal, since an exported test seam becomes API.
package seam

import (
	"sync"
	"syscall"
)

// Node is a device node that can be opened, such as /dev/tenstorrent/0 or an emulated card.
type Node interface {
	// Open opens the node with open(2) flags (O_RDWR is implied). Errors wrap syscall.Errno.
	Open(flags int) (File, error)
	String() string
}

// File is an open device node. Its methods may be called from any goroutine.
type File interface {
	// Ioctl performs request req on arg, a struct of the driver's header, in place. Errors wrap
	// syscall.Errno.
	Ioctl(req uint32, arg []byte) error
	// Mmap maps length bytes at a driver-defined offset, shared, readable and writable.
	Mmap(offset uint64, length int) (Mapping, error)
	// Close drops the descriptor. As with a real driver, resources live on while a mapping does.
	Close() error
	// Fault returns why an emulator or simulator stopped; nil on silicon.
	Fault() error
}

// Mapping is the result of File.Mmap.
type Mapping struct {
	// Mem is plain memory: a BAR of a real card, or a DMA buffer.
	Mem []byte
	// IO receives each access where a mapping must see accesses instead of memory.
	IO MMIO
	// Unmap ends the use of Mem and IO.
	Unmap func() error
}

// UnmapOnce returns an Unmap that calls unmap, and is EINVAL from then on.
func UnmapOnce(unmap func() error) func() error {
	var once sync.Once
	return func() error {
		err := error(syscall.EINVAL)
		once.Do(func() { err = unmap() })
		return err
	}
}

// MappingFault is the value with which an access to an MMIO panics after the driver has taken the
// mapping away; an MMIO has no address to tell it by.
type MappingFault interface {
	error
	OfMapping()
}

// MMIO is device memory whose every access is observed, at offsets in bytes from the start of the
// mapping. No method allocates.
type MMIO interface {
	// Load performs one load of width 1, 2, 4 or 8 bytes at an offset aligned to it.
	Load(off uint64, width int) uint64
	// Store performs one store of width 1, 2, 4 or 8 bytes at an aligned offset. It is posted, but
	// later accesses through the same mapping don't overtake it.
	Store(off uint64, width int, v uint64)
	// Bulk data, by accesses of any width.
	Read(off uint64, p []byte)
	Write(off uint64, p []byte)
}
