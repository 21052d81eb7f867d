package cq

import (
	"encoding/binary"
	"fmt"
)

// Turn is what the prefetcher did at a command of control flow.
type Turn uint8

// The kinds of turns.
const (
	TurnLoop   Turn = 1 + iota // LOOP_BEGIN: a loop begins, of one iteration at least unless it has a condition
	TurnNext                   // LOOP_END: an iteration has ended
	TurnLeave                  // BRANCH: the condition of a loop doesn't hold
	TurnTake                   // BRANCH: a condition holds
	TurnElse                   // BRANCH: a condition doesn't hold
	TurnJoin                   // BRANCH: the end of what a condition was for
	TurnCall                   // CALL
	TurnReturn                 // the command after a CALL
	TurnAbort                  // LOOP_END: the host ends the replay

	turns // one more than the last
)

var turnNames = [...]string{"no turn", "loop", "next iteration", "leave loop", "take branch", "else", "end of branch", "call",
	"return", "abort"}

// String is the kind in words.
func (t Turn) String() string {
	if int(t) < len(turnNames) {
		return turnNames[t]
	}
	return fmt.Sprintf("turn(%d)", uint8(t))
}

// TurnSize is the size of an entry in a queue's log of control flow, in bytes.
const TurnSize = 16

// TurnEntry is an entry of a queue's log of control flow.
type TurnEntry struct {
	Trace  uint32 // address in every DRAM bank of the trace that has the command
	Offset uint32 // of the command in the trace, in bytes
	Turn   Turn
	Cycles uint64 // when all programs before the command were done, on the dispatch core's clock; of a TurnReturn, when they were launched
}

// ParseTurns reads a log. Its length is a multiple of TurnSize.
func ParseTurns(b []byte) ([]TurnEntry, error) {
	out := make([]TurnEntry, 0, len(b)/TurnSize)
	for ; len(b) >= TurnSize; b = b[TurnSize:] {
		le := binary.LittleEndian
		what := le.Uint32(b[4:])
		e := TurnEntry{Trace: le.Uint32(b), Offset: what &^ 15, Turn: Turn(what & 15), Cycles: le.Uint64(b[8:])}
		if e.Turn == 0 || e.Turn >= turns {
			return out, fmt.Errorf("cq: log of control flow: entry %d has kind %d", len(out), e.Turn)
		}
		out = append(out, e)
	}
	if len(b) != 0 {
		return out, fmt.Errorf("cq: log of control flow: %d B after the last entry", len(b))
	}
	return out, nil
}
