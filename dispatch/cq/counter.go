package cq

// Count is a completion count of a worker stream. The stream's counter has 17 bits
// (tt-isa-documentation WormholeB0/NoC/Overlay/AsGeneralUse.md): the device compares modulo 2^17.
// The host may count in 32 bits while fewer than 2^16 completions are outstanding.
type Count uint32

// CountMask are the bits of a Count in the stream's counter.
const CountMask = 1<<17 - 1

// Seq is a 32-bit number that counts up and wraps: an event id, a semaphore or a page counter. Two
// of them compare right while they are less than 2^31 apart.
type Seq uint32

// After says whether s was counted later than o.
func (s Seq) After(o Seq) bool { return int32(s-o) > 0 }
