//go:build !linux

package driver

import "golang.org/x/sys/unix"

// checkPages can't tell what is mapped on this system; a device's access to memory that isn't
// becomes an error then.
func checkPages(va, size uint64, write bool) error { return nil }

// pageSizeAt knows of no huge pages on this system.
func pageSizeAt(va uint64) uint64 { return pageSize() }

// holdPages uses the caller's mapping: pins end with it.
func holdPages(va, size uint64) hostPages { return hostPages{addr: va, size: size} }

// newMemoryFile returns no file: the memory is this process's alone.
func newMemoryFile(uint64) (fd, flags int) { return -1, unix.MAP_ANON | unix.MAP_PRIVATE }

// faultPage maps a page that may not be read.
func faultPage() []byte {
	b, err := unix.Mmap(-1, 0, int(pageSize()), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}
