package sims

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
	"github.com/reprise-tt/reprise/sim/serve/vfiouser"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// virtual returns the machine whose cards are served to virtual machines. With the vendor's simulator and no name it has
// no chips: the library says what it is when it runs.
func (c *simServeCmd) virtual() (chip.Machine, error) {
	name := c.Machine
	if name == "" {
		if c.TTSim != "" {
			return chip.Machine{}, nil
		}
		name = "p150"
	}
	return machineNamed(name)
}

// machineNamed returns an emulated machine that --machine names.
func machineNamed(name string) (chip.Machine, error) {
	m, ok := chip.MachineNamed(name)
	if !ok {
		return m, cli.Wrong("--machine", name, "there is no such machine", "use one of"+machineNames()).By(errNotServed)
	}
	return m, nil
}

// machineNames are the names of all machines, each after a space.
func machineNames() (names string) {
	for _, m := range chip.Machines() {
		names += " " + m.Name
	}
	return names
}

// virtualCard is the PCI function of a card, and how it is served.
type virtualCard struct {
	fn   driver.Function
	conf vfiouser.Config
}

// virtualCards starts the chips of the cards. end ends them.
func (c *simServeCmd) virtualCards() (name string, cards []virtualCard, end func() error, err error) {
	m, err := c.virtual()
	if err != nil {
		return "", nil, nil, err
	}
	boards := m.Chips
	if c.TTSim != "" {
		self, err := os.Executable()
		if err != nil {
			return "", nil, nil, fmt.Errorf("--ttsim %q: find this program to start it as the simulator's server: %w", c.TTSim, err)
		}
		s, err := ttsim.Start(c.TTSim, ttsim.Server(self, cli.ServeCommand))
		if err != nil {
			return "", nil, nil, cli.OpenError("ttsim:"+c.TTSim, err)
		}
		for i, f := range s.Functions() {
			if m.Name != "" && (f.Arch() != m.Arch || i >= len(boards)) {
				return "", nil, nil, errors.Join(
					cli.Wrong("--machine", m.Name, fmt.Sprintf("the simulator's card %d is a %v and no such machine's", i, f.Arch()), "leave --machine out").
						By(errNotServed),
					s.Close(),
				)
			}
			board := uint16(chip.BoardN150)
			switch {
			case m.Name != "":
				board = boards[i].Kind
			case f.Arch() == chip.Blackhole:
				board = chip.BoardP150
			}
			cards = append(cards, virtualCard{f, vfiouser.Config{Arch: f.Arch(), Board: board}})
		}
		return "a simulated " + cards[0].conf.Arch.String(), cards, s.Close, nil
	}
	cards, end, err = emulatedCards(m)
	return "an emulated " + m.Name, cards, end, err
}

// emulatedCards starts the emulated chips of a machine and returns its cards. end ends them.
func emulatedCards(m chip.Machine) (cards []virtualCard, end func() error, err error) {
	e := sim.NewMachine(m, sim.Paced())
	if err := e.Err(); err != nil {
		return nil, nil, err
	}
	for i, b := range m.Chips {
		if b.PCI {
			cards = append(cards, virtualCard{e.Chip(i), vfiouser.Config{Arch: m.Arch, Board: b.Kind}})
		}
	}
	return cards, e.Close, nil
}

// serveVirtual serves cards to virtual machines until ctx ends, which is no error.
func (c *simServeCmd) serveVirtual(ctx context.Context, s cli.Streams) (err error) {
	name, cards, end, err := c.virtualCards()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	g, ctx := errgroup.WithContext(ctx)
	var listeners []*net.UnixListener
	closed := func(err error) error {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	served := make([]*vfiouser.Card, len(cards))
	for i := range cards {
		path, label := c.VFIOUser, name
		if len(cards) > 1 {
			path, label = fmt.Sprintf("%s.%d", path, i), fmt.Sprintf("card %d of %s", i, name)
		}
		cards[i].conf.Report = func(err error) { _, _ = fmt.Fprintf(s.Err, "reprise: %s: %v\n", label, err) }
		if served[i], err = vfiouser.New(cards[i].fn, cards[i].conf); err != nil {
			return closed(err)
		}
		l, err := serve.Listen(path)
		if err != nil {
			return closed(err)
		}
		listeners = append(listeners, l)
		more := ""
		if c.TTSim != "" { // QEMU gives up a card that doesn't answer in 5 seconds
			more = `,"x-msg-timeout":60000`
		}
		if _, err := fmt.Fprintf(s.Out, "serving %s: -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":%q}%s}'\n",
			label, path, more); err != nil {
			return closed(err)
		}
	}
	for i, l := range listeners {
		g.Go(func() error { return served[i].Serve(ctx, l) })
	}
	return g.Wait()
}
