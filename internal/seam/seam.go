// Package seam is the boundary between Reprise and an operating system's Tenstorrent driver: open,
// ioctl, mmap, close. Package kmd is written against it. Linux with tt-kmd is one implementation,
// the model of that driver in sim/driver is the other, and nothing above kmd can tell which one it
// runs on.
//
// The package is internal on purpose: a test seam that is exported becomes API.
package seam

import (
	"sync"
	"syscall"
)

// Node is a device node that can be opened, such as /dev/tenstorrent/0 or an emulated card.
type Node interface {
	// Open opens the node with open(2) flags (O_RDWR is implied by every caller). Errors are
	// syscall.Errno values, possibly wrapped.
	Open(flags int) (File, error)
	// String names the node in errors and reports.
	String() string
}

// File is an open device node. Its methods may be called from any goroutine.
type File interface {
	// Ioctl performs request req on arg, a struct of the driver's header as bytes; the driver reads
	// and writes arg in place. Errors are syscall.Errno values, possibly wrapped.
	Ioctl(req uint32, arg []byte) error
	// Mmap maps length bytes at a driver-defined offset, shared, readable and writable.
	Mmap(offset uint64, length int) (Mapping, error)
	// Close drops the descriptor. As with a real driver, resources live on while a mapping does.
	Close() error
	// Fault returns why the file's device stopped, if the implementation knows (an emulator that
	// refused what silicon leaves undefined, a simulator that aborted). On silicon it is always
	// nil.
	Fault() error
}

// Mapping is the result of File.Mmap. Exactly one of Mem and IO is set.
type Mapping struct {
	// Mem is plain memory: a BAR of a real card, or a DMA buffer.
	Mem []byte
	// IO receives each access where a mapping must see accesses instead of memory.
	IO MMIO
	// Unmap ends the mapping. Neither Mem nor IO may be used afterwards.
	Unmap func() error
}

// UnmapOnce returns an Unmap that does what unmap does, and is EINVAL from then on.
func UnmapOnce(unmap func() error) func() error {
	var once sync.Once
	return func() error {
		err := error(syscall.EINVAL)
		once.Do(func() { err = unmap() })
		return err
	}
}

// MappingFault is the value with which an access to an MMIO panics after the driver has taken the
// mapping away. An MMIO has no address by which such a fault could be told from others.
type MappingFault interface {
	error
	// OfMapping distinguishes it from other errors.
	OfMapping()
}

// MMIO is device memory whose every access is observed. Offsets are in bytes from the start of the
// mapping. No method allocates.
type MMIO interface {
	// Load performs one load of width 1, 2, 4 or 8 bytes at an offset aligned to it.
	Load(off uint64, width int) uint64
	// Store performs one store of width 1, 2, 4 or 8 bytes at an offset aligned to it. It is
	// posted: it may return before the device has seen the store, but later accesses through the
	// same mapping don't overtake it.
	Store(off uint64, width int, v uint64)
	// Read and Write move bulk data; the implementation chooses the width of accesses.
	Read(off uint64, p []byte)
	Write(off uint64, p []byte)
}
