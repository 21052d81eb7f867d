//go:build !static

package sims

import (
	"github.com/reprise-tt/reprise/sim/ttsim/libttsim"
)

// ServeCmd serves the vendor's simulator, a shared library that needs the system's loader. The build
// tag "static" leaves the command out.
type ServeCmd struct{}

func (ServeCmd) Run() error { return libttsim.Serve() }
