//go:build unix

package kmd

import "golang.org/x/sys/unix"

// mapMemory maps zeroed memory that the Go runtime doesn't manage.
func mapMemory(size int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	keepFromChildren(mem)
	return mem, nil
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }
