package traces

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf"
)

// loadAll is load for a trace of one device or several. end closes the devices.
func (c *loadFlags) loadAll(ctx context.Context, opts ...reprise.Option) (t *reprise.Trace, devs []*reprise.Device, end func() error, err error) {
	files, err := c.readAll(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(files) == 1 {
		t, dev, err := c.load(ctx, opts...)
		return t, []*reprise.Device{dev}, func() error { return dev.Close(ctx) }, err
	}
	cards, stop, err := c.cards(files)
	if err != nil {
		return nil, nil, nil, err
	}
	end = func() error {
		var errs []error
		for _, d := range devs {
			errs = append(errs, d.Close(ctx))
		}
		return errors.Join(append(errs, stop())...)
	}
	for i, card := range cards {
		with := opts
		if f := files[i]; f != nil {
			with = append(c.options(f, opts), queuesOf(f)...)
		}
		dev, err := reprise.Open(ctx, card, with...)
		if err != nil {
			return nil, nil, nil, errors.Join(cli.OpenError(c.Device, err), end())
		}
		if devs = append(devs, dev); files[i] != nil {
			err = divide(ctx, dev, files[i].Target.SubDevices)
		}
		if err != nil {
			return nil, nil, nil, errors.Join(err, end())
		}
	}
	f, err := c.open(ctx)
	if err == nil {
		t, err = devs[0].LoadTrace(ctx, bufio.NewReaderSize(f, 1<<16), reprise.WithDevices(devs[1:]...))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", c.File, err), end())
	}
	return t, devs, end, nil
}

// cards starts the machine that the user named, or an emulated one as in the recording.
func (c *loadFlags) cards(files []*tracebuf.File) (cards []kmd.Target, stop func() error, err error) {
	if c.Device != "" {
		m, err := cli.ParseMachine("--device", c.Device)
		if err == nil {
			cards, stop, err = m.Open()
		}
		if err == nil && len(cards) != len(files) {
			err = errors.Join(&tracebuf.TargetError{What: "number of devices", Trace: fmt.Sprint(len(files)), Here: fmt.Sprint(len(cards)),
				Do: "name a machine with as many cards"}, stop())
		}
		return cards, stop, err
	}
	spec := recordedMachine(files)
	d, err := cli.ParseDevice("--device", "emu:"+spec.Arch.String())
	if err != nil {
		return nil, nil, err
	}
	var m *target.Linked
	if m, err = d.Linked(spec); err != nil {
		return nil, nil, err
	}
	c.Device = fmt.Sprintf("%d devices emu:%v", len(files), spec.Arch)
	return m.Cards, m.Close, nil
}

// recordedMachine has the chips and links that a trace over several devices needs.
func recordedMachine(files []*tracebuf.File) chip.Machine {
	spec := chip.Machine{Name: "recorded", Shape: [2]int{1, len(files)}}
	for i, f := range files {
		c := chip.MachineChip{Board: i, Kind: chip.BoardP150, PCI: true}
		if f != nil {
			spec.Arch, c.Harvesting = f.Target.Arch, f.Target.Harvesting
		}
		spec.Chips = append(spec.Chips, c)
		if f == nil || f.Setup == nil {
			continue
		}
		for _, l := range f.Setup.Links {
			if i < l.Device {
				spec.Links = append(spec.Links, chip.Link{Chip: i, Channel: l.Channel, PeerChip: l.Device, PeerChannel: l.PeerChannel})
			}
		}
	}
	if spec.Arch == chip.Wormhole {
		for i := range spec.Chips {
			spec.Chips[i].Kind = chip.BoardN150
		}
	}
	return spec
}
