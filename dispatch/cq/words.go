package cq

import "fmt"

// FetchEntry is an entry of the prefetch queue. Bits 0 to 14 are the size of a piece of the issue
// queue in units of 16 bytes. With bit 15 the prefetcher stops fetching until an EXEC_BUF in the
// piece has ended. 0 is an empty entry (tt-metal cq_prefetch.cpp).
type FetchEntry uint16

const (
	FetchUnit     = 16 // bytes
	FetchStall    = 1 << 15
	fetchMaxBytes = (FetchStall - 1) * FetchUnit
)

// NewFetchEntry makes an entry for n bytes, a multiple of 16. stall must be set exactly when they
// hold an EXEC_BUF. Limits.MaxCommand is the firmware's own limit.
func NewFetchEntry(n int, stall bool) (FetchEntry, error) {
	if n <= 0 || n > fetchMaxBytes {
		return 0, limit("fetch entry", "size", n, fmt.Sprintf("1 to %d bytes", fetchMaxBytes), "split the commands over several entries")
	}
	if n%FetchUnit != 0 {
		return 0, limit("fetch entry", "size", n, "a multiple of 16 bytes", "pass the sum of the commands' strides")
	}
	e := FetchEntry(n / FetchUnit)
	if stall {
		e |= FetchStall
	}
	return e, nil
}

// Bytes is the size that the entry announces.
func (e FetchEntry) Bytes() int { return int(e&^FetchStall) * FetchUnit }

// Stall says whether the stall bit is set.
func (e FetchEntry) Stall() bool { return e&FetchStall != 0 }

func (e FetchEntry) String() string {
	s := fmt.Sprintf("%d bytes", e.Bytes())
	if e == 0 {
		s = "empty"
	}
	if e.Stall() {
		s += ", stall"
	}
	return s
}

// Count is a completion count of a worker stream. The device compares modulo 2^17
// (tt-isa-documentation WormholeB0/NoC/Overlay/AsGeneralUse.md); the host may count in 32 bits
// while fewer than 2^16 completions are outstanding.
type Count uint32

// CountMask are the bits of a Count in the stream's counter.
const CountMask = 1<<17 - 1

// Seq is a 32-bit number that counts up and wraps. Two of them compare right while less than 2^31
// apart.
type Seq uint32

// After says whether s was counted later than o.
func (s Seq) After(o Seq) bool { return int32(s-o) > 0 }

// GoWord is a GO message: the stream that counts completions (from the first one), its tile, and
// the signal (tt-metal dev_msgs.h, go_msg_t).
type GoWord uint32

// Signal is the last byte of a GoWord.
type Signal uint8

const (
	SignalDone             Signal = 0x00 // idle, or finished
	SignalInit             Signal = 0x40
	SignalGo               Signal = 0x80
	SignalResetReadPtr     Signal = 0xC0 // read pointer to 0, count one completion
	SignalResetReadPtrHost Signal = 0xE0 // read pointer to 0, no reply
	SignalReplayTrace      Signal = 0xF0 // as SignalResetReadPtr, before a replay
)

// sent reports whether go signals carry it; workers answer with the others.
func (s Signal) sent() bool {
	return s == SignalGo || s == SignalResetReadPtr || s == SignalResetReadPtrHost || s == SignalReplayTrace
}

var signalNames = map[Signal]string{SignalDone: "DONE", SignalInit: "INIT", SignalGo: "GO", SignalResetReadPtr: "RESET_READ_PTR",
	SignalResetReadPtrHost: "RESET_READ_PTR_FROM_HOST", SignalReplayTrace: "REPLAY_TRACE"}

func (s Signal) String() string {
	if name, ok := signalNames[s]; ok {
		return name
	}
	return fmt.Sprintf("0x%02x", uint8(s))
}

// NewGoWord packs a go word: offset is the stream's, counted from the first one, x and y its tile.
func NewGoWord(offset, x, y uint8, s Signal) GoWord {
	return GoWord(offset) | GoWord(x)<<8 | GoWord(y)<<16 | GoWord(s)<<24
}

// Offset is the stream's index counted from the first one.
func (g GoWord) Offset() uint8 { return uint8(g) }

// XY is the tile that counts completions.
func (g GoWord) XY() (x, y uint8) { return uint8(g >> 8), uint8(g >> 16) }

// Signal is what workers are to do.
func (g GoWord) Signal() Signal { return Signal(g >> 24) }

func (g GoWord) String() string {
	x, y := g.XY()
	return fmt.Sprintf("%v stream +%d of (%d,%d)", g.Signal(), g.Offset(), x, y)
}
