package ttsim

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/sim/serve/function"
)

var (
	// ErrUnsupported: the library can't be loaded here; it needs Linux on amd64, arm64 or riscv64.
	ErrUnsupported = function.ErrUnsupported
	// ErrNoServer: Start has no Server option.
	ErrNoServer = errors.New("no server program was chosen")
	// ErrNotLibrary: the file can't be loaded.
	ErrNotLibrary = errors.New("not a shared object for this machine")
	// ErrMissingSymbol: another library, or a ttsim whose interface differs from 1.10.0.
	ErrMissingSymbol = errors.New("an entry point of the ttsim API is missing")
	// ErrUnknownChip: the library's first PCI function is unknown.
	ErrUnknownChip = errors.New("the library simulates a chip that is neither Wormhole nor Blackhole")
	// ErrClosed: the simulator was closed by its user.
	ErrClosed = errors.New("the simulator is closed")
	// ErrSharedReset: Sim.Reset resets all.
	ErrSharedReset = errors.New("the chips of one library can only be reset together")
	// ErrDMA: the simulated device accessed host memory that isn't pinned for it.
	ErrDMA = errors.New("the device accessed host memory that is not pinned for it")
)

// A LibraryError is why a library can't be used: a sentinel, or the file system's error.
type LibraryError struct {
	Path string // as given to Start
	Err  error
	Hint string // what to do
}

func (e *LibraryError) Error() string {
	s := "ttsim: library " + strconv.Quote(e.Path) + ": " + e.Err.Error()
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *LibraryError) Unwrap() error { return e.Err }

// Categories of Error beside the library's (ttsim docs/sim_error_handling.md).
const (
	CategorySignal  = "Signal"  // a signal ended the server
	CategoryExit    = "Exit"    // the server ended without a reason
	CategoryHostDMA = "HostDMA" // the device accessed host memory that is not pinned for it
)

// An Error is why the simulated device stopped.
type Error struct {
	Category string    // the library's category, or one of the Category constants
	Function string    // the refusing function of the library, if any
	Message  string    // what was refused
	Clock    uint64    // simulated clocks from the start to the stop
	Signal   os.Signal // for CategorySignal
	Status   int       // the server's exit status, -1 for a signal
	Output   string    // the end of the server's output
	Err      error     // the cause, if any: ErrDMA or an error of the driver's DMA
}

func (e *Error) Error() string {
	s := fmt.Sprintf("ttsim: device stopped at clock %d: %s", e.Clock, e.Category)
	for _, more := range []string{e.Function, e.Message} {
		if more != "" {
			s += ": " + more
		}
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// parseError finds the library's "[clock] ERROR: Category: function: message" (ttsim src/common.cpp
// ttsim_error), perhaps behind other output.
func parseError(output string) (*Error, bool) {
	const marker = "] ERROR: "
	i := strings.LastIndex(output, marker)
	if i < 0 {
		return nil, false
	}
	j := strings.LastIndexByte(output[:i], '[')
	if j < 0 {
		return nil, false
	}
	clock, err := strconv.ParseUint(output[j+1:i], 10, 64)
	if err != nil {
		return nil, false
	}
	rest, _, _ := strings.Cut(output[i+len(marker):], "\n")
	category, rest, ok := strings.Cut(rest, ": ")
	if !ok || category == "" || strings.ContainsAny(category, " \t") {
		return nil, false
	}
	function, message, _ := strings.Cut(rest, ": ")
	return &Error{Category: category, Function: function, Message: message, Clock: clock, Status: 1}, true
}
