//go:build linux && (amd64 || arm64 || riscv64)

package link

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewFile makes the memory that both processes map. It has no name in any file system, so nothing is left behind
// however the processes end.
func NewFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("reprise-ttsim", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "reprise-ttsim")
	if err := f.Truncate(sharedBytes); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Map maps the memory, for New.
func Map(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != sharedBytes {
		return nil, fmt.Errorf("%d bytes of shared memory, want %d", st.Size(), sharedBytes)
	}
	return unix.Mmap(int(f.Fd()), 0, sharedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Unmap ends what Map began. Nothing of the Shared may be used any more.
func Unmap(mem []byte) error { return unix.Munmap(mem) }

// ServerAttributes puts the server in a process group of its own, so that an interrupt from the terminal ends it
// through its parent and not behind the parent's back.
func ServerAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
