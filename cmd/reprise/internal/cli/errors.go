package cli

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// FlagError explains a wrong value of a flag.
type FlagError struct {
	Flag, Value string
	Why, Hint   string
	Err         error // the cause, for errors.Is; may be nil
}

func (e *FlagError) Error() string {
	s := fmt.Sprintf("%s %q: %s", e.Flag, e.Value, e.Why)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Wrong explains a wrong value of a flag and what to do.
func Wrong(flag string, value any, why, hint string) *FlagError {
	return &FlagError{flag, fmt.Sprint(value), why, hint, nil}
}

// By adds the cause.
func (e *FlagError) By(err error) *FlagError {
	e.Err = err
	return e
}

func (e *FlagError) Unwrap() error { return e.Err }

// OpenError explains why a device can't be opened. Errors that hold for every device stay unchanged.
func OpenError(device string, err error) error {
	e := &FlagError{Flag: "--device", Value: device, Err: err}
	var lib *ttsim.LibraryError
	var op *kmd.OpError
	switch {
	case errors.As(err, &lib):
		e.Why, e.Hint = lib.Err.Error(), lib.Hint
	case !errors.As(err, &op) || op.Op != "open":
		return err
	case errors.Is(err, kmd.ErrNotDevice):
		e.Why, e.Hint = op.Err.Error(), "give a node that the driver made, such as /dev/tenstorrent/0"
	case errors.Is(err, kmd.ErrNoDevice), errors.Is(err, kmd.ErrUnsupportedSystem):
		e.Why, e.Hint = op.Err.Error(), "emu:blackhole and emu:wormhole need no card"
	default:
		e.Why = op.Err.Error()
	}
	return e
}

// Cause is the innermost error.
func Cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1   // one line on standard error says why
	ExitUsage       = 2   // wrong flags or arguments
	ExitInterrupted = 130 // ended by SIGINT, SIGTERM or SIGHUP
)

// ExitStatus is the exit status of a program that has reported its error itself.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("the program exited with status %d", int(e)) }
