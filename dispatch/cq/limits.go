package cq

// Limits of the format, which encoder and decoder enforce.
const (
	maxPagedSubs    = 35    // RELAY_PAGED_PACKED (tt-metal cq_commands.hpp: the firmware's copy of the list)
	MaxRingSubs     = 52    // RELAY_RINGBUFFER
	MaxLargeSubs    = 35    // WRITE_PACKED_LARGE
	maxLargeLength  = 65536 // bytes of one run of a WRITE_PACKED_LARGE: length-1 has 16 bits
	maxPackedCores  = 1020  // WRITE_PACKED to tiles: the list must lie in the first 4096-byte page
	maxPackedRects  = 510   // WRITE_PACKED to rectangles
	maxWriteOffsets = 4
	maxLengthAdjust = 0x7FFF // bytes, RELAY_PAGED
)

// Limits are the configuration of a device's firmware. Sizes are in bytes.
type Limits struct {
	MaxCommand      int // a fetch entry, and so any command in it
	MaxUnicast      int // WRITE_PACKED to tiles: as many as the compute grid has; to rectangles: half
	DispatchPage    int // of the dispatcher's ring
	SubordinatePage int // of dispatch_s's ring
	DispatchRing    int // the ring of the dispatcher
	Scratch         int // the prefetcher's double buffer for relays
	Ringbuffer      int // the prefetcher's cache of binaries
	GoNOCEntries    int // table for go signals to single tiles
	SubDevices      int // worker streams
}

// DefaultLimits are those of tt-metal's firmware on Tensix dispatch cores (dispatch_settings.cpp),
// for a compute grid of workers tiles; 0 stands for maxPackedCores.
func DefaultLimits(workers int) Limits {
	if workers <= 0 || workers > maxPackedCores {
		workers = maxPackedCores
	}
	return Limits{
		MaxCommand: 128 << 10, MaxUnicast: workers, DispatchPage: 4096, SubordinatePage: 256,
		DispatchRing: 512 << 10, Scratch: 128 << 10, Ringbuffer: 1 << 20, GoNOCEntries: 64, SubDevices: 8,
	}
}
