package cli

import (
	"errors"
	"fmt"
	"os"

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

// ParseDevices turns the value of a flag into a device, which may be the first of several device
// nodes.
func ParseDevices(flag, s string) (*target.Device, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%s %q: find this program to start it as the simulator's server: %w", flag, s, err)
	}
	d, err := target.Parse(s, ttsim.Server(self, ServeCommand))
	var wrong *target.Error
	if errors.As(err, &wrong) {
		return nil, Wrong(flag, s, wrong.Why, wrong.Hint).By(wrong.Err)
	}
	return d, err
}

// ParseMachine reads the value of a flag that names a machine.
func ParseMachine(flag, s string) (*target.Machine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%s %q: find this program to start it as the simulator's server: %w", flag, s, err)
	}
	m, err := target.ParseMachine(s, ttsim.Server(self, ServeCommand))
	var wrong *target.Error
	if errors.As(err, &wrong) {
		return nil, Wrong(flag, s, wrong.Why, wrong.Hint).By(wrong.Err)
	}
	return m, err
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
