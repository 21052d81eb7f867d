package ttsim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve/function"
)

// A Sim is a running simulator: a server process with the chips of one library.
type Sim struct {
	path      string
	config    config
	functions []*Function
	current   atomic.Pointer[process]
	peers     peers
	open      atomic.Int32   // functions that aren't closed
	life      sync.Mutex     // held by a reset and by Close
	closed    bool           // guarded by life
	cards     []*Card        // guarded by life
	driver    *driver.Driver // guarded by life
}

// Start runs the library at path in a server process. Errors are a *LibraryError, or wrap
// ErrNoServer or ErrUnsupported.
func Start(path string, opts ...Option) (*Sim, error) {
	s := &Sim{path: path}
	for _, o := range opts {
		if o != nil { // callers without a server
			o(&s.config)
		}
	}
	p, functions, err := newProcess(s)
	if err != nil {
		return nil, err
	}
	if len(functions) > 1 {
		for _, f := range functions {
			f.share()
		}
	}
	s.functions = functions
	s.open.Store(int32(len(functions)))
	s.current.Store(p)
	return s, nil
}

// Functions returns the PCI functions in the order of their device numbers.
func (s *Sim) Functions() []*Function { return s.functions }

// Path returns the library's path as given to Start.
func (s *Sim) Path() string { return s.path }

// Clocks returns the number of simulated clocks since the start or the last reset.
func (s *Sim) Clocks() uint64 { return s.current.Load().client.Clocks() }

// Clock runs n clocks, for ManualClock.
func (s *Sim) Clock(n uint64) error {
	return s.perform(func(c *function.Client) bool { return c.Clock(n) })
}

// Sync returns when all earlier stores have reached the device.
func (s *Sim) Sync() error { return s.perform((*function.Client).Sync) }

func (s *Sim) perform(do func(*function.Client) bool) error {
	s.peers.settle()
	if do(s.current.Load().client) {
		return nil
	}
	if err := s.Fault(); err != nil {
		return err
	}
	return fmt.Errorf("ttsim: %w", ErrClosed)
}

// Fault returns an *Error once the device has stopped. A refused store shows after the next load or
// Sync.
func (s *Sim) Fault() error {
	if f := s.current.Load().fault.Load(); f != nil {
		return f
	}
	return nil
}

// Reset restores all chips' power-on state with a new server process, also after a fault.
// Functions, host memory and cards stay. Fault returns why it failed.
func (s *Sim) Reset() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return fmt.Errorf("ttsim: reset: %w", ErrClosed)
	}
	before := s.current.Load()
	before.close(false)
	stopped := func(err error) error {
		before.fault.Store(&Error{Category: CategoryExit, Clock: before.client.Clocks(),
			Message: "it could not be started again: " + err.Error(), Err: err})
		return err
	}
	p, functions, err := newProcess(s)
	if err != nil {
		return stopped(err)
	}
	same := func(a, b *Function) bool { return a.id == b.id && a.bars == b.bars }
	if !slices.EqualFunc(functions, s.functions, same) {
		p.close(false)
		return stopped(&LibraryError{Path: s.path, Err: ErrUnknownChip,
			Hint: "the file has changed since the start; close the simulator and start it again"})
	}
	for _, f := range s.functions {
		f.controller.reset()
	}
	s.current.Store(p)
	return nil
}

// Close ends the simulation; loads return all ones afterwards. It returns nil even if the device
// had stopped: see Fault.
func (s *Sim) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	s.closed = true
	s.current.Load().close(true)
	return nil
}

// An Option configures Start.
type Option func(*config)

type config struct {
	server []string
	output io.Writer
	manual bool
}

// Server sets the required server process: a program and arguments that call libttsim.Serve,
// usually a hidden command of the running program.
func Server(argv ...string) Option {
	argv = slices.Clone(argv)
	return func(c *config) { c.server = argv }
}

// Output copies the server's output to w, from one goroutine.
func Output(w io.Writer) Option { return func(c *config) { c.output = w } }

// ManualClock stops simulated time outside of Sim.Clock, for an exact interleaving. A host that
// awaits its memory without calling Clock waits forever.
func ManualClock() Option { return func(c *config) { c.manual = true } }

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
