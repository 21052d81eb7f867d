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
	// ErrUnsupported means that this operating system or processor has no way to load the library:
	// it needs Linux on amd64, arm64 or riscv64.
	ErrUnsupported = function.ErrUnsupported
	// ErrNoServer means that Start was called without the Server option, so it doesn't know which
	// program to run as the server process.
	ErrNoServer = errors.New("no server program was chosen")
	// ErrNotLibrary means that the file is not a shared object for this machine.
	ErrNotLibrary = errors.New("not a shared object for this machine")
	// ErrMissingSymbol means that the shared object lacks an entry point of ttsim's API: it is
	// another library, or a ttsim whose interface differs from 1.10.0.
	ErrMissingSymbol = errors.New("an entry point of the ttsim API is missing")
	// ErrUnknownChip means that the library's first PCI function is not a Wormhole or a Blackhole.
	ErrUnknownChip = errors.New("the library simulates a chip that is neither Wormhole nor Blackhole")
	// ErrClosed means that the simulator was closed by its user.
	ErrClosed = errors.New("the simulator is closed")
	// ErrSharedReset means that a chip could not be reset because others live in the same library,
	// which has no way to reset one of them.
	ErrSharedReset = errors.New("the chips of one library can only be reset together")
	// ErrDMA means that the simulated device accessed host memory that isn't pinned for it.
	ErrDMA = errors.New("the device accessed host memory that is not pinned for it")
)

// A LibraryError says why a library could not be used. Its Err is, or wraps, one of the package's
// sentinels, fs.ErrNotExist or another error of the file system.
type LibraryError struct {
	Path string // what was given to Start
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

// Categories of Error that don't come from the library. The library's own are listed in ttsim
// docs/sim_error_handling.md (UndefinedBehavior, UnimplementedFunctionality and so on).
const (
	CategorySignal  = "Signal"  // the server was ended by a signal
	CategoryExit    = "Exit"    // the server ended by itself without giving a reason
	CategoryHostDMA = "HostDMA" // the device accessed host memory that is not pinned for it
)

// An Error says why the simulated device stopped.
type Error struct {
	Category string    // the library's category, or one of the Category constants
	Function string    // the function of the simulator that refused, if it was the library
	Message  string    // what it refused
	Clock    uint64    // simulated clocks since the start, when the device stopped
	Signal   os.Signal // what ended the server, for CategorySignal
	Status   int       // the server's exit status, -1 for a signal
	Output   string    // the last of what the server printed
	Err      error     // the cause, where there is one: ErrDMA or what the driver's DMA said
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ttsim: device stopped at clock %d: %s", e.Clock, e.Category)
	if e.Function != "" {
		b.WriteString(": " + e.Function)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// parseError finds the library's last words in what the server printed: a line "[clock] ERROR:
// Category: function: message" (ttsim src/common.cpp ttsim_error). A line may follow what a
// semihosting program printed without a newline, so the marker is searched within lines.
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
	rest := strings.TrimRight(output[i+len(marker):], "\n")
	if k := strings.IndexByte(rest, '\n'); k >= 0 {
		rest = rest[:k]
	}
	category, rest, ok := strings.Cut(rest, ": ")
	if !ok || category == "" || strings.ContainsAny(category, " \t") {
		return nil, false
	}
	function, message, _ := strings.Cut(rest, ": ")
	return &Error{Category: category, Function: function, Message: message, Clock: clock, Status: 1}, true
}
