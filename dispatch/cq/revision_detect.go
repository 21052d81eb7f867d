package cq

import (
	"errors"
	"fmt"
	"strings"
)

// ErrRevision is returned for a stream that no revision reads, or that more than one reads.
var ErrRevision = errors.New("the protocol revision can't be told")

// RevisionError says what each revision has against a stream. It is an ErrRevision.
type RevisionError struct {
	Accepted []string // revisions that read it all the same; none, or more than one
	Refused  []RefusedRevision
}

// RefusedRevision is a revision that doesn't read a stream.
type RefusedRevision struct {
	Name string
	Err  error
}

// Error lists the revisions.
func (e *RevisionError) Error() string {
	var s []string
	for _, r := range e.Refused {
		s = append(s, fmt.Sprintf("not %s (%s)", r.Name, strings.TrimPrefix(r.Err.Error(), "cq: ")))
	}
	if len(e.Accepted) == 0 {
		return fmt.Sprintf("cq: %v: no revision reads it: %s", ErrRevision, strings.Join(s, "; "))
	}
	also := ""
	if len(s) > 0 {
		also = "; " + strings.Join(s, "; ")
	}
	return fmt.Sprintf("cq: %v: %s read it: name the one that wrote it%s", ErrRevision, strings.Join(e.Accepted, " and "), also)
}

// Unwrap returns ErrRevision.
func (e *RevisionError) Unwrap() error { return ErrRevision }

// Detect finds out which revision a stream is in: the only one that reads it without an objection. Nothing in a stream
// names its revision, but commands with lists, waits and go signals, which every program has, tell them apart. A
// *RevisionError says why there is none, or which ones there are.
func Detect(l Layout, stream []byte) (*Revision, []Reading, error) {
	var found *Revision
	var readings []Reading
	e := &RevisionError{}
	for _, v := range Revisions() {
		r, err := v.Read(l, stream)
		if err != nil {
			e.Refused = append(e.Refused, RefusedRevision{v.Name, err})
			continue
		}
		e.Accepted = append(e.Accepted, v.Name)
		found, readings = v, r
	}
	if len(e.Accepted) != 1 {
		return nil, nil, e
	}
	return found, readings, nil
}
