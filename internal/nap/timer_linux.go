package nap

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timer is a kernel timer whose file descriptor Go's runtime polls: an idle runtime waits for its
// own timers in milliseconds. A busy one polls descriptors only every 10 ms. So a sleep is a read
// with a deadline.
type timer struct {
	file   *os.File
	conn   syscall.RawConn
	fd     int
	expiry [8]byte // expirations, unused
	read   func(fd uintptr) bool
}

func newTimer() *timer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	t := &timer{file: os.NewFile(uintptr(fd), "timer"), fd: fd}
	t.read = t.ended
	if t.conn, err = t.file.SyscallConn(); err == nil {
		err = t.file.SetReadDeadline(time.Time{}) // fails if the runtime doesn't poll it
	}
	if err != nil {
		t.close()
		return nil
	}
	return t
}

// sleep sleeps for d from begun on, which is now.
func (t *timer) sleep(begun time.Time, d time.Duration) {
	err := t.file.SetReadDeadline(begun.Add(d))
	if err == nil {
		err = unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	}
	if err == nil {
		err = t.conn.Read(t.read)
	}
	if err != nil {
		time.Sleep(d - time.Since(begun)) // nothing after the deadline
	}
}

// ended reports whether the timer has expired, hidden from Go's scheduler: for a system call sysmon
// would poll every 20 µs, which costs as much processor time as the sleep.
func (t *timer) ended(fd uintptr) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&t.expiry)), unsafe.Sizeof(t.expiry))
	return errno != unix.EAGAIN
}

func (t *timer) close() { _ = t.file.Close() }
