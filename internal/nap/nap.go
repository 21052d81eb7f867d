// Package nap sleeps for short times and predicts how late sleeps end.
package nap

import (
	"sync"
	"sync/atomic"
	"time"
)

// Sleeper sleeps. The zero value is ready for concurrent use.
type Sleeper struct {
	late atomic.Int64 // ns

	mu     sync.Mutex
	free   []*timer // not in use
	closed bool
}

// Sleep sleeps for d, to within some tens of microseconds: on an idle machine too, unlike
// time.Sleep, and without taking a processor of GOMAXPROCS, unlike a sleeping system call.
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

// Late returns a bound of the lateness of most recent sleeps; 0 before the first.
func (s *Sleeper) Late() time.Duration { return time.Duration(s.late.Load()) }

// surprise is the most that counts of a first sleep's lateness.
const surprise = 40 * time.Microsecond

// slept lets Late grow four times as fast as it shrinks. An outlier counts as twice as late.
func (s *Sleeper) slept(asked, took time.Duration) {
	late := s.Late()
	if over := max(min(took-asked, 2*late+surprise), 0); over > late {
		late += (over - late) / 4
	} else {
		late -= (late - over) / 16
	}
	s.late.Store(int64(late))
}

// timer returns a free or new timer; nil on other systems and without a file descriptor.
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

// Close frees the file descriptors of Sleep, one for each concurrent sleeper. Sleep keeps working.
func (s *Sleeper) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.free {
		t.close()
	}
	s.free = nil
}
