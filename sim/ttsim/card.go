package ttsim

import (
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
)

// A Card is a target for kmd.Open: a card in a machine with the model of the kernel driver.
type Card struct {
	node seam.Node
}

// Node returns the card's device node.
func (c *Card) Node() seam.Node { return c.node }

// String names the card in errors and reports.
func (c *Card) String() string { return c.node.String() }

// Library returns the first card of a library as a target for kmd.Open. The simulator starts when
// the card is opened while it isn't open yet, and ends, with all its state, when it isn't open any
// more. The options are Start's; what Start would refuse, opening the card does. A library with
// several cards needs Start and Sim.Cards, which let them run together.
func Library(path string, opts ...Option) *Card {
	return &Card{node: &libraryNode{path: path, opts: opts}}
}

// Cards returns the simulator's functions as targets for kmd.Open, with one model of the kernel
// driver. They live until the simulator is closed, however often they are opened. Functions that
// are used through their card must not be used directly. Every call returns the same cards.
func (s *Sim) Cards() ([]*Card, error) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil, fmt.Errorf("ttsim: cards: %w", ErrClosed)
	}
	if s.cards != nil {
		return s.cards, nil
	}
	cfg := driver.Config{Arch: s.functions[0].Arch(), Name: s.path + ":"}
	for _, f := range s.functions {
		cfg.Functions = append(cfg.Functions, f)
	}
	d, err := driver.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("ttsim: cards: %w", err)
	}
	s.driver = d
	for i := range d.Len() {
		s.cards = append(s.cards, &Card{node: d.Node(i)})
	}
	return s.cards, nil
}

// Driver returns the model of the kernel driver of the simulator's cards, with which package
// sim/serve/cards serves them to other processes.
func (s *Sim) Driver() (*driver.Driver, error) {
	if _, err := s.Cards(); err != nil {
		return nil, err
	}
	return s.driver, nil
}

// libraryNode is a device node whose simulator runs while it is open.
type libraryNode struct {
	path string
	opts []Option

	mu      sync.Mutex
	driver  *driver.Driver
	arch    chip.Arch
	started *Sim // started to learn the architecture, and not yet taken by the driver
}

func (n *libraryNode) String() string { return n.path }

// Open opens the card, and starts its simulator if it isn't open.
func (n *libraryNode) Open(flags int) (seam.File, error) {
	d, err := n.load()
	if err != nil {
		return nil, err
	}
	f, err := d.Node(0).Open(flags)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started != nil { // the driver refused the open before it took the function
		n.started.Close()
		n.started = nil
	}
	return f, err
}

// load makes the driver. It has to know the architecture, which only the running library tells.
func (n *libraryNode) load() (*driver.Driver, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.driver != nil {
		return n.driver, nil
	}
	s, err := Start(n.path, n.opts...)
	if err != nil {
		return nil, err
	}
	arch := s.functions[0].Arch()
	d, err := driver.New(driver.Config{Arch: arch, Start: n.start, Name: n.path + ":"})
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("ttsim: open: %w", err)
	}
	n.driver, n.arch, n.started = d, arch, s
	return d, nil
}

// start is called by the driver when the card is opened and no function is running.
func (n *libraryNode) start() (driver.Function, error) {
	n.mu.Lock()
	s := n.started
	n.started = nil
	n.mu.Unlock()
	if s == nil {
		var err error
		if s, err = Start(n.path, n.opts...); err != nil {
			return nil, err
		}
	}
	if a := s.functions[0].Arch(); a != n.arch {
		s.Close()
		return nil, &LibraryError{Path: n.path, Err: fmt.Errorf("%w: it was a %v and is a %v", ErrUnknownChip, n.arch, a),
			Hint: "the file has changed since the first use; make a new target"}
	}
	return &only{Function: s.functions[0]}, nil
}

// only is the first function of a simulator whose other functions have no card: resetting it
// resets the simulator, and closing it ends that.
type only struct{ *Function }

// Reset resets the simulator.
func (o *only) Reset() error { return o.sim.Reset() }

// Close ends the simulator.
func (o *only) Close() error { return o.sim.Close() }
