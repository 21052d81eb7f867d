package vfiouser

import "github.com/reprise-tt/reprise/chip"

// Config describes the card.
type Config struct {
	// Arch is the function's architecture, which determines BAR sizes and ids.
	Arch chip.Arch
	// Board is the PCI subsystem id, one of package chip's board codes.
	Board uint16
	// BAR4Size, if not 0, is the size of BAR 4 in bytes, a power of two; Blackhole's firmware can
	// configure it.
	BAR4Size uint64
	// Report, if not nil, is called with the reason of each disconnection, and once with the reason
	// why the chip stopped. It may be called from several goroutines.
	Report func(error)
}
