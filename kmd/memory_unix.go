//go:build unix

package kmd

import (
	"os"

	"golang.org/x/sys/unix"
)

func hostPage() uint64 { return uint64(os.Getpagesize()) }

// mapMemory maps zeroed memory outside of Go's heap; a negative node is any NUMA node.
func mapMemory(size, page, node int) ([]byte, error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANON
	if page > int(hostPage()) {
		h, ok := hugeFlags(page)
		if !ok {
			return nil, unix.ENOTSUP
		}
		flags |= h
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, err
	}
	if err := settle(mem, page, node); err != nil {
		_ = unix.Munmap(mem) // the first error is the one to report
		return nil, err
	}
	return mem, nil
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }
