package ttsim

import (
	"io"
	"slices"
)

// An Option changes how Start runs the simulator.
type Option func(*config)

type config struct {
	server []string
	output io.Writer
	manual bool
}

// Server chooses the server process: a program and its arguments, which must lead it to call
// libttsim.Serve. It is usually the running program itself with a hidden command. The option is
// required.
func Server(argv ...string) Option {
	argv = slices.Clone(argv)
	return func(c *config) { c.server = argv }
}

// Output sends what the server prints (the library's diagnostics, the output of semihosting
// programs) to w as well. Writes come from one goroutine.
func Output(w io.Writer) Option {
	return func(c *config) { c.output = w }
}

// ManualClock stops time from advancing by itself: it only does in Sim.Clock. A test that must
// reproduce an exact interleaving uses it. A host that waits for its memory to change without
// calling Clock waits forever.
func ManualClock() Option {
	return func(c *config) { c.manual = true }
}
