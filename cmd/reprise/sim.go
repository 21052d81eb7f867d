package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve"
	servecards "github.com/reprise-tt/reprise/sim/serve/cards"
)

// simCmd is about emulated cards that other processes use.
type simCmd struct {
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
	return "Several processes can open the card at a time; when one is killed, the server cleans up as the kernel driver does. With --vfio-user the card is a PCI device for a virtual machine, which brings its own driver. It is for tests, on Linux. " + exitHelp
}

// Validate checks what can be checked without an emulator.
func (c *simServeCmd) Validate() error {
	if c.VFIOUser != "" {
		if c.Device != nil {
			return &flagError{flag: "--device", value: *c.Device, why: "it is for processes of this machine",
				hint: "use it with --socket; --machine and --ttsim are for --vfio-user", err: errNotServed}
		}
		_, err := c.virtual()
		return err
	}
	for _, f := range [][2]string{{"--machine", c.Machine}, {"--ttsim", c.TTSim}} {
		if f[1] != "" {
			return &flagError{flag: f[0], value: f[1], why: "it is for virtual machines", hint: "use it with --vfio-user; --device is for --socket",
				err: errNotServed}
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
	d, err := parseDevice("--device", name)
	if err != nil {
		return nil, err
	}
	if d.Kind != target.Emulator {
		return nil, &flagError{flag: "--device", value: name, why: "only emulators can be served", hint: "use emu:blackhole or emu:wormhole",
			err: errNotServed}
	}
	if m := d.Machine(); m != nil && len(m.Chips) > 1 {
		return nil, &flagError{flag: "--device", value: name, why: fmt.Sprintf("it has %d chips, and a socket serves one", len(m.Chips)),
			hint: "use emu:blackhole or emu:wormhole; --vfio-user serves the cards of a machine", err: errNotServed}
	}
	return d, nil
}

var errNotServed = errors.New("not an emulator")

// Run serves until ctx ends, which is no error.
func (c *simServeCmd) Run(ctx context.Context, s streams) (err error) {
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
	if _, err := fmt.Fprintf(s.out, "serving an emulated %v as socket:%s\n", e.Arch, c.Socket); err != nil {
		return errors.Join(err, l.Close())
	}
	return servecards.Serve(ctx, l, d, 0)
}
