package driver

import (
	"sync/atomic"
	"time"
)

type faults struct {
	allOnes    atomic.Bool
	slowReads  atomic.Int64 // nanoseconds
	slowPins   atomic.Int64
	stuckReset atomic.Bool

	// Guarded by device.mu.
	busyWindows bool
	resetting   bool
	noPower     bool
	second      bool          // another process has the device open
	unplugAfter time.Duration // from the opening of the device
	unplug      *time.Timer   // running, or nil
}

// The process of SecondProcess, a number beyond PID_MAX_LIMIT (include/linux/threads.h).
const (
	secondPID  = 1 << 22
	secondName = "second"
)

// load reports whether a load answers all ones.
func (u *faults) load() bool {
	if d := u.slowReads.Load(); d != 0 {
		time.Sleep(time.Duration(d))
	}
	return u.allOnes.Load()
}

func (u *faults) pinning() {
	if d := u.slowPins.Load(); d != 0 {
		time.Sleep(time.Duration(d))
	}
}
