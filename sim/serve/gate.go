package serve

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A Gate is where one party at most waits until another, perhaps in another process, makes a
// condition true. Sequentially consistent atomics ensure that the waiter sees the condition or the
// signaller the waiter.
type Gate struct {
	bell   *uint32 // changes when the waiter is woken
	asleep *uint32 // set while the waiter may sleep
}

const Forever time.Duration = -1 // no limit

const Spins = 2000 // polls before a sleep: some microseconds

// Wait returns whether cond holds before limit is over. Polling spins times first is cheaper than a
// sleep.
func (g Gate) Wait(spins int, limit time.Duration, cond func() bool) bool {
	for i := range spins {
		if cond() {
			return true
		}
		if i%64 == 63 {
			runtime.Gosched()
		}
	}
	var end time.Time
	if limit >= 0 {
		end = time.Now().Add(limit)
	}
	for {
		if cond() {
			return true
		}
		bell := atomic.LoadUint32(g.bell)
		atomic.StoreUint32(g.asleep, 1)
		if cond() {
			atomic.StoreUint32(g.asleep, 0)
			return true
		}
		left := limit
		if limit >= 0 {
			if left = time.Until(end); left <= 0 {
				atomic.StoreUint32(g.asleep, 0)
				return false
			}
		}
		futexWait(g.bell, bell, left)
		atomic.StoreUint32(g.asleep, 0)
	}
}

// Signal wakes the waiter, once the condition is true.
func (g Gate) Signal() {
	if atomic.LoadUint32(g.asleep) != 0 {
		g.Ring()
	}
}

// Ring wakes the waiter in any case.
func (g Gate) Ring() {
	atomic.AddUint32(g.bell, 1)
	futexWake(g.bell)
}
