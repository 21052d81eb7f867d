package kmd

import "github.com/reprise-tt/reprise/chip"

// Uplink is how a chip without a PCI interface reaches the host: over an Ethernet link to one that has.
type Uplink struct {
	// Near is the chip at the other end, opened for this Device and closed with it. Memory that is pinned for Near is what
	// can be carried.
	Near *Device
	Link Link
	// Check returns an error that names the link and matches ErrLinkDown if it is down, as the near end says.
	Check func() error
}

// Link is an Ethernet link between two chips.
type Link struct {
	Name        string  // both ends, for errors
	Near, Far   chip.XY // raw NoC 0 coordinates of the tiles
	NearChannel int     // among the working Ethernet tiles of the near chip
}

// Uplink returns how the chip reaches the host, nil if it has a PCI interface of its own. It is another one after a Recover.
func (d *Device) Uplink() *Uplink {
	if f := d.file.p.Load(); f != nil {
		if u, ok := (*f).(interface{ Uplink() *Uplink }); ok {
			return u.Uplink()
		}
	}
	return nil
}

// FaultBehind says why the chip at a place stopped that has no PCI interface and is reached through this device, where that is
// known: see Fault.
func (d *Device) FaultBehind(x, y uint8) error {
	if f := d.file.p.Load(); f != nil {
		if b, ok := (*f).(interface{ FaultBehind(x, y uint8) error }); ok {
			return b.FaultBehind(x, y)
		}
	}
	return nil
}
