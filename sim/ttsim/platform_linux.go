//go:build linux && (amd64 || arm64 || riscv64)

package ttsim

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newSharedFile makes the memory that both processes map. It has no name in any file system, so nothing is left
// behind however the processes end.
func newSharedFile() (*os.File, error) {
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

func mapShared(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != sharedBytes {
		return nil, fmt.Errorf("%w: %d bytes of shared memory, want %d", ErrProtocol, st.Size(), sharedBytes)
	}
	return unix.Mmap(int(f.Fd()), 0, sharedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmapShared(mem []byte) error { return unix.Munmap(mem) }

// serverAttributes puts the server in a process group of its own, so that an interrupt from the terminal ends it
// through its parent and not behind the parent's back.
func serverAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
