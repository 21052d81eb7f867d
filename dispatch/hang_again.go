package dispatch

import (
	"errors"
	"fmt"
)

// hungError is the error of what a queue is asked for after a *HangError, which has said everything else.
type hungError struct{ first *HangError }

// Error implements error.
func (e *hungError) Error() string {
	s := fmt.Sprintf("queue %d hangs since it waited for %s", e.first.Queue, e.first.Waiting)
	if errors.Is(e.first.Cause, ErrTimeout) {
		s += ": " + e.first.Cause.Error()
	}
	if e.first.File != "" {
		s += "; see " + e.first.File
	}
	return s
}

// Unwrap returns the *HangError.
func (e *hungError) Unwrap() error { return e.first }

// failure returns why a queue takes no more commands, nil if it does. A hang has its whole text in the first error only.
func (q *Queue) failure() error {
	err := q.status.failed.Load()
	if err == nil {
		return nil
	}
	if h, ok := (*err).(*HangError); ok {
		return &hungError{h}
	}
	return *err
}
