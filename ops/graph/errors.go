package graph

import (
	"errors"
	"fmt"
)

var (
	// ErrFormat is in errors about text that isn't a report.
	ErrFormat = errors.New("not a graph report")
	// ErrVersion is in errors about a report of a version that isn't known. Writers of all eras say 1.
	ErrVersion = errors.New("unknown version of the report format")
	// ErrTooLarge is in errors about a report beyond its [Limits], and about a capture that got too long.
	ErrTooLarge = errors.New("too large")
	// ErrUnbalanced is in errors about functions that ended without a start, or the other way round.
	ErrUnbalanced = errors.New("functions don't balance")
	// ErrNoFunctions is in errors about questions that a graph without a finished function can't answer.
	ErrNoFunctions = errors.New("no function ended in this graph")
	// ErrFinished is in errors about events after the end of a capture.
	ErrFinished = errors.New("the capture has ended")
)

// FormatError says which part of a report can't be used. It wraps [ErrFormat].
type FormatError struct {
	Node  int    // index in the graph, -1 if it isn't about a node
	Field string // the JSON key
	Found string // what is there, cut off if it is long
	Want  string // what belongs there
	Err   error  // of a lower layer, or nil
}

func (e *FormatError) Error() string {
	where := e.Field
	if e.Node >= 0 {
		where = fmt.Sprintf("node %d: %s", e.Node, e.Field)
	}
	s := "graph: decode: "
	if where != "" {
		s += where + ": "
	}
	s += "want " + e.Want
	if e.Found != "" {
		s += ", found " + e.Found
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes the error an [ErrFormat].
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// clip shortens text from outside for a message.
func clip(b []byte) string {
	const most = 60
	if len(b) > most {
		return fmt.Sprintf("%q and more", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
