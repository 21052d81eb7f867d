// Package nap sleeps for short times, and knows how late sleeps end.
package nap

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Sleeper sleeps. The zero value is ready to use, by several goroutines.
type Sleeper struct {
	late atomic.Int64 // ns

	mu     sync.Mutex
	free   []*timer // not in use
	closed bool
}

// Sleep sleeps for d. Unlike time.Sleep it ends within some tens of microseconds of that also when
// nothing else runs, and unlike a system call that sleeps it takes none of Go's processors
// (GOMAXPROCS) from other goroutines.
func (s *Sleeper) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	begun := time.Now()
	if t := s.timer(); t != nil {
		t.sleep(begun, d)
		s.put(t)
	} else {
		time.Sleep(d)
	}
	s.slept(d, time.Since(begun))
}

// Late returns how much later than asked for sleeps have ended lately; most were less late. It is 0
// before the first one.
func (s *Sleeper) Late() time.Duration { return time.Duration(s.late.Load()) }

// surprise is how much of a first sleep's lateness counts.
const surprise = 40 * time.Microsecond

// slept accounts for a sleep. Late grows four times as fast as it shrinks, so that most sleeps are
// less late. One that took much longer, such as that of a process that was stopped, says little of
// others and counts as twice as late. Of several at a time one may not count.
func (s *Sleeper) slept(asked, took time.Duration) {
	late := s.Late()
	if over := max(min(took-asked, 2*late+surprise), 0); over > late {
		late += (over - late) / 4
	} else {
		late -= (late - over) / 16
	}
	s.late.Store(int64(late))
}

// timer takes a timer that isn't in use, or makes one. It is nil if there is none, as on other
// systems and without a free file descriptor.
func (s *Sleeper) timer() *timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		t := s.free[n-1]
		s.free = s.free[:n-1]
		return t
	}
	return newTimer()
}

func (s *Sleeper) put(t *timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		t.close()
		return
	}
	s.free = append(s.free, t)
}

// Close frees the file descriptors that Sleep has taken, one for each goroutine that slept at the
// same time. Those in use are freed when their sleep ends. Sleep works after it.
func (s *Sleeper) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.free {
		t.close()
	}
	s.free = nil
}
