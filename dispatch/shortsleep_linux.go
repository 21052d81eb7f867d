package dispatch

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// slack is how much later than asked for the kernel may end a sleep, in ns.
const slack = 1000

// sleep sleeps. Go's timers are too coarse for short times: when nothing else runs, the runtime waits for the next one in
// epoll_wait, which counts milliseconds, so a sleep of 20 µs takes 1.07 ms. The kernel's sleep takes what it was asked for
// and the thread's slack, 50 µs if nothing else is said, so 1 µs is asked for. It blocks a thread but no processor of the machine. But the runtime
// hands the thread's P (GOMAXPROCS) to another thread only when it next checks, which is about when a short sleep ends. So one
// P is left to others: a goroutine that comes when all but one are taken sleeps by Go's timers. So do all sleeps of a millisecond and
// more, which those take as exactly: a long wait on two processors would else keep one from an emulated chip that runs on both.
func (s *Sleepers) sleep(d time.Duration) {
	if d >= time.Millisecond {
		time.Sleep(d)
		return
	}
	defer s.n.Add(-1)
	if n := s.n.Add(1); n > 1 && int(n) >= runtime.GOMAXPROCS(0) {
		time.Sleep(d)
		return
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0) // it only makes sleeps shorter
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal ends it early, and then a wait polls early
}
