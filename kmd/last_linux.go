package kmd

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ReleaseLast makes the process's end, also by a signal, release this file last. Linux promises no
// order, but exit_files closes descriptors upwards, and the work that each close defers runs last
// in, first out (fs/file_table.c, fput; kernel/task_work.c). So this sends the file to a socket of
// this process that is never read, whose end drops the reference as later work.
func (f *systemFile) ReleaseLast() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return unix.EBADF
	}
	if f.last >= 0 {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(f.fd), nil, 0)
	if err = errors.Join(err, unix.Close(pair[0])); err != nil {
		return errors.Join(err, unix.Close(pair[1]))
	}
	f.last = pair[1]
	return nil
}
