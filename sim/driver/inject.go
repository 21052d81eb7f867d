package driver

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Fault is an injectable misbehaviour of a device: see Node.Inject.
type Fault string

// The faults. Some take a value: SlowReads + "=700ms".
const (
	AllOnes     Fault = "all-ones"     // all loads return all ones and stores are lost: it fell off the bus
	SlowReads   Fault = "slow-reads"   // =DURATION: every load takes this long, as on a NoC that hangs
	SlowPins    Fault = "slow-pins"    // =DURATION: pinning takes this long
	BusyWindows Fault = "busy-windows" // other processes hold every window, so ALLOCATE_TLB is ENOMEM
	Resetting   Fault = "resetting"    // another process resets the device, so mmap is ENODEV
	StuckReset  Fault = "stuck-reset"  // resets fail
	NoPower     Fault = "no-power"     // the firmware has no power settings; the driver keeps the request
	// Unplug=DURATION: Driver.Unplug this long after the card is opened, or from now if it is.
	Unplug Fault = "unplug"
	// SecondProcess: another process is among the holders; an exclusive opener waits for it.
	// Driver.NewProcess makes one that can act.
	SecondProcess Fault = "second-process"
	// SmallBAR4=BYTES: BAR 4 has less room than the driver counts windows for. Mapping one beyond
	// is ENXIO.
	SmallBAR4 Fault = "small-bar4"
)

// Inject makes the device misbehave until end is called. The error of an unknown fault wraps
// ErrConfig.
func (n *Node) Inject(f Fault) (end func(), err error) {
	name, value, _ := strings.Cut(string(f), "=")
	d := n.dev
	u := &d.faults
	locked := func(f func()) { d.mu.Lock(); f(); d.wake.Broadcast(); d.mu.Unlock() }
	flags := map[Fault]*bool{BusyWindows: &u.busyWindows, Resetting: &u.resetting, NoPower: &u.noPower, SecondProcess: &u.second}
	if at := flags[Fault(name)]; at != nil {
		locked(func() { *at = true })
		return func() { locked(func() { *at = false }) }, nil
	}
	switch Fault(name) {
	case AllOnes:
		off := func(v bool) { u.allOnes.Store(v); d.dma.offBus.Store(v) }
		off(true)
		return func() { off(false) }, nil
	case StuckReset:
		u.stuckReset.Store(true)
		return func() { u.stuckReset.Store(false) }, nil
	case SlowReads, SlowPins, Unplug:
		t, err := time.ParseDuration(value)
		if err != nil || t <= 0 {
			return nil, fmt.Errorf("driver: fault %q: want a duration such as %s=700ms: %w", f, name, ErrConfig)
		}
		if Fault(name) == Unplug {
			locked(func() { u.unplugAfter = t; d.unplugLaterLocked() })
			return func() {
				locked(func() {
					if u.unplug != nil {
						u.unplug.Stop()
					}
					u.unplug, u.unplugAfter = nil, 0
				})
			}, nil
		}
		at := &u.slowReads
		if Fault(name) == SlowPins {
			at = &u.slowPins
		}
		at.Store(int64(t))
		return func() { at.Store(0) }, nil
	case SmallBAR4:
		size, err := strconv.ParseUint(value, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("driver: fault %q: want a size in bytes such as %s=0x2000000: %w", f, name, ErrConfig)
		}
		var was uint64
		locked(func() { was, d.barSize[4] = d.barSize[4], size })
		return func() { locked(func() { d.barSize[4] = was }) }, nil
	}
	return nil, fmt.Errorf("driver: fault %q is not known: %w", f, ErrConfig)
}

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
