package mesh

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrClosed.
	ErrClosed = errors.New("the mesh is closed")
	// ErrWrongMesh.
	ErrWrongMesh = errors.New("it belongs to another mesh")
	// ErrShape is wrapped by every [*ShapeError] and [*RangeError].
	ErrShape = errors.New("the mesh has no such shape")
	// ErrMissing is in a ShapeError's Problems for a target that can't be opened.
	ErrMissing = errors.New("the chip can't be used")
	// ErrTensor: a tensor can't be divided over the mesh, or a collective can't use a buffer.
	ErrTensor = errors.New("the tensor can't be laid out so")
	// ErrMismatch.
	ErrMismatch = errors.New("the chips differ")
	// ErrSkipped.
	ErrSkipped = errors.New("skipped because another chip failed")
)

// ShapeError: the chips can't form a mesh of a shape.
type ShapeError struct {
	Shape    Shape
	Why      string
	Possible []Shape // with as many axes, largest first
	Problems []string
}

func (e *ShapeError) Error() string {
	s := fmt.Sprintf("mesh: shape %v: %s", e.Shape, e.Why)
	if len(e.Possible) > 0 {
		var l []string
		for _, p := range e.Possible {
			l = append(l, p.String())
		}
		s += "; possible is " + strings.Join(l, ", ")
	}
	if len(e.Problems) > 0 {
		s += "; " + strings.Join(e.Problems, "; ")
	}
	return s
}

func (e *ShapeError) Unwrap() error { return ErrShape }

// RangeError.
type RangeError struct {
	Range Range
	Shape Shape
	Why   string
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("mesh: range %v of a mesh of shape %v: %s", e.Range, e.Shape, e.Why)
}

func (e *RangeError) Unwrap() error { return ErrShape }

// ChipState is the result of one chip in an operation on several.
type ChipState struct {
	Coord Coord
	Name  string
	Err   error
}

func (c *ChipState) String() string {
	at := c.Name
	if c.Coord != nil {
		at = c.Coord.String() + " " + at
	}
	if c.Err == nil {
		return at + ": ok"
	}
	return at + ": " + c.Err.Error()
}

// Error is the failure of an operation on some chips, with the state of every chip.
type Error struct {
	Op    string // such as "replay trace \"layer\""
	Chips []ChipState
}

func (e *Error) Error() string {
	var l []string
	for i := range e.Chips {
		l = append(l, e.Chips[i].String())
	}
	return fmt.Sprintf("mesh: %s: %d of %d chips failed: %s", e.Op, len(e.Failed()), len(e.Chips), strings.Join(l, "; "))
}

func (e *Error) Unwrap() []error {
	var out []error
	for i := range e.Chips {
		if err := e.Chips[i].Err; err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Failed returns the chips that failed, without skipped ones.
func (e *Error) Failed() []ChipState {
	var out []ChipState
	for _, c := range e.Chips {
		if c.Err != nil && !errors.Is(c.Err, ErrSkipped) {
			out = append(out, c)
		}
	}
	return out
}
