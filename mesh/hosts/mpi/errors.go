package mpi

import (
	"errors"
	"fmt"
)

var (
	// ErrNoLibrary is returned when Open MPI's library can't be loaded or isn't supported here.
	ErrNoLibrary = errors.New("Open MPI isn't there")
	// ErrStarted is returned by a second Open.
	ErrStarted = errors.New("MPI was started before in this process")
	// ErrThreads is returned when the library was built without MPI_THREAD_MULTIPLE.
	ErrThreads = errors.New("the library doesn't allow calls from several threads")
	// ErrTooLarge is returned when a host has more than MaxData bytes for an exchange.
	ErrTooLarge = errors.New("too many bytes for an exchange")
	// ErrFrame is returned when another host seems to run another program or version.
	ErrFrame = errors.New("what another host sent is not of this version")
)

// Error is the failure of a function of MPI.
type Error struct {
	Function string // such as "MPI_Iallgather"
	Code     int
	Text     string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: error %d: %s", e.Function, e.Code, e.Text) }
