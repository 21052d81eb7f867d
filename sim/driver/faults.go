package driver

import (
	"sync/atomic"
	"time"
)

// faults is how a device misbehaves at the moment.
type faults struct {
	any        atomic.Bool // reads or stores have to check the other fields
	allOnes    atomic.Bool
	slowReads  atomic.Int64 // nanoseconds
	slowPins   atomic.Int64
	stuckReset atomic.Bool

	// Guarded by device.mu.
	busyWindows bool
	resetting   bool
	noPower     bool
	second      bool          // another process has the device open
	unplugAfter time.Duration // from when the device is open
	unplug      *time.Timer   // that runs, nil before
}

// A process beside those of the model. Linux gives no such number (PID_MAX_LIMIT of
// include/linux/threads.h is the first one that it doesn't).
const (
	secondPID  = 1 << 22
	secondName = "second"
)

// load waits if reads are slow and reports whether this one has no answer.
func (u *faults) load() bool {
	if d := u.slowReads.Load(); d != 0 {
		time.Sleep(time.Duration(d))
	}
	return u.allOnes.Load()
}

// store reports whether a store goes nowhere.
func (u *faults) store() bool { return u.allOnes.Load() }

func (u *faults) pinning() {
	if d := u.slowPins.Load(); d != 0 {
		time.Sleep(time.Duration(d))
	}
}

func (u *faults) refresh() { u.any.Store(u.allOnes.Load() || u.slowReads.Load() != 0) }
