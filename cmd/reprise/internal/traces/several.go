package traces

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf"
)

// load opens no device for a bad file, and otherwise with the queues that the trace needs. end
// closes the devices.
func (c *loadFlags) load(ctx context.Context, opts ...reprise.Option) (t *reprise.Trace, devs []*reprise.Device, end func() error,
	err error) {
	files, err := c.readAll(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	t, devs, end, err = c.loadInto(ctx, files, false, opts)
	var other *tracebuf.TargetError
	if errors.As(err, &other) && other.What == "grid of workers" {
		// Devices of the right kind can have these workers.
		t, devs, end, err = c.loadInto(ctx, files, true, opts)
	}
	return t, devs, end, err
}

func (c *loadFlags) loadInto(ctx context.Context, files []*tracebuf.File, workers bool, opts []reprise.Option) (t *reprise.Trace,
	devs []*reprise.Device, end func() error, err error) {
	cards, stop, err := c.cards(files)
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := c.open(ctx)
	if err != nil {
		return nil, nil, nil, errors.Join(err, stop())
	}
	defer f.Close()
	end = func() error {
		var errs []error
		for _, d := range devs {
			errs = append(errs, d.Close(ctx))
		}
		return errors.Join(append(errs, stop())...)
	}
	for i, card := range cards {
		file := cmp.Or(files[i], &tracebuf.File{})
		dev, err := reprise.Open(ctx, card, append(slices.Clip(opts), c.options(file, workers)...)...)
		if err != nil {
			return nil, nil, nil, errors.Join(cli.OpenError(c.Device, err), end())
		}
		devs = append(devs, dev)
		if err := divide(ctx, dev, file.Target.SubDevices); err != nil {
			return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", c.File, err), end())
		}
	}
	if t, err = devs[0].LoadTrace(ctx, bufio.NewReaderSize(f, 1<<16), reprise.WithDevices(devs[1:]...)); err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", c.File, err), end())
	}
	return t, devs, end, nil
}

// options are those of a device with the firmware, and if asked for the workers, of a trace.
func (c *loadFlags) options(file *tracebuf.File, workers bool) (opts []reprise.Option) {
	if c.Firmware != "" {
		var wheel []string
		if file.Target.Layout != "" {
			wheel = []string{file.Target.Layout}
		}
		opts = append(opts, reprise.WithFirmware(c.Firmware, wheel...))
	}
	if workers && !file.Target.Workers.Empty() {
		opts = append(opts, reprise.WithQueues(len(file.Others)+1))
		for i, p := range file.Parts() {
			opts = append(opts, reprise.WithQueueWorkers(i, p.Target.Workers))
		}
	}
	return opts
}

// cards starts the machine that the user named, or an emulated one as in the recording.
func (c *loadFlags) cards(files []*tracebuf.File) (cards []kmd.Target, stop func() error, err error) {
	if len(files) == 1 {
		t, err := cli.ParseTarget(c.Device)
		return []kmd.Target{t}, func() error { return nil }, err
	}
	if c.Device != "" {
		m, err := cli.ParseMachine("--device", c.Device)
		if err != nil {
			return nil, nil, err
		}
		if cards, stop, err = m.Open(); err == nil && len(cards) != len(files) {
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
	m, err := d.Linked(spec)
	if err != nil {
		return nil, nil, err
	}
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
			if i < l.PeerChip {
				spec.Links = append(spec.Links, l)
			}
		}
	}
	return spec
}
