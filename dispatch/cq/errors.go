package cq

import (
	"errors"
	"fmt"
)

var (
	// ErrTruncated: the bytes end inside a command.
	ErrTruncated = errors.New("truncated command")
	// ErrIllegal: no revision uses the id; mostly, the reader isn't at the start of a command.
	ErrIllegal = errors.New("illegal command id")
	// ErrNewer: the id exists only in later revisions.
	ErrNewer = errors.New("command of a newer tt-metal revision")
	// ErrPadding: a byte that no field owns isn't zero, or a derived field isn't as encoded.
	ErrPadding = errors.New("bytes that no encoder writes")
	// ErrFormat: fields contradict each other.
	ErrFormat = errors.New("inconsistent command")
	// ErrLimit: a value exceeds the format or the firmware.
	ErrLimit = errors.New("limit exceeded")
	// ErrOrder: this order of commands makes the device hang or read garbage.
	ErrOrder = errors.New("commands out of order")
)

// LimitError says which field of which command exceeds the format or the firmware.
type LimitError struct {
	Command string
	Field   string
	Value   uint64
	Want    string // the limit in words
	Fix     string
	Offset  int
}

func (e *LimitError) Error() string {
	where := ""
	if e.Offset != 0 {
		where = fmt.Sprintf(" at +0x%x", e.Offset)
	}
	return fmt.Sprintf("cq: %s%s: %s is %d (0x%x), want %s: %s", e.Command, where, e.Field, e.Value, e.Value, e.Want, e.Fix)
}

func (e *LimitError) Unwrap() error { return ErrLimit }

// FormatError wraps ErrTruncated, ErrIllegal, ErrNewer, ErrPadding, ErrFormat or ErrOrder.
type FormatError struct {
	Offset  int
	Command string // empty if unknown
	What    string
	Err     error
}

func (e *FormatError) Error() string {
	c := e.Command
	if c == "" {
		c = "command"
	}
	return fmt.Sprintf("cq: %s at +0x%x: %v: %s", c, e.Offset, e.Err, e.What)
}

func (e *FormatError) Unwrap() error { return e.Err }

func limit[T int | uint8 | uint16 | uint32 | uint64](command, field string, v T, want, fix string) error {
	return &LimitError{Command: command, Field: field, Value: uint64(v), Want: want, Fix: fix}
}

func shift(err error, n int) error {
	var f *FormatError
	if errors.As(err, &f) {
		g := *f
		g.Offset += n
		return &g
	}
	var l *LimitError
	if errors.As(err, &l) {
		g := *l
		g.Offset += n
		return &g
	}
	return err
}

func bad(err error, off int, command, format string, args ...any) error {
	return &FormatError{Offset: off, Command: command, What: fmt.Sprintf(format, args...), Err: err}
}
