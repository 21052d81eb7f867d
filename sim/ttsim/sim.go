package ttsim

import (
	"fmt"
	"slices"
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
