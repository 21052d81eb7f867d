//go:build !static

package sims

import (
	"github.com/reprise-tt/reprise/sim/ttsim/libttsim"
)

// ServeCmd is the vendor's simulator, which is a shared library: the command needs the system's
// loader for it, whether it uses it or not. With the build tag "static" it does without, and is one
// file for any Linux.
type ServeCmd struct{}

// Run serves the simulator.
func (ServeCmd) Run() error { return libttsim.Serve() }
