package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// ServeCommand is the hidden command that serves the vendor's simulator.
const ServeCommand = "ttsim-serve"

// DeviceHelp describes the devices of ParseTarget.
const DeviceHelp = target.Help

// ParseTarget turns the user's name of a device into a target.
func ParseTarget(s string) (kmd.Target, error) {
	d, err := ParseDevice("--device", s)
	if err != nil {
		return nil, err
	}
	return d.Open(), nil
}

// ParseDevice turns the value of a flag into one device.
func ParseDevice(flag, s string) (*target.Device, error) {
	d, err := ParseDevices(flag, s)
	if err == nil && d.Several() {
		return nil, Wrong(flag, s, "it names several device nodes, and the command takes one", "give one of them")
	}
	return d, err
}

// ParseDevices turns the value of a flag into a device, which may be the first of several nodes.
func ParseDevices(flag, s string) (*target.Device, error) { return parse(flag, s, target.Parse) }

// ParseMachine turns the value of a flag into a machine.
func ParseMachine(flag, s string) (*target.Machine, error) {
	return parse(flag, s, target.ParseMachine)
}

func parse[T any](flag, s string, f func(string, ttsim.Option) (*T, error)) (*T, error) {
	server, err := Server()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", flag, s, err)
	}
	d, err := f(s, server)
	var wrong *target.Error
	if errors.As(err, &wrong) {
		return nil, Wrong(flag, s, wrong.Why, wrong.Hint).By(wrong.Err)
	}
	return d, err
}

// Server is the command that serves the vendor's simulator: this program.
func Server() (ttsim.Option, error) {
	self, err := os.Executable()
	if err != nil {
		err = fmt.Errorf("find this program to start it as the simulator's server: %w", err)
	}
	return ttsim.Server(self, ServeCommand), err
}

// Processors are those of a Tensix tile for which ok returns true.
func Processors(ok func(chip.Processor) bool) (ps []chip.Processor) {
	for p := range chip.Processor(chip.NumProcessors) {
		if ok(p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// ParseProcessors returns the processors that --processor names, in any case; all without names.
func ParseProcessors(names []string) ([]chip.Processor, error) {
	for _, name := range names {
		if len(Processors(func(p chip.Processor) bool { return strings.EqualFold(name, p.String()) })) == 0 {
			return nil, Wrong("--processor", name, "there is no such processor", "use brisc, ncrisc, trisc0, trisc1 or trisc2")
		}
	}
	return Processors(func(p chip.Processor) bool {
		return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, p.String()) })
	}), nil
}

// OpenChip opens a device and finds out what its chip has.
func OpenChip(ctx context.Context, t kmd.Target, opts ...kmd.Option) (*kmd.Device, *chip.Chip, error) {
	d, err := kmd.Open(ctx, t, opts...)
	if err != nil {
		return nil, nil, err
	}
	h, err := d.Harvesting(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	ch, err := chip.New(d.Arch(), h)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, ch, nil
}
