package cq

// Offsets of fields that are patched, from the start of their command, not of the relay around it.
// Values are little-endian and often not aligned.
const (
	AtRelayed = HeaderSize

	AtWriteLinearLength = 16         // 64 bits
	AtWriteHostData     = HeaderSize // and of WRITE_PAGED
	AtPackedAddr        = 8          // WRITE_PACKED

	AtWaitFlags  = 1 // 8 bits
	AtWaitStream = 2 // 16 bits
	AtWaitCount  = 8

	AtHostID = 2

	AtGoWord       = 1
	AtGoMulticast  = 5 // 8 bits
	AtGoWaitCount  = 8
	AtGoWaitStream = 12

	AtNotifyMask = 2 // 16 bits
)

// Offsets in a list entry, from AtPagedSub or AtLargeSub.
const (
	AtPagedSubStart = 0 // 16 bits
	AtPagedSubBase  = 4
	AtLargeSubAddr  = 4
)

// AtPagedSub is the offset of entry i in a RELAY_PAGED_PACKED.
func AtPagedSub(i int) int { return HeaderSize + 12*i }

func atRingSub(i int) int { return HeaderSize + 8*i }

// AtLargeSub is the offset of entry i in a WRITE_PACKED_LARGE.
func AtLargeSub(i int) int { return HeaderSize + 12*i }

// AtPackedCore is the offset of tile i in a WRITE_PACKED.
func AtPackedCore(i int) int { return HeaderSize + 4*i }

// AtWriteOffset is the offset of offset i in a SET_WRITE_OFFSET.
func AtWriteOffset(i int) int { return HeaderSize + 4*i }

// Put8 writes a field of 8 bits.
func Put8(stream []byte, at int, v uint8) { stream[at] = v }

// Put16 is Put8 for a field of 16 bits.
func Put16(stream []byte, at int, v uint16) { le.PutUint16(stream[at:], v) }

// Put32 is Put8 for a field of 32 bits.
func Put32(stream []byte, at int, v uint32) { le.PutUint32(stream[at:], v) }

// Get32 reads a field of 32 bits.
func Get32(stream []byte, at int) uint32 { return le.Uint32(stream[at:]) }
