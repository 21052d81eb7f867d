//go:build !static

package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/mesh/hosts/mpi"
)

// startTime bounds the start of all processes. With fault tolerance mpirun lets the job go on when
// one ends before, and MPI_Init would wait forever.
const startTime = time.Minute

// startMPI joins the processes of mpirun.
func startMPI(ctx context.Context) (*job, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("not all have come within %v: see whether one of them has ended",
		startTime))
	defer cancel()
	e, err := mpi.Open(ctx, mpi.Options{})
	if err != nil {
		return nil, err
	}
	return &job{Engine: e, watch: e.Watch, leave: e.Leave, close: e.Close}, nil
}
