//go:build static

package demo

import (
	"context"
	"errors"
)

func startMPI(context.Context) (*job, error) {
	return nil, errors.New("this command was built without MPI: build it without -tags static")
}
