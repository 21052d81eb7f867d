//go:build linux

package kmd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ioctl uses the blocking system call: a reset can take more than ten seconds.
func (f *systemFile) Ioctl(req uint32, arg []byte) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.fd < 0 {
		return unix.EBADF
	}
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(f.fd), uintptr(req), uintptr(unsafe.Pointer(unsafe.SliceData(arg))))
	if no != 0 {
		return no
	}
	return nil
}
