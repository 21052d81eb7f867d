//go:build !linux

package driver

import "golang.org/x/sys/unix"

func checkPages(va, size uint64, write bool) error { return nil }
func pageSizeAt(uint64) uint64                     { return pageSize() }
func holdPages(va, size uint64) hostPages          { return hostPages{addr: va, size: size} }
func newMemoryFile(uint64) (fd, flags int)         { return -1, unix.MAP_ANON | unix.MAP_PRIVATE }

func faultPage() []byte {
	b, err := unix.Mmap(-1, 0, int(pageSize()), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}
