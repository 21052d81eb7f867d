// Package libttsim loads the vendor's libttsim.so, for the server process of package ttsim. A
// program that offers itself as the server calls Serve and ends when that returns.
//
// It is a package of its own because it loads the library through github.com/ebitengine/purego,
// which makes a program depend on the system's C library and its loader. Programs that only use a
// simulator don't get that.
package libttsim

import "github.com/reprise-tt/reprise/sim/serve/function"

// Serve is function.Serve with libttsim.so as the library.
func Serve() error { return function.Serve(load) }
