//go:build static

package demo

import (
	"context"
	"errors"
)

// startMPI refuses: a static program can't load a shared library.
func startMPI(context.Context) (*job, error) {
	return nil, errors.New("this command was built without MPI: build it without -tags static")
}
