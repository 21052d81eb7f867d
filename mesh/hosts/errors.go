package hosts

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrClosed is returned after an engine was closed.
	ErrClosed = errors.New("the engine is closed")
	// ErrOrder is returned when hosts take part in different things at the same time.
	ErrOrder = errors.New("the hosts do different things")
	// ErrBroken is returned by every exchange after one that failed: the hosts no longer agree which one is next. Close the
	// engine, and listen anew on every host.
	ErrBroken = errors.New("an exchange failed before")
	// ErrConfig is returned for a Config that can't be.
	ErrConfig = errors.New("the hosts can't be arranged so")
	// ErrMismatch is why a host can't be one of a group: its mesh isn't like that of host 0.
	ErrMismatch = errors.New("the meshes differ")
	// ErrGone is why an exchange doesn't wait any longer: the connection of a host ended.
	ErrGone = errors.New("connections ended")
	// ErrElsewhere is wrapped by what went wrong on another host.
	ErrElsewhere = errors.New("on another host")
)

// LostError says whose word an exchange waited for in vain.
type LostError struct {
	What  string // what was to be done
	Ranks []int  // hosts that this host has heard nothing of; those behind one that is lost are among them
	Err   error  // why it didn't wait longer
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("hosts: %s: nothing came from hosts %v: %v: look for them, then start all anew", e.What, e.Ranks, e.Err)
}

// Unwrap returns why it didn't wait longer.
func (e *LostError) Unwrap() error { return e.Err }

// State is what became of a host.
type State struct {
	Rank int
	Err  error // nil if the host did its part; ErrElsewhere with a text for another host
}

// Error says what became of each host in something that some of them didn't do.
type Error struct {
	Op    string
	Hosts []State
}

// Error implements error.
func (e *Error) Error() string {
	var l []string
	for _, h := range e.Failed() {
		l = append(l, fmt.Sprintf("host %d: %v", h.Rank, h.Err))
	}
	return fmt.Sprintf("hosts: %s: %d of %d hosts failed: %s", e.Op, len(l), len(e.Hosts), strings.Join(l, "; "))
}

// Failed returns the hosts that failed.
func (e *Error) Failed() []State {
	var out []State
	for _, h := range e.Hosts {
		if h.Err != nil {
			out = append(out, h)
		}
	}
	return out
}

// Unwrap returns the errors of the hosts.
func (e *Error) Unwrap() []error {
	var out []error
	for _, h := range e.Failed() {
		out = append(out, h.Err)
	}
	return out
}
