package session

import (
	"errors"
	"fmt"
)

var (
	// ErrNotSession is returned for a file that doesn't begin like a recording.
	ErrNotSession = errors.New("not a recorded session")
	// ErrVersion is returned for a recording that another release has made.
	ErrVersion = errors.New("unknown version of recorded sessions")
	// ErrDamaged is returned for a recording that was changed, or cut off because its Recorder
	// wasn't closed.
	ErrDamaged = errors.New("the recorded session is damaged")
	// ErrTooLong is returned when a Recorder is closed that has seen more than a recording holds:
	// 4194304 events, as many pieces of memory, or 1 GiB. What came before can be read, and played
	// as far as it goes.
	ErrTooLong = errors.New("the session was too long to be recorded whole")
	// ErrConcurrent is returned when a Recorder is closed whose host made requests at the same time
	// without Concurrent. What was recorded can be read, but played only by a host that happens to
	// make them in the same order.
	ErrConcurrent = errors.New("goroutines used the device at the same time; call Recorder.Concurrent before they do")
	// ErrRefused is wrapped by what a target answers once it has seen a difference.
	ErrRefused = errors.New("the playback has stopped")
)

// DifferenceError is the first difference between a playback and its recording.
type DifferenceError struct {
	Index int    // of the event in the recording, from 0
	Want  string // what was recorded, "" after its end
	Got   string // what the host does instead
	Where string // in what both texts have, where the first difference is; "" if they show it
	Site  string // where it does it: callers outside of the driver boundary, innermost first
}

// Error implements error.
func (e *DifferenceError) Error() string {
	want := e.Want
	if want == "" {
		want = "nothing more"
	}
	where := ""
	if e.Where != "" {
		where = " in " + e.Where
	}
	return fmt.Sprintf("session: event %d differs%s: recorded: %s; now: %s; at %s", e.Index, where, want, e.Got, e.Site)
}

// Unwrap returns ErrRefused.
func (e *DifferenceError) Unwrap() error { return ErrRefused }
