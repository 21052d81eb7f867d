package kmd

import "github.com/reprise-tt/reprise/chip"

// Uplink is how a chip without a PCI interface reaches the host: over an Ethernet link to a chip
// that has one.
type Uplink struct {
	// Near is the chip at the other end, opened for this Device and closed with it. The chip
	// reaches host memory that is pinned for Near.
	Near *Device
	Link Link
	// Check returns an error that names the link and matches ErrLinkDown if the near end says that
	// it is down.
	Check func() error
}

// Link is an Ethernet link between two chips.
type Link struct {
	Name        string  // both ends, for errors
	Near, Far   chip.XY // raw NoC 0 coordinates of the tiles
	NearChannel int     // among the working Ethernet tiles of the local chip
}

// Uplink returns how the chip reaches the host, nil if it has a PCI interface of its own. It may
// change with a Recover.
func (d *Device) Uplink() *Uplink {
	if f := d.file.p.Load(); f != nil {
		if u, ok := (*f).(interface{ Uplink() *Uplink }); ok {
			return u.Uplink()
		}
	}
	return nil
}

// EngineWait returns what the first instruction waits for, in words, that T core thread, 0 to 2, of
// the tile at a virtual coordinate has given to the Tensix engines and they have not executed;
// nothing if there is none. It returns false if the device can't tell: an emulated one can, silicon
// and the vendor's simulator don't.
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

// CoreDebug reports whether the processors' debug interface answers. Silicon and the emulator have
// it; the vendor's simulator stops at an access to its registers.
func (d *Device) CoreDebug() bool {
	if f := d.file.p.Load(); f != nil {
		if b, ok := (*f).(interface{ CoreDebug() bool }); ok {
			return b.CoreDebug()
		}
	}
	return true
}

// RemoteFault returns why a chip without a PCI interface that is reached through this device
// stopped, where that is known: see Fault. x and y are the chip's place in the machine.
func (d *Device) RemoteFault(x, y uint8) error {
	if f := d.file.p.Load(); f != nil {
		if b, ok := (*f).(interface{ RemoteFault(x, y uint8) error }); ok {
			return b.RemoteFault(x, y)
		}
	}
	return nil
}
