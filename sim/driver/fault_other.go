//go:build unix && !linux

package driver

import "golang.org/x/sys/unix"

// faultPage maps a page that may not be read.
func faultPage() []byte {
	b, err := unix.Mmap(-1, 0, int(pageSize()), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}
