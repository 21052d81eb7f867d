// Package sim gives emulated cards: the embedded emulator behind the model of the kernel driver. They need no
// hardware, no privileges and no other program.
//
//	dev, err := reprise.Open(ctx, sim.Blackhole())
package sim

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
)

// Card is a target for opening: one emulated card in a machine with the model of the kernel driver. The chip is made
// when the card is opened and its state is gone when it is closed.
type Card struct {
	name string
	node seam.Node
}

// Node returns the card's device node.
func (c *Card) Node() seam.Node { return c.node }

// String names the card in errors and reports.
func (c *Card) String() string { return c.name }

// Option changes an emulated card.
type Option func(*emu.Config)

// Seed draws the order in which processors run and how long network requests take. The default is 0.
func Seed(s uint64) Option { return func(c *emu.Config) { c.Seed = s } }

// Synchronous makes the chip run inside the host's accesses instead of beside them, so that the same seed and the
// same accesses give the same run.
func Synchronous() Option { return func(c *emu.Config) { c.Synchronous = true } }

// Delay makes each step of a network request take up to that many clocks, drawn from the seed, so that data and
// responses arrive late and out of order as far as the network's rules allow.
func Delay(clocks int) Option { return func(c *emu.Config) { c.Delay = clocks } }

// Harvest takes parts of the chip away, as on cards whose chips have defects.
func Harvest(h chip.Harvesting) Option { return func(c *emu.Config) { c.Harvesting = h } }

// RefuseUnwritten makes reading L1 that was never written an error. It makes the processors several times slower.
func RefuseUnwritten() Option { return func(c *emu.Config) { c.RefuseUnwritten = true } }

// Blackhole returns an emulated Blackhole card.
func Blackhole(opts ...Option) *Card { return newCard(chip.Blackhole, opts) }

// Wormhole returns an emulated Wormhole card.
func Wormhole(opts ...Option) *Card { return newCard(chip.Wormhole, opts) }

func newCard(a chip.Arch, opts []Option) *Card {
	cfg := emu.Config{Arch: a}
	for _, o := range opts {
		o(&cfg)
	}
	name := "emu:" + a.String()
	d, err := driver.New(driver.Config{Arch: a, Name: name + ":", Start: func() (driver.Function, error) {
		c, err := emu.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
		return c, nil
	}})
	if err != nil {
		return &Card{name: name, node: brokenNode{name, fmt.Errorf("sim: %w", err)}}
	}
	return &Card{name: name, node: d.Node(0)}
}

// brokenNode is a node of a card that can't be made: opening it says why.
type brokenNode struct {
	name string
	err  error
}

func (n brokenNode) Open(int) (seam.File, error) { return nil, n.err }
func (n brokenNode) String() string              { return n.name }
