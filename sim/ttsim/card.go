package ttsim

import (
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
)

// A Card is a target for kmd.Open: a card in a machine with the model of the kernel driver.
type Card struct{ node seam.Node }

// Node returns the card's device node.
func (c *Card) Node() seam.Node { return c.node }

func (c *Card) String() string { return c.node.String() }

// Library returns a library's first card, with Start's options and errors, running from the first
// open to the last close. A library with several cards needs Start and Sim.Cards.
func Library(path string, opts ...Option) *Card {
	return &Card{node: &libraryNode{path: path, opts: opts}}
}

// Cards returns the functions as targets for kmd.Open, with one driver model, until the simulator
// is closed. Don't use a function both directly and through its card.
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

// Driver returns the cards' driver model, for package sim/serve/cards.
func (s *Sim) Driver() (*driver.Driver, error) {
	if _, err := s.Cards(); err != nil {
		return nil, err
	}
	return s.driver, nil
}

type libraryNode struct {
	path string
	opts []Option

	mu      sync.Mutex
	driver  *driver.Driver
	arch    chip.Arch
	started *Sim // started to learn the architecture, not yet taken by the driver
}

func (n *libraryNode) String() string { return n.path }

func (n *libraryNode) Open(flags int) (seam.File, error) {
	d, err := n.load()
	if err != nil {
		return nil, err
	}
	f, err := d.Node(0).Open(flags)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started != nil { // the driver refused the open
		n.started.Close()
		n.started = nil
	}
	return f, err
}

// Only the running library knows the architecture.
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

// only is the first function of a simulator whose other functions have no card.
type only struct{ *Function }

func (o *only) Reset() error { return o.sim.Reset() }
func (o *only) Close() error { return o.sim.Close() }
