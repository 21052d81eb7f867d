package cq

// Count is a completion count of a worker stream. The stream's counter has 17
// bits (tt-isa-documentation WormholeB0/NoC/Overlay/AsGeneralUse.md), so the
// device compares modulo 2^17 while the host may keep counting in 32 bits, as
// long as fewer than CountWindow completions are outstanding.
type Count uint32

const (
	CountBits   = 17
	CountMask   = 1<<CountBits - 1
	CountWindow = 1 << (CountBits - 1) // how far ahead a wait may be
)

// Reached is the dispatcher's test: the 17-bit difference c - want is not
// negative.
func (c Count) Reached(want Count) bool { return int32(c-want)<<(32-CountBits) >= 0 }

// Register is what the stream's counter shows when c has been counted: 0 to 2^17-1.
func (c Count) Register() uint32 { return uint32(c) & CountMask }

// Until is the number of completions from c to want: positive while want is
// ahead, exact while the distance is below CountWindow.
func (c Count) Until(want Count) int {
	return int(int32(want-c) << (32 - CountBits) >> (32 - CountBits))
}

// Seq is a 32-bit number that counts up and wraps: an event id, a word of a
// semaphore or a page counter. Two of them compare right while they are less
// than 2^31 apart.
type Seq uint32

// Reached is the dispatcher's test of a memory WAIT: the signed 32-bit
// difference s - want is not negative.
func (s Seq) Reached(want Seq) bool { return int32(s-want) >= 0 }

// After says whether s was counted later than o.
func (s Seq) After(o Seq) bool { return int32(s-o) > 0 }

// Until is the number of steps from s to want: positive while want is ahead.
func (s Seq) Until(want Seq) int { return int(int32(want - s)) }
