package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// serveCommand is the hidden command that makes this program the server process of the vendor's simulator.
const serveCommand = "ttsim-serve"

// deviceHelp is how flags describe what parseTarget accepts.
const deviceHelp = target.Help

// parseTarget turns the user's name of a device into a target.
func parseTarget(s string) (kmd.Target, error) {
	d, err := parseDevice("--device", s)
	if err != nil {
		return nil, err
	}
	return d.Open(), nil
}

// parseDevice turns the value of a flag into one device.
func parseDevice(flag, s string) (*target.Device, error) {
	d, err := parseDevices(flag, s)
	if err == nil && d.Several() {
		return nil, &flagError{flag: flag, value: s, why: "it names several device nodes, and the command takes one", hint: "give one of them"}
	}
	return d, err
}

// parseDevices turns the value of a flag into a device, which may be the first of several device nodes.
func parseDevices(flag, s string) (*target.Device, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%s %q: find this program to start it as the simulator's server: %w", flag, s, err)
	}
	d, err := target.Parse(s, ttsim.Server(self, serveCommand))
	var wrong *target.Error
	if errors.As(err, &wrong) {
		return nil, &flagError{flag: flag, value: s, why: wrong.Why, hint: wrong.Hint, err: wrong.Err}
	}
	return d, err
}

// parseMachine reads the value of a flag that names a machine.
func parseMachine(flag, s string) (*target.Machine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%s %q: find this program to start it as the simulator's server: %w", flag, s, err)
	}
	m, err := target.ParseMachine(s, ttsim.Server(self, serveCommand))
	var wrong *target.Error
	if errors.As(err, &wrong) {
		return nil, &flagError{flag: flag, value: s, why: wrong.Why, hint: wrong.Hint, err: wrong.Err}
	}
	return m, err
}
