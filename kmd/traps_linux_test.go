package kmd

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Trap 7.1: no child process inherits the device, and its descriptor isn't reused while a request
// runs.
func TestSystemFilesAreOurs(t *testing.T) {
	name := t.TempDir() + "/0"
	must(t, os.WriteFile(name, make([]byte, 4096), 0o600))
	f := value(systemNode(name).Open(syscall.O_APPEND | syscall.O_NONBLOCK))(t)
	fd := value(f.(*systemFile).Descriptor())(t)
	if v, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || v&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v: children inherit it", v, err)
	}
	if v, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || v&unix.O_APPEND == 0 || v&unix.O_ACCMODE != unix.O_RDWR {
		t.Errorf("file flags %#x, %v", v, err)
	}
	m := value(f.Mmap(0, 4096))(t)
	must(t, m.Unmap())
	must(t, f.Close())
	if _, err := f.(*systemFile).Descriptor(); err != unix.EBADF {
		t.Errorf("after close: %v", err)
	}
	if err := f.Ioctl(0, nil); err != unix.EBADF {
		t.Errorf("request after close: %v", err)
	}
	if _, err := f.Mmap(0, 4096); err != unix.EBADF {
		t.Errorf("mmap after close: %v", err)
	}
	if err := f.Close(); err != unix.EBADF {
		t.Errorf("close again: %v", err)
	}
}
