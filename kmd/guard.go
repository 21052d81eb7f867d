package kmd

import (
	"runtime/debug"

	"github.com/reprise-tt/reprise/internal/seam"
)

// Guard turns a fault of the device's memory in fn's goroutine into an error that matches
// ErrDeviceLost: after a reset or removal an access raises SIGBUS, which would end the process.
// Other faults stay panics.
func (d *Device) Guard(fn func() error) (err error) { return d.guard(0, 0, fn) }

// guard is Guard with one more mapping of the device.
func (d *Device) guard(at, size uint64, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if e := recover(); e != nil {
			err = d.lostBy(e, at, size)
		}
	}()
	return fn()
}

// LostBy replaces a Guard that is too expensive: the caller sets debug.SetPanicOnFault, recovers,
// and passes the value. LostBy returns a fault of the device's memory as an error, and panics again
// with other values.
func (d *Device) LostBy(recovered any) error { return d.lostBy(recovered, 0, 0) }

func (d *Device) lostBy(recovered any, at, size uint64) error {
	if _, ok := recovered.(seam.MappingFault); !ok {
		fault, ok := recovered.(interface{ Addr() uintptr })
		if !ok || uint64(fault.Addr())-at >= size && !d.faulted(uint64(fault.Addr())) {
			panic(recovered)
		}
	}
	return d.lose("an access to its memory faulted: it was reset or removed", nil)
}

// faulted reports a fault in a window, or of a device that the driver says is gone. A reset of the
// PCIe link revokes mappings and leaves the file valid.
func (d *Device) faulted(addr uint64) bool {
	d.mu.Lock()
	for w := range d.windows {
		if w.addr != 0 && addr >= w.addr && addr < w.addr+w.size {
			d.mu.Unlock()
			return true
		}
	}
	d.mu.Unlock()
	return d.gone()
}
