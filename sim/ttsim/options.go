package ttsim

import (
	"io"
	"slices"
)

// An Option configures Start.
type Option func(*config)

type config struct {
	server []string
	output io.Writer
	manual bool
}

// Server sets the required server process: a program and arguments that call libttsim.Serve,
// usually a hidden command of the running program.
func Server(argv ...string) Option {
	argv = slices.Clone(argv)
	return func(c *config) { c.server = argv }
}

// Output copies the server's output to w, from one goroutine.
func Output(w io.Writer) Option { return func(c *config) { c.output = w } }

// ManualClock stops simulated time outside of Sim.Clock, for an exact interleaving. A host that
// awaits its memory without calling Clock waits forever.
func ManualClock() Option { return func(c *config) { c.manual = true } }
