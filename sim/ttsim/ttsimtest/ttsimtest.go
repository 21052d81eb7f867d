// Package ttsimtest lets tests run on the vendor's simulator where it is at hand. The variables
// REPRISE_TTSIM_WH and REPRISE_TTSIM_BH name a libttsim.so for each chip, REPRISE_TTSIM_WH_X2 and
// REPRISE_TTSIM_BH_X2 one with two chips; a test whose variable isn't set is skipped and says so.
//
// The simulator's server process is the test binary itself, so a package that uses this one needs
//
//	func TestMain(m *testing.M) { ttsimtest.Main(m) }
package ttsimtest

import (
	"fmt"
	"os"
	"testing"

	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/libttsim"
)

// Environment variables that name libraries.
const (
	Wormhole    = "REPRISE_TTSIM_WH"    // a wh build
	Blackhole   = "REPRISE_TTSIM_BH"    // a bh build
	WormholeX2  = "REPRISE_TTSIM_WH_X2" // a wh_x2 build: one PCI function, and a remote chip
	BlackholeX2 = "REPRISE_TTSIM_BH_X2" // a bh_x2 build: two PCI functions
)

// serve is the argument that makes a test binary a server.
const serve = "reprise-ttsim-serve"

// Main runs the tests, or the simulator's server if the process was started as one. TestMain calls
// it and nothing else.
func Main(m *testing.M) {
	if Serving() {
		return
	}
	os.Exit(m.Run())
}

// Serving runs the server if the process was started as one, and then returns true. It is for a
// TestMain that has other things to do than Main.
func Serving() bool {
	if len(os.Args) != 2 || os.Args[1] != serve {
		return false
	}
	if err := libttsim.Serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// Server is the option that makes the test binary the server.
func Server() ttsim.Option { return ttsim.Server(os.Args[0], serve) }

// Path returns the library that an environment variable names, and skips the test if it isn't set.
func Path(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set: it names the libttsim.so to run this test on", variable)
	}
	return path
}

// Start starts the simulator that an environment variable names, and closes it when the test ends.
// Whether the device has stopped by then is for the test to ask: Sim.Fault. It skips the test if
// the variable isn't set.
func Start(t testing.TB, variable string, opts ...ttsim.Option) *ttsim.Sim {
	t.Helper()
	s, err := ttsim.Start(Path(t, variable), append([]ttsim.Option{Server()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Card returns the first card of the library that an environment variable names, as a target for
// kmd.Open. It skips the test if the variable isn't set.
func Card(t testing.TB, variable string, opts ...ttsim.Option) *ttsim.Card {
	t.Helper()
	return ttsim.Library(Path(t, variable), append([]ttsim.Option{Server()}, opts...)...)
}
