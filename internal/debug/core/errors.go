package core

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

var (
	// ErrUnsupported is wrapped by errors of what the device, the processor or its debug interface
	// doesn't have: the vendor's simulator has no debug interface, NCRISC has none, and Wormhole
	// has no CSRs.
	ErrUnsupported = errors.New("the debug interface doesn't offer it")
	// ErrInReset is wrapped by errors of a processor that is held in reset, which can't be paused.
	ErrInReset = errors.New("the processor is in reset")
	// ErrRunning is wrapped by errors of what needs a paused processor.
	ErrRunning = errors.New("the processor is not paused")
	// ErrStuck is wrapped by the error of a processor that doesn't pause: it waits inside of an
	// instruction, for a mailbox, a full queue of the engines or an address that doesn't answer.
	ErrStuck = errors.New("the processor waits inside of an instruction and doesn't pause")
	// ErrAddress is wrapped by errors of addresses outside of L1 and local RAM, to which a load may
	// wait forever.
	ErrAddress = errors.New("no address of L1 or local RAM")
	// ErrNoWatchpoint is wrapped by the error when all eight watchpoints of a processor are in use.
	ErrNoWatchpoint = errors.New("all watchpoints are in use")
)

// An Error is what went wrong with one processor.
type Error struct {
	Tile      chip.XY // virtual coordinate
	Processor chip.Processor
	Op        string // such as "pause"
	Err       error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("core: %s %v of tile %v: %v", e.Op, e.Processor, e.Tile, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
