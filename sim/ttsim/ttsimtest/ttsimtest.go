// Package ttsimtest runs tests on the vendor's simulator. The variables REPRISE_TTSIM_WH and
// REPRISE_TTSIM_BH name a libttsim.so for each chip, REPRISE_TTSIM_WH_X2 and REPRISE_TTSIM_BH_X2
// one with two chips. A test without its variable is skipped.
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

// serve is the argument that makes a test binary the server.
const serve = "reprise-ttsim-serve"

// Main runs the tests, or the server if the process was started as one.
func Main(m *testing.M) {
	if Serving() {
		return
	}
	os.Exit(m.Run())
}

// Serving runs the server if the process was started as one.
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

// Path returns a variable's library, or skips the test.
func Path(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set: it names the libttsim.so to run this test on", variable)
	}
	return path
}

// Start starts a variable's simulator until the test ends, or skips the test.
func Start(t testing.TB, variable string, opts ...ttsim.Option) *ttsim.Sim {
	t.Helper()
	s, err := ttsim.Start(Path(t, variable), append([]ttsim.Option{Server()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Card returns the first card of a variable's library, or skips the test.
func Card(t testing.TB, variable string, opts ...ttsim.Option) *ttsim.Card {
	t.Helper()
	return ttsim.Library(Path(t, variable), append([]ttsim.Option{Server()}, opts...)...)
}
