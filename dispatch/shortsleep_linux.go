package dispatch

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps. Go's own timers are no use for so short a time: when nothing else runs, the runtime waits for the next one in
// epoll_wait, which counts milliseconds, so a sleep of 20 µs takes 1.07 ms. The kernel's sleep takes what it was asked for
// and its slack, 50 µs unless the process has another one. It holds a thread but no processor of the machine. But the place of
// the thread among those that run goroutines (GOMAXPROCS) is given to another one only when the runtime next looks, which is
// about when a short sleep ends. So one place is left to others: who comes when all but one are taken sleeps by Go's timers,
// as all do for long.
func shortSleep(d time.Duration) {
	if d > 10*time.Millisecond {
		time.Sleep(d)
		return
	}
	defer sleepers.Add(-1)
	if n := sleepers.Add(1); n > 1 && int(n) >= runtime.GOMAXPROCS(0) {
		time.Sleep(d)
		return
	}
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal ends it early, and then a wait looks early
}

// sleepers is how many goroutines of the process are in nap. It is the process's because GOMAXPROCS is.
var sleepers atomic.Int32
