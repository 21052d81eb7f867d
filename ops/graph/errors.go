package graph

import (
	"errors"
	"fmt"
)

var (
	// ErrFormat is in errors about text that isn't a report.
	ErrFormat = errors.New("not a graph report")
	// ErrVersion is in errors about a report whose version is not [Version].
	ErrVersion = errors.New("unknown version of the report format")
	// ErrTooLarge is in errors about a report beyond the [Limits], and about a capture with more nodes than [Config] allows.
	ErrTooLarge = errors.New("too large")
	// ErrUnbalanced is in errors about functions that ended without a start.
	ErrUnbalanced = errors.New("functions don't balance")
	// ErrNoFunctions is in errors about graphs in which no function has ended.
	ErrNoFunctions = errors.New("no function ended in this graph")
	// ErrFinished is in errors about events after the end of a capture.
	ErrFinished = errors.New("the capture has ended")
)

// FormatError says which part of a report is invalid. It matches [ErrFormat].
type FormatError struct {
	Node  int    // index in the graph, -1 if it isn't about a node
	Field string // the JSON key
	Found string // the value, shortened
	Want  string // a description of valid values
	Err   error  // of the JSON decoder, or nil
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

// Is matches [ErrFormat].
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
