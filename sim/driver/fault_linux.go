package driver

import "golang.org/x/sys/unix"

// faultPage maps a page beyond the end of a file: SIGBUS with BUS_ADRERR, exactly what a zapped mapping gives.
func faultPage() []byte {
	fd, err := unix.MemfdCreate("zapped", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	b, err := unix.Mmap(fd, 0, int(pageSize()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return b
}
