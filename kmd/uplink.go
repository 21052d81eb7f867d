package kmd

import "github.com/reprise-tt/reprise/chip"

// Uplink is the way of a chip without a PCI interface to the host: an Ethernet link to a chip that
// has one.
type Uplink struct {
	// Near is the chip at the other end, opened for this Device and closed with it. The far chip
	// reaches host memory that is pinned for Near.
	Near *Device
	Link Link
	// Check returns an error that names the link and matches ErrLinkDown if the near end reports
	// the link down.
	Check func() error
}

// Link is an Ethernet link between two chips.
type Link struct {
	Name        string  // both ends, for errors
	Near, Far   chip.XY // raw NoC 0 coordinates of the tiles
	NearChannel int     // among the working Ethernet tiles of the local chip
}

// Uplink returns the chip's way to the host, nil if the chip has its own PCI interface. Recover may
// change it.
func (d *Device) Uplink() *Uplink {
	if f := d.file.p.Load(); f != nil {
		if u, ok := (*f).(interface{ Uplink() *Uplink }); ok {
			return u.Uplink()
		}
	}
	return nil
}

// EngineWait describes what the oldest unexecuted Tensix instruction of a T core thread, 0 to 2,
// waits for; "" if there is none. virtual is the tile's coordinate. It returns false if the device
// can't tell, as silicon and the vendor's simulator.
func (d *Device) EngineWait(virtual chip.XY, thread int) (wait string, known bool) {
	if f := d.file.p.Load(); f != nil {
		if b, ok := (*f).(interface {
			EngineWait(x, y uint8, thread int) (string, bool)
		}); ok {
			return b.EngineWait(virtual.X, virtual.Y, thread)
		}
	}
	return "", false
}

// CoreDebug reports whether the processors' debug interface works, as on silicon and the emulator.
// The vendor's simulator stops at an access to its registers.
func (d *Device) CoreDebug() bool {
	if f := d.file.p.Load(); f != nil {
		if b, ok := (*f).(interface{ CoreDebug() bool }); ok {
			return b.CoreDebug()
		}
	}
	return true
}

// RemoteFault returns why a chip without a PCI interface behind this device stopped, if known: see
// Fault. x and y are the chip's coordinates in the machine.
func (d *Device) RemoteFault(x, y uint8) error {
	if f := d.file.p.Load(); f != nil {
		if b, ok := (*f).(interface{ RemoteFault(x, y uint8) error }); ok {
			return b.RemoteFault(x, y)
		}
	}
	return nil
}
