package cq

import (
	"encoding/binary"
	"fmt"
)

// The prefetcher's commands for control flow in a trace are this runtime's own: only the firmware
// of package dispatch/firmware takes them. Offsets count bytes from the start of their trace and
// are multiples of the layout's PCIe alignment.
//
// The prefetcher keeps a stack of loops, MaxLoops deep over all traces that call each other, and a
// stack of MaxCalls calls. It never waits for the dispatcher by itself: a condition on what
// programs wrote needs a Stall.

// LoopBegin enters a loop, or goes to Exit if Count is 0.
type LoopBegin struct {
	Loop  uint16 // its number in the trace
	Exit  uint32 // what follows the loop
	Count uint32 // iterations, or the most if Limited
}

// LoopEnd goes back to Body, or leaves the innermost loop after the last iteration. It ends the
// replay if the host has asked the queue to abort.
type LoopEnd struct {
	Loop uint16
	// A Limited loop is left only by a Branch; an iteration more than LoopBegin.Count stops the
	// prefetcher with an error.
	Limited bool
	Body    uint32
}

// Branch goes on with the next command if a condition holds, else at Else. It compares a word in
// memory, or the number of a loop's iteration, from 0.
type Branch struct {
	Compare Compare
	Level   uint8 // 0: a word; 1: the iteration of the innermost loop, 2: of the loop around it, …
	Same    bool  // compare the word that the last Branch read
	Leave   bool  // Else is outside of the innermost loop
	Limited bool
	Else    uint32
	NOC     uint32 // Layout.NOCXY of the word's tile
	Addr    uint32 // a multiple of 4
	Value   uint32
}

// CallTrace runs another trace and goes on after its EXEC_BUF_END. Its fields are those of ExecBuf.
type CallTrace struct {
	Base        uint32
	LogPageSize uint32
	Pages       uint32
}

// Depths of the prefetcher's stacks.
const (
	MaxLoops = 16
	MaxCalls = 8
)

// MaxLoopNumber is the highest number of a loop in a trace.
const MaxLoopNumber = 1<<16 - 1

// Compare is how a Branch compares an unsigned word with a value.
type Compare uint8

const (
	Never Compare = iota // without reading a word
	Equal
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
	AnySet  // word & value != 0
	NoneSet // word & value == 0

	compares
)

func (c Compare) String() string {
	return oneOf(uint8(c), "compare(%d)", "never", "==", "!=", "<", "<=", ">", ">=", "any of", "none of")
}

// Valid reports whether there is such a comparison.
func (c Compare) Valid() bool { return c < compares }

// Holds compares a word with a value.
func (c Compare) Holds(word, value uint32) bool {
	switch c {
	case Equal:
		return word == value
	case NotEqual:
		return word != value
	case Less:
		return word < value
	case LessEqual:
		return word <= value
	case Greater:
		return word > value
	case GreaterEqual:
		return word >= value
	case AnySet:
		return word&value != 0
	case NoneSet:
		return word&value == 0
	}
	return false
}

// Offsets in bytes of fields in the commands of control flow.
const (
	AtLoopExit   = 4 // LOOP_BEGIN
	AtLoopCount  = 8
	AtLoopBody   = 4 // LOOP_END
	AtBranchElse = 4 // BRANCH
	AtBranchNOC  = 8
	AtBranchAddr = 12
	AtCallBase   = 4 // CALL
	AtCallPages  = 12
)

const (
	flagLimited = 1
	flagLeave   = 2
	flagSame    = 4
)

var branchFlags = [...]string{"limited", "leave", "same"}

func (c LoopBegin) encode(b *Builder) int {
	return b.bare(head{uint64(PrefetchLoopBegin) | uint64(c.Loop)<<16 | uint64(c.Exit)<<32, uint64(c.Count)})
}

func readLoopBegin(it *item, _ []item) PrefetchCommand {
	return LoopBegin{it.u16(2), it.u32(4), it.u32(8)}
}

func (c LoopEnd) encode(b *Builder) int {
	return b.bare(head{uint64(PrefetchLoopEnd) | bit(c.Limited)*flagLimited<<8 | uint64(c.Loop)<<16 | uint64(c.Body)<<32, 0})
}

func readLoopEnd(it *item, _ []item) PrefetchCommand {
	return LoopEnd{it.u16(2), it.u8(1)&flagLimited != 0, it.u32(4)}
}

func (c Branch) encode(b *Builder) int {
	flags := bit(c.Limited)*flagLimited | bit(c.Leave)*flagLeave | bit(c.Same)*flagSame
	return b.large([4]uint64{uint64(PrefetchBranch) | flags<<8 | uint64(c.Compare)<<16 | uint64(c.Level)<<24 | uint64(c.Else)<<32,
		uint64(c.NOC) | uint64(c.Addr)<<32, uint64(c.Value)})
}

func readBranch(it *item, _ []item) PrefetchCommand {
	flags := it.u8(1)
	return Branch{Compare(it.u8(2)), it.u8(3), flags&flagSame != 0, flags&flagLeave != 0, flags&flagLimited != 0,
		it.u32(4), it.u32(8), it.u32(12), it.u32(16)}
}

func (c CallTrace) encode(b *Builder) int {
	return b.bare(head{uint64(PrefetchCall) | uint64(c.Base)<<32, uint64(c.LogPageSize) | uint64(c.Pages)<<32})
}

func readCallTrace(it *item, _ []item) PrefetchCommand {
	return CallTrace{it.u32(4), it.u32(8), it.u32(12)}
}

func (LoopBegin) ID() PrefetchID { return PrefetchLoopBegin }
func (LoopEnd) ID() PrefetchID   { return PrefetchLoopEnd }
func (Branch) ID() PrefetchID    { return PrefetchBranch }
func (CallTrace) ID() PrefetchID { return PrefetchCall }

// Turn is what the prefetcher did at a command of control flow.
type Turn uint8

// The kinds of turns.
const (
	TurnLoop Turn = 1 + iota
	TurnNext
	TurnLeave // BRANCH: a loop's condition doesn't hold
	TurnTake
	TurnElse
	TurnJoin // BRANCH: the end of a condition's commands
	TurnCall // CALL
	TurnReturn
	TurnAbort // LOOP_END: the host ends the replay

	turns
)

func (t Turn) String() string {
	return oneOf(uint8(t), "turn(%d)", "no turn", "loop", "next iteration", "leave loop", "take branch", "else", "end of branch", "call",
		"return", "abort")
}

// TurnSize is the bytes of an entry in a queue's log of control flow.
const TurnSize = 16

// TurnEntry is an entry of a queue's log of control flow.
type TurnEntry struct {
	Trace  uint32 // the trace's address in every DRAM bank
	Offset uint32 // of the command in the trace, in bytes
	Turn   Turn
	Cycles uint64 // of the dispatch core's clock, when all programs before the command were done; of a TurnReturn, when they were launched
}

// ParseTurns reads a log.
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
