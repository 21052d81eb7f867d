package mesh

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrClosed is returned when something is used after its mesh, or the mesh that this is a part of, was closed.
	ErrClosed = errors.New("the mesh is closed")
	// ErrWrongMesh is returned when an object of one mesh is used with another mesh.
	ErrWrongMesh = errors.New("it belongs to another mesh")
	// ErrShape is wrapped by every *ShapeError and *RangeError.
	ErrShape = errors.New("the mesh has no such shape")
	// ErrMissing is why a target has no chip that can be used.
	ErrMissing = errors.New("the chip can't be used")
	// ErrTensor is returned for tensors that don't fit a buffer's place on the mesh.
	ErrTensor = errors.New("the tensor can't be laid out so")
	// ErrMismatch is returned when chips differ in what has to be equal.
	ErrMismatch = errors.New("the chips differ")
	// ErrSkipped is the error of a chip that did not do its part because another chip failed.
	ErrSkipped = errors.New("skipped because another chip failed")
)

// ShapeError says why chips can't make a mesh of a shape.
type ShapeError struct {
	Shape    Shape
	Why      string
	Possible []Shape  // that the chips can make, of the same number of axes, largest first
	Problems []string // links that are down, chips that are missing
}

// Error implements error.
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

// Unwrap returns ErrShape.
func (e *ShapeError) Unwrap() error { return ErrShape }

// RangeError says why a mesh has no such part.
type RangeError struct {
	Range Range
	Shape Shape // of the mesh
	Why   string
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("mesh: range %v of a mesh of shape %v: %s", e.Range, e.Shape, e.Why)
}

// Unwrap returns ErrShape.
func (e *RangeError) Unwrap() error { return ErrShape }

// ChipState is what became of a chip in something that spans chips.
type ChipState struct {
	Coord Coord // nil while the chip has no place yet
	Name  string
	Err   error // nil if the chip did its part
}

// String says where the chip is and what became of it.
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

// Error says what became of each chip in something that spans chips and that some of them didn't do.
type Error struct {
	Op    string // "replay trace \"layer\""
	Chips []ChipState
}

// Error implements error.
func (e *Error) Error() string {
	failed := 0
	var l []string
	for i := range e.Chips {
		if err := e.Chips[i].Err; err != nil && !errors.Is(err, ErrSkipped) {
			failed++
		}
		l = append(l, e.Chips[i].String())
	}
	return fmt.Sprintf("mesh: %s: %d of %d chips failed: %s", e.Op, failed, len(e.Chips), strings.Join(l, "; "))
}

// Unwrap returns the errors of the chips.
func (e *Error) Unwrap() []error {
	var out []error
	for i := range e.Chips {
		if err := e.Chips[i].Err; err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Failed returns the chips that failed, without those that only weren't asked any more.
func (e *Error) Failed() []ChipState {
	var out []ChipState
	for _, c := range e.Chips {
		if c.Err != nil && !errors.Is(c.Err, ErrSkipped) {
			out = append(out, c)
		}
	}
	return out
}
