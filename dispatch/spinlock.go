package dispatch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/internal/nap"
	"github.com/reprise-tt/reprise/internal/release"
)

// spinLock is a lock that costs one atomic instruction, to lock it. A plain store unlocks it, which neither drains the store
// buffer nor checks for waiters, so waiters aren't woken: they poll, first at once, then with Gosched, then with short sleeps. It
// is held for some 50 ns unless the rings are full; then its holder waits for the device in the same way.
//
// Waiters queue up on turn, and newcomers queue up after them.
type spinLock struct {
	held    uint32
	waiting atomic.Int32
	turn    sync.Mutex   // held by the waiter whose turn it is
	naps    *nap.Sleeper // set before the first use
}

// Lock locks l.
func (l *spinLock) Lock() {
	if l.waiting.Load() != 0 || !atomic.CompareAndSwapUint32(&l.held, 0, 1) {
		l.wait()
	}
}

// How a waiter polls.
const (
	lockSpins  = 200 // polls without a pause: some microseconds
	lockYields = 50
	lockSleep  = 50 * time.Microsecond
)

//go:noinline
func (l *spinLock) wait() {
	l.waiting.Add(1)
	l.turn.Lock()
	for n := 0; !l.TryLock(); n++ {
		switch {
		case n < lockSpins:
		case n < lockSpins+lockYields:
			runtime.Gosched()
		default:
			l.naps.Sleep(lockSleep)
		}
	}
	l.turn.Unlock()
	l.waiting.Add(-1)
}

// TryLock locks l if it is unlocked, and returns whether it did.
func (l *spinLock) TryLock() bool {
	return atomic.LoadUint32(&l.held) == 0 && atomic.CompareAndSwapUint32(&l.held, 0, 1)
}

// Unlock unlocks l.
func (l *spinLock) Unlock() { release.Store(&l.held, 0) }
