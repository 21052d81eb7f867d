package core

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

var (
	// ErrUnsupported: the vendor's simulator and NCRISC have no debug interface, Wormhole has no
	// readable CSRs.
	ErrUnsupported = errors.New("the debug interface doesn't offer it")
	// ErrInReset is wrapped by errors about a processor held in reset.
	ErrInReset = errors.New("the processor is in reset")
	// ErrRunning is wrapped by errors of operations that need a paused processor.
	ErrRunning = errors.New("the processor is not paused")
	// ErrStuck is wrapped by the error of a processor that doesn't pause because an instruction
	// waits for a mailbox, a full queue of the engines or an address that doesn't answer.
	ErrStuck = errors.New("the processor waits inside of an instruction and doesn't pause")
	// ErrAddress is wrapped by errors of addresses outside L1 and local RAM, where a load may wait
	// forever.
	ErrAddress = errors.New("no address of L1 or local RAM")
	// ErrNoWatchpoint is wrapped by the error for a ninth watchpoint of a processor.
	ErrNoWatchpoint = errors.New("all watchpoints are in use")
)

// Error is an error of one processor.
type Error struct {
	Tile      chip.XY
	Processor chip.Processor
	Op        string
	Err       error
}

func (e *Error) Error() string {
	return fmt.Sprintf("core: %s %v of tile %v: %v", e.Op, e.Processor, e.Tile, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
