// Package server is the process that runs the vendor's libttsim.so for package ttsim. A program that offers itself as
// the server calls Serve and ends when that returns.
//
// It is a package of its own because it loads the library through github.com/ebitengine/purego, which makes a program
// depend on the system's C library and its loader. Programs that only use a simulator don't get that.
package server
