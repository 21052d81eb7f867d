// Package sims has the commands that run other programs on emulated cards.
package sims

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve"
	servecards "github.com/reprise-tt/reprise/sim/serve/cards"
)

// SimCmd is about emulated cards that other processes use.
type SimCmd struct {
	Serve simServeCmd `cmd:"" help:"Serve an emulated card to other processes, until it is interrupted."`
}

type simServeCmd struct {
	Socket   string  `help:"Where processes find the card: they call it socket:PATH." placeholder:"PATH" xor:"where" required:""`
	Device   *string `help:"Emulated card to serve, with the options that it has elsewhere: emu:blackhole (if not given), emu:wormhole,no-iommu and the like." placeholder:"DEVICE"`
	Resident bool    `help:"Keep the chip's state while no process has the card open, as silicon does. Otherwise each first open gets a new chip."`

	VFIOUser string `name:"vfio-user" help:"Where virtual machines find the card instead: a socket of the vfio-user protocol. Several cards have .0, .1… appended." placeholder:"PATH" xor:"where" required:""`
	Machine  string `help:"With --vfio-user: emulated machine whose cards are served, such as p150 (the default), n150 or n300." placeholder:"NAME"`
	TTSim    string `name:"ttsim" help:"With --vfio-user: libttsim.so of the vendor's simulator to serve instead of an emulator." placeholder:"PATH"`
}

// Help is shown by --help.
func (simServeCmd) Help() string {
	return "Several processes can open the card at a time; when one is killed, the server cleans up as the kernel driver does. With --vfio-user the card is a PCI device for a virtual machine, which brings its own driver. It is for tests, on Linux. " + cli.ExitHelp
}

// Validate checks what can be checked without an emulator.
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

// device returns the emulator that is served at a socket.
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
