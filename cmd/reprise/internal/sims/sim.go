// Package sims has the commands that run other programs on emulated cards.
package sims

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
	servecards "github.com/reprise-tt/reprise/sim/serve/cards"
	"github.com/reprise-tt/reprise/sim/serve/vfiouser"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// SimCmd is about emulated cards that other processes use.
type SimCmd struct {
	Serve simServeCmd `cmd:"" help:"Serve an emulated card to other processes, until it is interrupted."`
}

type simServeCmd struct {
	Socket   string  `help:"Socket of the card, which processes open as socket:PATH." placeholder:"PATH" xor:"where" required:""`
	Device   *string `help:"Emulated card to serve, with options as for other commands: emu:blackhole (if not given), emu:wormhole,no-iommu and the like." placeholder:"DEVICE"`
	Resident bool    `help:"Keep the chip's state while no process has the card open, as silicon does. Otherwise each first open gets a new chip."`

	VFIOUser string `name:"vfio-user" help:"Socket of the vfio-user protocol, for virtual machines. The sockets of several cards end in .0, .1…" placeholder:"PATH" xor:"where" required:""`
	Machine  string `help:"With --vfio-user: emulated machine whose cards are served, such as p150 (the default), n150 or n300." placeholder:"NAME"`
	TTSim    string `name:"ttsim" help:"With --vfio-user: libttsim.so of the vendor's simulator to serve instead of an emulator." placeholder:"PATH"`
}

func (simServeCmd) Help() string {
	return "Several processes can open the card at a time; when one is killed, the server cleans up as the kernel driver does. With --vfio-user the card is a PCI device for a virtual machine, which brings its own driver. It is for tests, on Linux."
}
func (c *simServeCmd) Validate() error {
	if c.VFIOUser != "" {
		if c.Device != nil {
			return cli.Wrong("--device", *c.Device, "it is for processes of this machine", "use it with --socket; --machine and --ttsim are for --vfio-user").
				By(errNotServed)
		}
		_, err := c.virtual()
		return err
	}
	for _, f := range [][2]string{{"--machine", c.Machine}, {"--ttsim", c.TTSim}} {
		if f[1] != "" {
			return cli.Wrong(f[0], f[1], "it is for virtual machines", "use it with --vfio-user; --device is for --socket").By(errNotServed)
		}
	}
	_, err := c.device()
	return err
}

// device returns the emulator to serve at a socket.
func (c *simServeCmd) device() (*target.Device, error) {
	name := "emu:blackhole"
	if c.Device != nil {
		name = *c.Device
	}
	d, err := cli.ParseDevice("--device", name)
	if err != nil {
		return nil, err
	}
	if d.Kind != target.Emulator {
		return nil, cli.Wrong("--device", name, "only emulators can be served", "use emu:blackhole or emu:wormhole").By(errNotServed)
	}
	if m := d.Machine(); m != nil && len(m.Chips) > 1 {
		return nil, cli.Wrong("--device", name, fmt.Sprintf("it has %d chips, and a socket serves one", len(m.Chips)), "use emu:blackhole or emu:wormhole; --vfio-user serves the cards of a machine").
			By(errNotServed)
	}
	return d, nil
}

var errNotServed = errors.New("not an emulator")

// Run serves until ctx ends, which is no error.
func (c *simServeCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	if c.VFIOUser != "" {
		return c.serveVirtual(ctx, s)
	}
	e, err := c.device()
	if err != nil {
		return err
	}
	if c.Resident {
		e = e.Emulated("", sim.Resident())
	}
	card := e.Open().(*sim.Card)
	defer func() { err = errors.Join(err, card.Close()) }()
	d, err := card.Driver()
	if err != nil {
		return err
	}
	l, err := serve.Listen(c.Socket)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.Out, "serving an emulated %v as socket:%s\n", e.Arch, c.Socket); err != nil {
		return errors.Join(err, l.Close())
	}
	return servecards.Serve(ctx, l, d, 0)
}

// virtual returns the machine whose cards are served to virtual machines. With the vendor's
// simulator it is empty: the running library says which chip it is.
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

// machineNamed returns the emulated machine that --machine names.
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

// virtualCard is a served PCI function.
type virtualCard struct {
	fn   driver.Function
	conf vfiouser.Config
}

// virtualCards starts the chips of the cards, and returns a function that ends them.
func (c *simServeCmd) virtualCards() (name string, cards []virtualCard, end func() error, err error) {
	m, err := c.virtual()
	if err != nil {
		return "", nil, nil, err
	}
	boards := m.Chips
	if c.TTSim != "" {
		server, err := cli.Server()
		if err != nil {
			return "", nil, nil, fmt.Errorf("--ttsim %q: %w", c.TTSim, err)
		}
		s, err := ttsim.Start(c.TTSim, server)
		if err != nil {
			return "", nil, nil, cli.OpenError("ttsim:"+c.TTSim, err)
		}
		for i, f := range s.Functions() {
			if m.Name != "" && (f.Arch() != m.Arch || i >= len(boards)) {
				err := cli.Wrong("--machine", m.Name, fmt.Sprintf("the simulator's card %d is a %v and no such machine's", i, f.Arch()), "leave --machine out")
				return "", nil, nil, errors.Join(err.By(errNotServed), s.Close())
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

// emulatedCards starts the emulated chips of a machine, and returns a function that ends them.
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

// serveVirtual serves cards to virtual machines until ctx ends.
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
