package session

import (
	"cmp"
	"errors"
	"fmt"
)

var (
	// ErrNotSession: the file doesn't begin like a recording.
	ErrNotSession = errors.New("not a recorded session")
	// ErrVersion: another release made the recording.
	ErrVersion = errors.New("unknown version of recorded sessions")
	// ErrDamaged: the recording was changed, or cut off because its Recorder wasn't closed.
	ErrDamaged = errors.New("the recorded session is damaged")
	// ErrTooLong: the recording ends after 4194304 events, as many pieces of memory, or 1 GiB. It
	// can be played.
	ErrTooLong = errors.New("the session was too long to be recorded whole")
	// ErrConcurrent: requests overlapped: only a host that repeats the order can play them.
	ErrConcurrent = errors.New("goroutines used the device at the same time")
	// ErrRefused is wrapped by the answers of a target that has seen a difference.
	ErrRefused = errors.New("the playback has stopped")
)

// DifferenceError is the first difference of a playback from its recording.
type DifferenceError struct {
	Index int    // of the event in the recording, from 0
	Want  string // the recorded event, "" after the end
	Got   string // the host's event
	Where string // the first piece that differs, with recorded and present bytes; "" if the texts show all
	Site  string // callers outside of the driver boundary, innermost first
}

func (e *DifferenceError) Error() string {
	where := ""
	if e.Where != "" {
		where = " in " + e.Where
	}
	return fmt.Sprintf("session: event %d differs%s: recorded: %s; now: %s; at %s", e.Index, where, cmp.Or(e.Want, "nothing more"),
		e.Got, e.Site)
}

func (e *DifferenceError) Unwrap() error { return ErrRefused }
