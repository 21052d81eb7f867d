package chip

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownArch.
	ErrUnknownArch = errors.New("unknown architecture: want wormhole or blackhole")
	// ErrHarvesting: the mask names a unit that doesn't exist or can't be harvested, or leaves
	// nothing.
	ErrHarvesting = errors.New("impossible harvesting")
	// ErrCoordinate: the coordinate names no tile in its space. A [*CoordinateError] wraps it.
	ErrCoordinate = errors.New("no such coordinate")
	// ErrWindow: the hardware can't hold the TLB window configuration. A [*WindowError] wraps it.
	ErrWindow = errors.New("impossible TLB window configuration")
)

// CoordinateError is a refused coordinate with its space and the reason.
type CoordinateError struct {
	Arch  Arch
	Space string // "logical", "virtual" or "raw"
	X, Y  int
	Why   string
}

func (e *CoordinateError) Error() string {
	return fmt.Sprintf("chip: %s %s coordinate (%d,%d): %s", e.Arch, e.Space, e.X, e.Y, e.Why)
}

func (e *CoordinateError) Unwrap() error { return ErrCoordinate }

// WindowError is a refused field of a TLB window configuration.
type WindowError struct {
	Arch  Arch
	Size  uint64
	Field string // "size", "address", "target", "start", "ordering", "vc", "noc"
	Value uint64
	Why   string
}

func (e *WindowError) Error() string {
	return fmt.Sprintf("chip: %s TLB window of %#x B: %s %#x: %s", e.Arch, e.Size, e.Field, e.Value, e.Why)
}

func (e *WindowError) Unwrap() error { return ErrWindow }
