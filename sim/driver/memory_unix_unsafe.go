//go:build unix

package driver

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// newPages returns zeroed memory of the driver's own.
func newPages(size uint64) (hostPages, error) {
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return hostPages{}, err
	}
	addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	return hostPages{addr: addr, size: size, unmap: func() { _ = unix.Munmap(b) }}, nil
}

// busError raises the fault that an access to a zapped mapping raises.
func busError() {
	p := faultPage()
	defer func() { _ = unix.Munmap(p) }()
	loaded := *(*byte)(unsafe.Pointer(unsafe.SliceData(p)))
	panic(loaded) // unreachable: the load faults
}
