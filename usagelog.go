package reprise

import (
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/kmd"
)

// gauge writes what the allocator says into the device's log.
type gauge struct{ log *usage.Log }

// Set implements allocator.Gauge. The kinds of both packages have tt-metal's values.
func (g gauge) Set(k Kind, u allocator.Usage) {
	g.log.Set(usage.Kind(k), usage.Value{Capacity: u.Capacity, Allocated: u.Allocated, Peak: u.Peak, Extents: uint64(u.Extents)})
}

// openLog makes the device's log unless dir is empty. The device works without it, so an error is only kept for UsageLog.
func (d *Device) openLog(dir string) allocator.Gauge {
	if dir == "" {
		return nil
	}
	id := usage.Device{Name: d.name, Arch: d.Arch().String(), NUMANode: -1, Emulated: true}
	if d.target == Path(d.name) {
		id.Emulated, id.PCI = false, d.kd.Info().BDF()
		id.Serial, id.NUMANode = kmd.Host().Identity(id.PCI)
	}
	if d.log, d.logErr = usage.Create(dir, id); d.logErr != nil {
		return nil
	}
	return gauge{d.log}
}

func (d *Device) closeLog() error {
	if d.log == nil {
		return nil
	}
	return d.log.Close()
}

// UsageLog returns the file in which other processes see how much memory of the device is in use. It is "" without one;
// the error says why if the file could not be made.
func (d *Device) UsageLog() (string, error) {
	if d.log == nil {
		return "", d.logErr
	}
	return d.log.Path(), nil
}
