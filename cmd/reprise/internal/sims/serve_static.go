//go:build static

package sims

import "errors"

// ServeCmd refuses: a static program can't load a shared library.
type ServeCmd struct{}

// Run serves the simulator.
func (ServeCmd) Run() error {
	return errors.New("this command was built without the vendor's simulator: build it without -tags static")
}
