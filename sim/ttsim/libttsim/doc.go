// Package libttsim loads the vendor's libttsim.so, for the server process of package ttsim. It is a
// package of its own because github.com/ebitengine/purego makes a program depend on the system's C
// library and its loader.
package libttsim

import "github.com/reprise-tt/reprise/sim/serve/function"

// Serve is function.Serve with libttsim.so as the library.
func Serve() error { return function.Serve(load) }
