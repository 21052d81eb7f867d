//go:build unix

package driver

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// No child process inherits the pipe, whichever goroutine starts it.
func newPipe() (p [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(p[:]); err != nil {
		return p, err
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	return p, nil
}

func newDescriptor() (int, error) {
	p, err := newPipe()
	if err != nil {
		return -1, err
	}
	closeDescriptor(p[1])
	return p[0], nil
}

func closeDescriptor(fd int) { _ = unix.Close(fd) }

func isDescriptor(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// keep tells when all duplicates of give are closed.
func newWatched() (give, keep int, err error) {
	p, err := newPipe()
	if err != nil {
		return -1, -1, err
	}
	return p[1], p[0], nil
}

func closedBy(keep int) bool {
	p := []unix.PollFd{{Fd: int32(keep), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&unix.POLLHUP != 0
}

func errno(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return syscall.EINVAL
}
