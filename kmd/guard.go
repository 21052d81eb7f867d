package kmd

import (
	"runtime/debug"

	"github.com/reprise-tt/reprise/internal/seam"
)

// Guard runs fn and turns a fault of the device's memory into an error that matches ErrDeviceLost:
// after a reset or removal an access raises SIGBUS, which would end the process. Other faults stay
// panics. fn accesses the memory in its own goroutine. Guard costs a few nanoseconds.
func (d *Device) Guard(fn func() error) (err error) { return d.guard(0, 0, fn) }

// guard is Guard with one more mapping of the device: size bytes at address at.
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
// and passes the recovered value. LostBy returns the error of a fault of the device's memory, and
// panics again with any other value.
func (d *Device) LostBy(recovered any) error { return d.lostBy(recovered, 0, 0) }

func (d *Device) lostBy(recovered any, at, size uint64) error {
	if _, ok := recovered.(seam.MappingFault); !ok {
		fault, ok := recovered.(interface{ Addr() uintptr })
		if !ok || uint64(fault.Addr())-at >= size && !d.faulted(uint64(fault.Addr())) {
			panic(recovered)
		}
	}
	d.lost.Store(true)
	return d.lostError()
}

// faulted reports whether a fault is the device's: its address is in a window, or the driver says
// that the device is gone. A reset of the PCIe link revokes mappings and leaves the file valid.
func (d *Device) faulted(addr uint64) bool {
	d.mu.Lock()
	for w := range d.windows {
		if w.io == nil && addr >= w.addr && addr < w.addr+w.size {
			d.mu.Unlock()
			return true
		}
	}
	d.mu.Unlock()
	return d.gone()
}
