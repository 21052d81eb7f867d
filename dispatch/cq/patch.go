package cq

// Offsets in bytes of the fields that a finished stream gets patched at, behind
// the start of their command: of the dispatcher command for those of a
// dispatcher, not of the relay around it. All values are little-endian; many
// are not aligned to their size. Put8 to Put64 write them.
const (
	// RELAY_INLINE and its kin: the dispatcher command behind the prefetcher's.
	AtRelayed = HeaderSize

	AtRelayLinearLength = 3  // 64 bits
	AtRelayLinearNOC    = 11 // 32 bits
	AtRelayLinearAddr   = 15 // 64 bits

	AtRelayLinearHNOC    = 4
	AtRelayLinearHAddr   = 8 // 64 bits
	AtRelayLinearHLength = 16

	AtRelayPagedStart    = 1 // 8 bits
	AtRelayPagedBase     = 4
	AtRelayPagedPageSize = 8
	AtRelayPagedPages    = 12

	AtExecBufBase    = 4
	AtExecBufLogPage = 8
	AtExecBufPages   = 12

	AtToRingbufferFlags   = 1 // 8 bits, 1 = Reset
	AtToRingbufferAdvance = 4
	AtToRingbufferBase    = 8
	AtToRingbufferLength  = 12

	AtRingbufferOffset = 1 // SET_RINGBUFFER_OFFSET

	AtWriteLinearNOC    = 4
	AtWriteLinearAddr   = 8  // 64 bits
	AtWriteLinearLength = 16 // 64 bits
	AtLargeData         = LargeHeaderSize

	AtWriteHostPad1 = 2 // 16 bits
	AtWriteHostPad2 = 4
	AtWriteHostData = HeaderSize // and of WRITE_PAGED

	AtWritePagedStart = 2 // 16 bits
	AtWritePagedBase  = 4

	AtPackedOffsetIndex = 4 // 16 bits
	AtPackedAddr        = 8 // WRITE_PACKED, as the slot of a launch message

	AtWaitFlags  = 1 // 8 bits
	AtWaitStream = 2 // 16 bits
	AtWaitAddr   = 4
	AtWaitCount  = 8

	AtHostID = 2 // 16 bits, SET_WRITE_OFFSET

	AtGoWord       = 1
	AtGoMulticast  = 5 // 8 bits
	AtGoNumUnicast = 6 // 8 bits
	AtGoNOCStart   = 7 // 8 bits
	AtGoWaitCount  = 8
	AtGoWaitStream = 12

	AtNotifyMask = 2 // 16 bits
)

// Offsets of the fields of a list entry, behind AtPagedSub, AtLargeSub or AtRingSub.
const (
	AtPagedSubStart  = 0 // 16 bits
	AtPagedSubBase   = 4
	AtPagedSubLength = 8

	AtLargeSubNOC    = 0
	AtLargeSubAddr   = 4
	AtLargeSubLength = 8 // 16 bits, holds length-1

	AtRingSubStart  = 0
	AtRingSubLength = 4
)

// AtPagedSub is the offset of entry i in a RELAY_PAGED_PACKED.
func AtPagedSub(i int) int { return HeaderSize + 12*i }

// AtRingSub is the offset of entry i in a RELAY_RINGBUFFER.
func AtRingSub(i int) int { return HeaderSize + 8*i }

// AtLargeSub is the offset of entry i in a WRITE_PACKED_LARGE.
func AtLargeSub(i int) int { return HeaderSize + 12*i }

// AtPackedCore is the offset of tile i in a WRITE_PACKED to tiles.
func AtPackedCore(i int) int { return HeaderSize + 4*i }

// AtPackedRect is the offset of rectangle i in a WRITE_PACKED to rectangles.
func AtPackedRect(i int) int { return HeaderSize + 8*i }

// AtWriteOffset is the offset of offset i in a SET_WRITE_OFFSET.
func AtWriteOffset(i int) int { return HeaderSize + 4*i }

// AtGoNOCData is the offset of word i in a SET_GO_SIGNAL_NOC_DATA.
func AtGoNOCData(i int) int { return HeaderSize + 4*i }

// Put8 writes a field of 8 bits of a stream. The stream must reach that far, as it
// does at the offsets which Builder returned for it.
func Put8(stream []byte, at int, v uint8) { stream[at] = v }

// Put16 is Put8 for a field of 16 bits.
func Put16(stream []byte, at int, v uint16) { le.PutUint16(stream[at:], v) }

// Put32 is Put8 for a field of 32 bits.
func Put32(stream []byte, at int, v uint32) { le.PutUint32(stream[at:], v) }

// Put64 is Put8 for a field of 64 bits.
func Put64(stream []byte, at int, v uint64) { le.PutUint64(stream[at:], v) }

// Get32 reads a field of 32 bits.
func Get32(stream []byte, at int) uint32 { return le.Uint32(stream[at:]) }
