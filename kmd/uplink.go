package kmd

import "github.com/reprise-tt/reprise/chip"

// Uplink is the Ethernet link that joins a chip without a PCI interface to one that has it.
type Uplink struct {
	// Near is the chip at the other end, opened for this Device and closed with it. The far chip
	// reaches memory pinned for Near.
	Near *Device
	Link Link
	// Check returns an error that matches ErrLinkDown if the near end reports the link down.
	Check func() error
}

// Link is an Ethernet link between two chips.
type Link struct {
	Name        string  // both ends, for errors
	Near, Far   chip.XY // raw NoC 0 coordinates of the tiles
	NearChannel int     // among the working Ethernet tiles of the local chip
}

// Uplink returns the chip's way to the host, nil with its own PCI interface. Recover may change it.
func (d *Device) Uplink() *Uplink {
	if f, ok := as[interface{ Uplink() *Uplink }](d.file); ok {
		return f.Uplink()
	}
	return nil
}

// EngineWait describes what the oldest unexecuted Tensix instruction of T core thread 0 to 2 waits
// for; "" if there is none. It returns false if the device can't tell, as silicon and the vendor's
// simulator.
func (d *Device) EngineWait(virtual chip.XY, thread int) (wait string, known bool) {
	f, ok := as[interface {
		EngineWait(x, y uint8, thread int) (string, bool)
	}](d.file)
	if !ok {
		return "", false
	}
	return f.EngineWait(virtual.X, virtual.Y, thread)
}

// CoreDebug reports whether the processors' debug interface works, as on silicon and the emulator.
// The vendor's simulator stops at its registers.
func (d *Device) CoreDebug() bool {
	f, ok := as[interface{ CoreDebug() bool }](d.file)
	return !ok || f.CoreDebug()
}

// RemoteFault is Fault of the chip without a PCI interface at x, y.
func (d *Device) RemoteFault(x, y uint8) error {
	if f, ok := as[interface{ RemoteFault(x, y uint8) error }](d.file); ok {
		return f.RemoteFault(x, y)
	}
	return nil
}
