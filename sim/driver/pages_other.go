//go:build !linux

package driver

import "golang.org/x/sys/unix"

// checkPages can't know on this system; a device's access to unmapped memory is an error then.
func checkPages(va, size uint64, write bool) error { return nil }

// pageSizeAt knows of no huge pages on this system.
func pageSizeAt(va uint64) uint64 { return pageSize() }

// holdPages uses the caller's mapping: pins end with it.
func holdPages(va, size uint64) hostPages { return hostPages{addr: va, size: size} }

// newMemoryFile returns no file.
func newMemoryFile(uint64) (fd, flags int) { return -1, unix.MAP_ANON | unix.MAP_PRIVATE }

// faultPage maps an inaccessible page.
func faultPage() []byte {
	b, err := unix.Mmap(-1, 0, int(pageSize()), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}
