package serve

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2), without the private flag.
const (
	futexOpWait = 0
	futexOpWake = 1
)

// futexWait sleeps until *addr is rung or isn't val, limit is over (none if negative), or a signal
// arrives. The caller checks its condition, so the error doesn't matter.
func futexWait(addr *uint32, val uint32, limit time.Duration) {
	var ts *unix.Timespec
	if limit >= 0 {
		t := unix.NsecToTimespec(int64(limit))
		ts = &t
	}
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexOpWait, uintptr(val), uintptr(unsafe.Pointer(ts)), 0, 0)
}

func futexWake(addr *uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexOpWake, 1, 0, 0, 0)
}
