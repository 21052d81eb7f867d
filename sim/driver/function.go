// Package driver is a model of Tenstorrent's kernel driver, tt-kmd, over any PCI function: an
// emulated chip, the vendor's simulator, or a few registers in a test. It speaks the driver's ioctl
// structs behind the same seam as /dev/tenstorrent/N, so that what runs on it runs on silicon
// unchanged.
//
// The model keeps the driver's bookkeeping (windows, pins, locks, reset generations, references of
// mappings), its errno values and its register writes. Sources: tt-kmd chardev.c, memory.c, tlb.c,
// wormhole.c, blackhole.c at 2.10. It has no firmware messages of its own: power requests are
// aggregated as the driver does and can be looked at, and are not sent.
//
// A card that reaches a range of another one's BAR (MAP_PEER_BAR) does so in the middle of an
// access of its own, and the other one may be in the middle of an access to it. So neither waits
// for the other: a Peer takes writes and asks for answers in its own time, and only a function that
// goes on meanwhile, as one with PeerDMA can, reads from it. Other reads of a peer are refused with
// a DMAError.
package driver

import "fmt"

// Function is a Tenstorrent chip as its host sees it: a PCI function with configuration space,
// memory behind BARs 0, 2 and 4, and accesses of its own to host memory. Methods may be called from
// any goroutine.
type Function interface {
	// ConfigRead and ConfigWrite access the 32-bit word of configuration space at a multiple of
	// four.
	ConfigRead(off uint32) uint32
	ConfigWrite(off uint32, v uint32)
	// BARLoad performs one load of exactly width 1, 2, 4 or 8 bytes at an offset aligned to it. It
	// doesn't allocate.
	BARLoad(bar int, off uint64, width int) uint64
	// BARStore performs one store of exactly width bytes. It is posted: later accesses don't
	// overtake it. It doesn't allocate.
	BARStore(bar int, off uint64, width int, v uint64)
	// BARRead and BARWrite move bulk data through a TLB window, in accesses of the function's
	// choice.
	BARRead(bar int, off uint64, p []byte)
	BARWrite(bar int, off uint64, p []byte)
	// AttachDMA gives the function its way to host memory, once, before any access to it.
	AttachDMA(DMA)
	// Fault says why the function stopped, or nil while it works.
	Fault() error
	// Close ends the function. No other method is called afterwards.
	Close() error
}

// DMA is host memory as a PCI function reaches it. Accesses of 4 or 8 bytes at a multiple of their
// size are atomic. An address that the driver hasn't mapped for the function is an error and moves
// nothing.
type DMA interface {
	ReadHost(bus uint64, p []byte) error
	WriteHost(bus uint64, p []byte) error
}

// Peer is a Function that takes accesses of other cards to its BARs. Neither method waits for
// anything, also while the function accesses the card that calls it. Accesses are done in the order
// of the calls, and before whatever the host does with the function later.
type Peer interface {
	// PeerWrite leaves a write, of which it copies the bytes. taken is called once it is done, or
	// will never be, from any goroutine, perhaps inside PeerWrite. It must not wait for anything.
	PeerWrite(bar int, off uint64, p []byte, taken func())
	// PeerRead asks for n bytes. done is called with them, once and like taken; a function that has
	// stopped answers all-ones.
	PeerRead(bar int, off uint64, n int, done func(p []byte))
}

// PeerDMA is DMA that also leads to other cards.
type PeerDMA interface {
	DMA
	// ReadPeer asks a Peer for n bytes at a bus address, and reports whether that leads to one.
	// done is as for PeerRead. ReadHost of such an address is an error.
	ReadPeer(bus uint64, n int, done func(p []byte)) bool
	// Posted is how many bytes of the function's own writes to Peers are not done yet. A function
	// that goes on writing while they are many fills memory.
	Posted() int64
}

// Resetter is a Function that can be reset. Reset returns when the function answers configuration
// reads again, with the parity-error-response bit of its PCI command register, the driver's reset
// marker, cleared.
type Resetter interface {
	Reset() error
}

// ResetAsker is a Function with firmware that can be asked for a reset of its chip, by message 0x56
// (tt-kmd wormhole.c wormhole_reset, blackhole.c blackhole_reset). The firmware doesn't reset the
// chip itself: it asks the board, as that of a card asks the management controller.
type ResetAsker interface {
	// OnResetAsked says what the firmware calls then. It is called from any goroutine, in the
	// middle of an access to the function: it must not access the function, and return at once.
	// Without it the message has no effect.
	OnResetAsked(ask func())
}

// DMAError is an access of a device to host memory that its IOMMU refused.
type DMAError struct {
	Bus   uint64
	Size  int
	Write bool
	Why   string
}

// Error implements error.
func (e *DMAError) Error() string {
	what := "read"
	if e.Write {
		what = "write"
	}
	return fmt.Sprintf("driver: device %s of %d bytes at bus address %#x: %s", what, e.Size, e.Bus, e.Why)
}
