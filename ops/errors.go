package ops

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
)

var (
	// ErrShape is in errors about tensors that don't fit an operation, or each other.
	ErrShape = errors.New("shapes don't fit")
	// ErrDataType is in errors about data types that an operation can't use, or that differ.
	ErrDataType = errors.New("data types don't fit")
	// ErrMemory is in errors about a memory configuration that a tensor can't have.
	ErrMemory = errors.New("memory configuration doesn't fit")
	// ErrReleased is in errors about tensors that were deallocated.
	ErrReleased = reprise.ErrReleased
	// ErrWrongDevice is in errors about tensors that belong to another Device or Mesh.
	ErrWrongDevice = reprise.ErrForeign
	// ErrPlanned is in errors about tensors that a capture without dispatch made, after its end: they have no memory.
	ErrPlanned = errors.New("the tensor was only planned, in a capture without dispatch")
	// ErrCacheMiss is in errors about programs that are not in the program cache while a trace is captured; a
	// [*CacheMissError] says more.
	ErrCacheMiss = errors.New("the program is not in the program cache")
	// ErrNotCapturing is in errors about the end of a graph's capture that has ended, or isn't the innermost.
	ErrNotCapturing = errors.New("it is not the innermost capture that is under way")
)

// CacheMissError says that an operation's program isn't in the program cache while a trace is captured: loading it would
// have to write to the device, and a trace holds no writes. It is an [ErrCacheMiss] and, by its cause, a
// reprise.ErrInCapture.
type CacheMissError struct {
	Op  string // the operation
	Key string // under which its program would be found
	Err error  // of the device: it names the trace and the caller
}

func (e *CacheMissError) Error() string {
	return fmt.Sprintf("ops: %s: %v: run it once with tensors of the same kind before the capture (%s): %v", e.Op, ErrCacheMiss, e.Key, e.Err)
}

// Is makes the error an [ErrCacheMiss].
func (e *CacheMissError) Is(target error) bool { return target == ErrCacheMiss }

// Unwrap returns the device's error.
func (e *CacheMissError) Unwrap() error { return e.Err }
