// Package libttsim loads the vendor's libttsim.so, for the server process of package ttsim. A
// server program calls Serve and ends when Serve returns.
//
// It is a package of its own because it uses github.com/ebitengine/purego, which makes a program
// depend on the system's C library and its loader.
package libttsim

import "github.com/reprise-tt/reprise/sim/serve/function"

// Serve is function.Serve with libttsim.so as the library.
func Serve() error { return function.Serve(load) }
