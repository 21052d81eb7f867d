//go:build !static

package main

import (
	"context"

	"github.com/reprise-tt/reprise/mesh/hosts/mpi"
)

// startMPI joins the processes of mpirun.
func startMPI(ctx context.Context) (*job, error) {
	e, err := mpi.Open(ctx, mpi.Options{})
	if err != nil {
		return nil, err
	}
	return &job{Engine: e, watch: e.Watch, leave: e.Leave, close: e.Close}, nil
}
