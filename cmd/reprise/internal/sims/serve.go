//go:build !static

package sims

import (
	"github.com/reprise-tt/reprise/sim/ttsim/libttsim"
)

// ServeCmd needs the system's loader for the vendor's simulator; the build tag "static" does
// without.
type ServeCmd struct{}

// Run serves the simulator.
func (ServeCmd) Run() error { return libttsim.Serve() }
