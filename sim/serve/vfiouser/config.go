package vfiouser

import "github.com/reprise-tt/reprise/chip"

// Config says what card a function is presented as.
type Config struct {
	// Arch is the function's architecture, on which the sizes of BARs and the ids depend.
	Arch chip.Arch
	// Board is the subsystem id, one of package chip's codes of boards.
	Board uint16
	// BAR4Size is the size of BAR 4 in bytes where it differs from the architecture's, as firmware
	// can configure on Blackhole. A power of two.
	BAR4Size uint64
	// Report is called with why a client was disconnected, and once with why the chip stopped: no
	// call returns these. It may be called from several goroutines. It may be nil.
	Report func(error)
}
