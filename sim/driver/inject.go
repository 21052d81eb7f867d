package driver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault is a way for a device to misbehave: see Node.Inject.
type Fault string

// The faults. Those with a value are written with it: SlowReads + "=700ms".
const (
	// AllOnes makes every load give all ones and every store go nowhere, as of a card that fell off
	// the bus.
	AllOnes Fault = "all-ones"
	// SlowReads=DURATION makes every load take so long, as of a NoC that hangs.
	SlowReads Fault = "slow-reads"
	// SlowPins=DURATION makes pinning take so long.
	SlowPins Fault = "slow-pins"
	// BusyWindows is other processes holding every window: ALLOCATE_TLB is ENOMEM.
	BusyWindows Fault = "busy-windows"
	// Resetting is a reset by another process that is under way: mmap is ENODEV, which passes.
	Resetting Fault = "resetting"
	// Unplug=DURATION takes the card out of the machine that long after it is opened, or from now
	// on if it is open: mappings fault and files are ENODEV, as with Driver.Unplug. What is out
	// when the fault ends stays out.
	Unplug Fault = "unplug"
	// SecondProcess is another process that has the device open: it is among those that the system
	// tells of, and a process that wants the device alone waits for it. One that does something is
	// made by Driver.NewProcess.
	SecondProcess Fault = "second-process"
	// StuckReset makes resets fail: the chip doesn't come back.
	StuckReset Fault = "stuck-reset"
	// NoPower is firmware without power settings: SET_POWER_STATE is EINVAL, and the driver
	// remembers the wish all the same.
	NoPower Fault = "no-power"
	// SmallBAR4=BYTES is a BAR 4 that the system gave less room than the driver counted windows
	// for: mapping a window beyond it is ENXIO.
	SmallBAR4 Fault = "small-bar4"
)

// Inject makes the device misbehave until end is called. The error, of a name or value that isn't
// known, wraps ErrConfig.
func (n *Node) Inject(f Fault) (end func(), err error) {
	name, value, _ := strings.Cut(string(f), "=")
	d := n.dev
	u := &d.faults
	locked := func(f func()) { d.mu.Lock(); f(); d.mu.Unlock() }
	switch Fault(name) {
	case AllOnes:
		u.allOnes.Store(true)
		u.refresh()
		return func() { u.allOnes.Store(false); u.refresh() }, nil
	case StuckReset:
		u.stuckReset.Store(true)
		return func() { u.stuckReset.Store(false) }, nil
	case BusyWindows:
		locked(func() { u.busyWindows = true })
		return func() { locked(func() { u.busyWindows = false }) }, nil
	case Resetting:
		locked(func() { u.resetting = true })
		return func() { locked(func() { u.resetting = false }) }, nil
	case NoPower:
		locked(func() { u.noPower = true })
		return func() { locked(func() { u.noPower = false }) }, nil
	case SecondProcess:
		locked(func() { u.second = true })
		return func() { locked(func() { u.second = false; d.wake.Broadcast() }) }, nil
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
		u.refresh()
		return func() { at.Store(0); u.refresh() }, nil
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
