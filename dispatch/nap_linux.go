package dispatch

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps. Go's own timers are no use for so short a time: when nothing else runs, the runtime waits for the next one in
// epoll_wait, which counts milliseconds, so a sleep of 20 µs takes 1.07 ms. The kernel's sleep takes what it was asked for
// and its slack, 50 µs unless the process has another one. It holds a thread but no processor, and no goroutine waits for
// it: the runtime gives the thread's place to another one. Long sleeps hold none.
func nap(d time.Duration) {
	if d > 10*time.Millisecond {
		time.Sleep(d)
		return
	}
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal ends it early, and then a wait looks early
}
