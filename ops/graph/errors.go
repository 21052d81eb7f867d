package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

var (
	// ErrFormat is in errors about text that isn't a report.
	ErrFormat = errors.New("not a graph report")
	// ErrVersion is in errors about a report whose version is not [Version].
	ErrVersion = errors.New("unknown version of the report format")
	// ErrTooLarge is in errors about a report beyond the [Limits], and about a capture with more
	// nodes than [Config] allows.
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
	Field string // the JSON key, empty if it is about a node or the graph as a whole
	Found string // the value, shortened
	Want  string
	Err   error
	// Line and Column are where the text isn't JSON, or what it has to be, from 1, in bytes; 0 if
	// unknown.
	Line, Column int
}

func (e *FormatError) Error() string {
	s := "graph: decode: "
	if e.Line > 0 {
		s += fmt.Sprintf("line %d, column %d: ", e.Line, e.Column)
	}
	if e.Node >= 0 {
		s += fmt.Sprintf("node %d: ", e.Node)
	}
	if e.Field != "" {
		s += e.Field + ": "
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

func (e *FormatError) Is(target error) bool { return target == ErrFormat }

func (e *FormatError) Unwrap() error { return e.Err }

// placed adds to an error the line and column of text that isn't JSON, or not of a report's form.
func placed(err error, file []byte) error {
	var f *FormatError
	if !errors.As(err, &f) {
		return err
	}
	var raw json.RawMessage
	var syntax *json.SyntaxError
	var form *json.UnmarshalTypeError
	at := 0 // offset after what is wrong
	switch {
	case errors.As(json.Unmarshal(file, &raw), &syntax):
		at, f.Err = int(syntax.Offset), syntax
	case f.Node < 0 && f.Field == "" && errors.As(f.Err, &form):
		at = int(form.Offset)
	}
	if at < 1 || at > len(file) {
		return err
	}
	before := file[:at-1]
	f.Line = bytes.Count(before, []byte("\n")) + 1
	f.Column = len(before) - bytes.LastIndexByte(before, '\n')
	f.Found = clip(file[max(bytes.LastIndexByte(before, '\n')+1, at-20):])
	return err
}

func clip(b []byte) string {
	const most = 60
	if len(b) > most {
		return fmt.Sprintf("%q and more", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
