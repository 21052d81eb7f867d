package dispatch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// spinLock is a lock that costs one locked instruction, to take it: it is given back with a plain store, which neither waits
// until what was stored before has left the processor nor looks for others. So nobody is woken, and who finds it taken
// looks again and again: first at once, then after letting others run, then after sleeping. It is held for some 50 ns,
// unless the rings are full; then its holder waits for the device in the same way.
//
// Those who wait take turns, and whoever comes meanwhile waits behind them.
type spinLock struct {
	held    uint32
	waiting atomic.Int32
	turn    sync.Mutex // held by the one that waits for held
}

// Lock takes the spinLock.
func (g *spinLock) Lock() {
	if g.waiting.Load() != 0 || !atomic.CompareAndSwapUint32(&g.held, 0, 1) {
		g.wait()
	}
}

// How long a spinLock that is taken is looked at in which way.
const (
	lockSpins  = 200 // some microseconds
	lockYields = 50
	lockSleep  = 50 * time.Microsecond
)

//go:noinline
func (g *spinLock) wait() {
	g.waiting.Add(1)
	g.turn.Lock()
	for n := 0; !g.TryLock(); n++ {
		switch {
		case n < lockSpins:
		case n < lockSpins+lockYields:
			runtime.Gosched()
		default:
			shortSleep(lockSleep)
		}
	}
	g.turn.Unlock()
	g.waiting.Add(-1)
}

// TryLock takes the spinLock if nobody has it.
func (g *spinLock) TryLock() bool {
	return atomic.LoadUint32(&g.held) == 0 && atomic.CompareAndSwapUint32(&g.held, 0, 1)
}

// Unlock gives the spinLock back.
func (g *spinLock) Unlock() { storeRelease(&g.held, 0) }
