//go:build linux && (amd64 || arm64 || riscv64)

package mpi

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	signals    = 64
	sigsetSize = signals / 8 // of the kernel's sigset_t, in bytes
)

// actions is what the process does for each signal: the kernel's struct sigaction, of at most four
// words.
type actions [signals + 1]struct {
	words [4]uint64
	saved bool
}

func saveSignals() *actions {
	var a actions
	for s := 1; s <= signals; s++ {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), 0, uintptr(unsafe.Pointer(&a[s].words)), sigsetSize, 0, 0)
		a[s].saved = e == 0
	}
	return &a
}

func (a *actions) restore() {
	for s := range a {
		if a[s].saved && s != int(unix.SIGKILL) && s != int(unix.SIGSTOP) {
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&a[s].words)), 0, sigsetSize, 0, 0)
		}
	}
}
