package kmd

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ReleaseLast makes the end of the process release this file after all others that the process has
// open then, also when it is killed.
//
// Linux promises no order. In fact it releases the highest descriptor first: exit_files closes them
// upwards, and the work that each leaves for the end of the task is done last in, first out
// (fs/file_table.c, fput; kernel/task_work.c). So the file is sent to a socket of this process that
// is never read. The message holds a reference that only the end of the socket drops, and that is
// work of its own, after all work that the descriptors have left.
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
