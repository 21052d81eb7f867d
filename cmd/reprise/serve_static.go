//go:build static

package main

import "errors"

// serveCmd refuses: a static program can't load a shared library.
type serveCmd struct{}

// Run refuses.
func (serveCmd) Run() error {
	return errors.New("this command was built without the vendor's simulator: build it without -tags static")
}
