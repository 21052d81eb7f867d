package mpi

import (
	"errors"
	"fmt"
)

var (
	// ErrNoLibrary is returned when Open MPI's library can't be loaded or isn't supported here.
	ErrNoLibrary = errors.New("Open MPI isn't there")
	ErrStarted   = errors.New("MPI was started before in this process")
	ErrThreads   = errors.New("the library doesn't allow calls from several threads")
	ErrTooLarge  = errors.New("too many bytes for an exchange")
	// ErrFrame is returned when another host seems to run another program or version.
	ErrFrame = errors.New("what another host sent is not of this version")
)

type Error struct {
	Function string // such as "MPI_Iallgather"
	Code     int
	Text     string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: error %d: %s", e.Function, e.Code, e.Text) }
