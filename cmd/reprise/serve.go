//go:build !static

package main

import "github.com/reprise-tt/reprise/sim/ttsim/libttsim"

// serveCmd is the vendor's simulator, which is a shared library: the command needs the system's loader for it, whether it
// uses it or not. With the build tag "static" it does without, and is one file for any Linux.
type serveCmd struct{}

// Run serves the simulator.
func (serveCmd) Run() error { return libttsim.Serve() }
