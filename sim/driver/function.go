// Package driver models Tenstorrent's kernel driver, tt-kmd, over any PCI function: an emulated
// chip, the vendor's simulator, or a few registers in a test. It implements the driver's ioctls
// behind the same seam as /dev/tenstorrent/N.
//
// The model keeps the driver's bookkeeping (windows, pins, locks, reset generations, references of
// mappings), its errno values and its register writes. Sources: tt-kmd chardev.c, memory.c, tlb.c,
// wormhole.c, blackhole.c at 2.10. Power requests are aggregated, but not sent to firmware.
//
// A card accesses another card's BAR (MAP_PEER_BAR) in the middle of an access of its own, and both
// may do so at once, so neither waits: a Peer serves accesses later. Only a function that continues
// meanwhile (PeerDMA) can read from a Peer.
package driver

import "fmt"

// Function is a Tenstorrent chip as a PCI function, used from any goroutine.
type Function interface {
	// ConfigRead and ConfigWrite access an aligned 32-bit word of configuration space.
	ConfigRead(off uint32) uint32
	ConfigWrite(off uint32, v uint32)
	// BARLoad is one aligned load of 1, 2, 4 or 8 bytes, without allocating.
	BARLoad(bar int, off uint64, width int) uint64
	// BARStore is one aligned, posted store, without allocating: later accesses don't overtake it.
	BARStore(bar int, off uint64, width int, v uint64)
	// BARRead and BARWrite move bulk data through a TLB window.
	BARRead(bar int, off uint64, p []byte)
	BARWrite(bar int, off uint64, p []byte)
	// AttachDMA gives access to host memory, once, before any other access.
	AttachDMA(DMA)
	Fault() error // why the function stopped, or nil
	Close() error // the last call
}

// DMA is host memory for a PCI function. Aligned accesses of 4 or 8 bytes are atomic. An access to
// an unmapped address is an error and moves nothing.
type DMA interface {
	ReadHost(bus uint64, p []byte) error
	WriteHost(bus uint64, p []byte) error
}

// Peer takes other cards' accesses to its BARs without blocking, also while it accesses the calling
// card, in the order of the calls and before the host's later accesses.
type Peer interface {
	// PeerWrite queues a copy. taken, which must not block, is called once the write is done or
	// dropped, from any goroutine, perhaps inside PeerWrite.
	PeerWrite(bar int, off uint64, p []byte, taken func())
	// PeerRead calls done like taken, with all ones if the function has stopped.
	PeerRead(bar int, off uint64, n int, done func(p []byte))
}

// PeerDMA is DMA that also reaches other cards.
type PeerDMA interface {
	DMA
	// ReadPeer reads a Peer at a bus address as PeerRead; false for others. ReadHost refuses a
	// Peer.
	ReadPeer(bus uint64, n int, done func(p []byte)) bool
	// Posted is the bytes of unfinished writes to Peers, to throttle by.
	Posted() int64
}

// Resetter can be reset. Reset returns when configuration reads are answered, and clears the
// parity-error-response bit of the PCI command register, the driver's reset marker.
type Resetter interface {
	Reset() error
}

// ResetAsker takes its firmware's requests for a reset by the board's management controller,
// message 0x56 (tt-kmd wormhole.c wormhole_reset, blackhole.c blackhole_reset).
type ResetAsker interface {
	// ask is called from any goroutine inside an access to the function, which it must not access,
	// and must return at once.
	OnResetAsked(ask func())
}

// DMAError is an access to host memory that a device's IOMMU refused.
type DMAError struct {
	Bus   uint64
	Size  int
	Write bool
	Why   string
}

func (e *DMAError) Error() string {
	what := "read"
	if e.Write {
		what = "write"
	}
	return fmt.Sprintf("driver: device %s of %d bytes at bus address %#x: %s", what, e.Size, e.Bus, e.Why)
}
