package chip

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownArch is returned for an architecture other than Wormhole and Blackhole.
	ErrUnknownArch = errors.New("unknown architecture: want wormhole or blackhole")
	// ErrHarvesting is returned for a harvesting mask that no product has: a bit for a row, column,
	// bank or channel that does not exist, or a unit that cannot be harvested, or nothing left.
	ErrHarvesting = errors.New("impossible harvesting")
	// ErrCoordinate is returned for a coordinate that names no tile in the space it was given in. A
	// [*CoordinateError] wraps it.
	ErrCoordinate = errors.New("no such coordinate")
	// ErrWindow is returned for a TLB window configuration that the hardware cannot hold: a size
	// that the architecture does not have, an address that is not a multiple of it or too large, or
	// a field out of range.
	ErrWindow = errors.New("impossible TLB window configuration")
)

// CoordinateError says which coordinate was refused, in which space, and why. It matches
// [ErrCoordinate].
type CoordinateError struct {
	Arch  Arch
	Space string // "logical", "virtual" or "raw"
	X, Y  int
	Why   string
}

// Error implements error.
func (e *CoordinateError) Error() string {
	return fmt.Sprintf("chip: %s %s coordinate (%d,%d): %s", e.Arch, e.Space, e.X, e.Y, e.Why)
}

// Unwrap returns [ErrCoordinate].
func (e *CoordinateError) Unwrap() error { return ErrCoordinate }

// WindowError says what of a TLB window configuration was refused and why. It matches [ErrWindow].
type WindowError struct {
	Arch  Arch
	Size  uint64 // window size in bytes
	Field string // the field at fault: "size", "address", "target", "start", "ordering", "vc", "noc"
	Value uint64
	Why   string
}

// Error implements error.
func (e *WindowError) Error() string {
	return fmt.Sprintf("chip: %s TLB window of %#x B: %s %#x: %s", e.Arch, e.Size, e.Field, e.Value, e.Why)
}

// Unwrap returns [ErrWindow].
func (e *WindowError) Unwrap() error { return ErrWindow }
