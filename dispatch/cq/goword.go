package cq

import "fmt"

// GoWord is a GO message: the stream (counted from the first one) that counts completions, the tile
// of the stream, and the signal (tt-metal dev_msgs.h, go_msg_t).
type GoWord uint32

// Signal is the last byte of a GoWord.
type Signal uint8

const (
	SignalDone             Signal = 0x00 // idle, or finished
	SignalInit             Signal = 0x40 // written before reset is released
	SignalGo               Signal = 0x80 // run the launch message at the read pointer
	SignalResetReadPtr     Signal = 0xC0 // read pointer to 0, count one completion
	SignalResetReadPtrHost Signal = 0xE0 // read pointer to 0, no reply
	SignalReplayTrace      Signal = 0xF0 // as SignalResetReadPtr, before a replay
)

// String names the signal.
func (s Signal) String() string {
	switch s {
	case SignalDone:
		return "DONE"
	case SignalInit:
		return "INIT"
	case SignalGo:
		return "GO"
	case SignalResetReadPtr:
		return "RESET_READ_PTR"
	case SignalResetReadPtrHost:
		return "RESET_READ_PTR_FROM_HOST"
	case SignalReplayTrace:
		return "REPLAY_TRACE"
	}
	return fmt.Sprintf("0x%02x", uint8(s))
}

// NewGoWord packs a go word. offset is the stream's index counted from the first one (the
// sub-device), x and y are the tile that counts completions.
func NewGoWord(offset, x, y uint8, s Signal) GoWord {
	return GoWord(offset) | GoWord(x)<<8 | GoWord(y)<<16 | GoWord(s)<<24
}

// Offset is the stream's index counted from the first one.
func (g GoWord) Offset() uint8 { return uint8(g) }

// XY is the tile that counts completions.
func (g GoWord) XY() (x, y uint8) { return uint8(g >> 8), uint8(g >> 16) }

// Signal is what workers are to do.
func (g GoWord) Signal() Signal { return Signal(g >> 24) }

// String is like "REPLAY_TRACE stream +0 of (14,3)".
func (g GoWord) String() string {
	x, y := g.XY()
	return fmt.Sprintf("%v stream +%d of (%d,%d)", g.Signal(), g.Offset(), x, y)
}
