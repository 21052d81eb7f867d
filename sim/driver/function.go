// Package driver models Tenstorrent's kernel driver, tt-kmd, over any PCI function: an emulated
// chip, the vendor's simulator, or a few registers in a test. It implements the driver's ioctls
// behind the same seam as /dev/tenstorrent/N, so code that runs on the model runs on silicon.
//
// The model keeps the driver's bookkeeping (windows, pins, locks, reset generations, references of
// mappings), its errno values and its register writes. Sources: tt-kmd chardev.c, memory.c, tlb.c,
// wormhole.c, blackhole.c at 2.10. Power requests are aggregated and can be inspected; they are not
// sent to firmware.
//
// A card accesses a range of another card's BAR (MAP_PEER_BAR) in the middle of an access of its
// own, and both may do so at once. So neither waits for the other: a Peer takes writes and read
// requests and serves them later. Only a function that continues meanwhile (PeerDMA) can read from
// a Peer; other reads fail with a DMAError.
package driver

import "fmt"

// Function is a Tenstorrent chip as a PCI function: configuration space, memory behind BARs 0, 2
// and 4, and DMA to host memory. Methods may be called from any goroutine.
type Function interface {
	// ConfigRead and ConfigWrite access an aligned 32-bit word of configuration space.
	ConfigRead(off uint32) uint32
	ConfigWrite(off uint32, v uint32)
	// BARLoad performs one aligned load of exactly width 1, 2, 4 or 8 bytes. It doesn't allocate.
	BARLoad(bar int, off uint64, width int) uint64
	// BARStore performs one aligned store of exactly width bytes. It is posted: later accesses
	// don't overtake it. It doesn't allocate.
	BARStore(bar int, off uint64, width int, v uint64)
	// BARRead and BARWrite move bulk data through a TLB window, in any accesses.
	BARRead(bar int, off uint64, p []byte)
	BARWrite(bar int, off uint64, p []byte)
	// AttachDMA gives the function access to host memory, once, before any other access.
	AttachDMA(DMA)
	// Fault returns why the function stopped, or nil.
	Fault() error
	// Close ends the function. No other method is called afterwards.
	Close() error
}

// DMA is host memory for a PCI function. Aligned accesses of 4 or 8 bytes are atomic. An address
// that the driver hasn't mapped for the function is an error and moves nothing.
type DMA interface {
	ReadHost(bus uint64, p []byte) error
	WriteHost(bus uint64, p []byte) error
}

// Peer is a Function that takes accesses of other cards to its BARs. Neither method blocks, also
// while the function accesses the calling card. Accesses happen in the order of the calls, before
// the host's later accesses.
type Peer interface {
	// PeerWrite queues a write and copies its bytes. taken is called once it is done or dropped,
	// from any goroutine, perhaps inside PeerWrite. It must not block.
	PeerWrite(bar int, off uint64, p []byte, taken func())
	// PeerRead requests n bytes. done is called once, like taken; the bytes are all ones if the
	// function has stopped.
	PeerRead(bar int, off uint64, n int, done func(p []byte))
}

// PeerDMA is DMA that also reaches other cards.
type PeerDMA interface {
	DMA
	// ReadPeer requests n bytes of a Peer at a bus address, and returns false for other addresses.
	// done is as for PeerRead. ReadHost of such an address is an error.
	ReadPeer(bus uint64, n int, done func(p []byte)) bool
	// Posted is the number of bytes in unfinished writes to Peers. A function must throttle itself
	// when there are many.
	Posted() int64
}

// Resetter is a Function that can be reset. Reset returns when the function answers configuration
// reads again. It clears the parity-error-response bit of the PCI command register, the driver's
// reset marker.
type Resetter interface {
	Reset() error
}

// ResetAsker is a Function whose firmware takes requests for a reset of its chip, message 0x56
// (tt-kmd wormhole.c wormhole_reset, blackhole.c blackhole_reset). The firmware asks the board's
// management controller to reset the chip.
type ResetAsker interface {
	// OnResetAsked sets the callback for such a request. It is called from any goroutine in the
	// middle of an access to the function: it must not access the function, and must return at
	// once. Without a callback the message has no effect.
	OnResetAsked(ask func())
}

// DMAError is an access to host memory that a device's IOMMU refused.
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
