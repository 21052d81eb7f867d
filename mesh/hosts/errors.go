package hosts

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrClosed is returned after an engine was closed.
	ErrClosed = errors.New("the engine is closed")
	// ErrOrder is returned when hosts do different operations in the same exchange.
	ErrOrder = errors.New("the hosts do different operations")
	// ErrBroken is returned by every exchange after a failed one: the hosts no longer agree which
	// one is next. Close the engine and restart the program on every host.
	ErrBroken = errors.New("an exchange failed before")
	// ErrConfig is returned for no hosts, no engine, or a mesh without chips of this host.
	ErrConfig = errors.New("invalid configuration of hosts")
	// ErrMismatch is the error of a host whose mesh differs from that of host 0.
	ErrMismatch = errors.New("the meshes differ")
	// ErrGone is the cause of a LostError when a host has ended or left.
	ErrGone = errors.New("connections ended")
	// ErrElsewhere is wrapped by errors of other hosts, of which only the text is known.
	ErrElsewhere = errors.New("on another host")
)

// LostError is the error of an exchange in which hosts are missing.
type LostError struct {
	Op    string
	Ranks []int // hosts known to be gone
	Err   error // ErrGone, or the context's error
}

func (e *LostError) Error() string {
	who := "some hosts did not come"
	if len(e.Ranks) > 0 {
		who = fmt.Sprintf("hosts %v are gone", e.Ranks)
	}
	return fmt.Sprintf("hosts: %s: %s: %v: check them, then restart all hosts", e.Op, who, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// State is the result of one host.
type State struct {
	Rank int
	Err  error // on other hosts it wraps ErrElsewhere
}

// Error is the failure of an operation on some hosts, with the state of every host.
type Error struct {
	Op    string
	Hosts []State
}

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
