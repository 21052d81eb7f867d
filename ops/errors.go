package ops

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
)

var (
	// ErrShape is in errors about tensors whose shapes don't fit an operation or each other.
	ErrShape = errors.New("shapes don't fit")
	// ErrDataType is in errors about data types that differ or that an operation doesn't support.
	ErrDataType = errors.New("data types don't fit")
	// ErrMemory is in errors about a memory configuration that a tensor can't have, or a layout
	// that an operation doesn't support.
	ErrMemory = errors.New("memory configuration doesn't fit")
	// ErrReleased is in errors about tensors that were deallocated.
	ErrReleased = reprise.ErrReleased
	// ErrWrongDevice is in errors about tensors that belong to another Device or Mesh.
	ErrWrongDevice = reprise.ErrWrongDevice
	// ErrOtherHost is in errors about meshes with chips of other hosts.
	ErrOtherHost = errors.New("the mesh has chips of other hosts")
	// ErrQueue is in errors about a queue that the device doesn't have: see [OnQueue].
	ErrQueue = reprise.ErrNoQueue
	// ErrPlanned is in errors about tensors of a capture without dispatch after its end.
	ErrPlanned = errors.New("the tensor was only planned, in a capture without dispatch")
	// ErrCacheMiss is in a [*CacheMissError].
	ErrCacheMiss = errors.New("the program is not in the program cache")
	// ErrNoParam is in errors about parameters that an operation doesn't have.
	ErrNoParam = reprise.ErrNoParam
	// ErrNotCapturing is in errors about ending a graph capture that has ended, or that isn't the
	// innermost one.
	ErrNotCapturing = errors.New("it is not the innermost capture that is under way")
)

// CacheMissError says that the program of an operation isn't in the program cache while a trace,
// which can't hold its loading, is captured. It matches [ErrCacheMiss] and wraps
// reprise.ErrInCapture.
type CacheMissError struct {
	Op  string // name of the kernel
	Key string // of the program in the cache: kernel and kinds of tensors
	Err error  // of the device, with the names of the trace and the caller
}

func (e *CacheMissError) Error() string {
	return fmt.Sprintf("ops: %s: %v: run it once with tensors of the same kind before the capture (%s): %v", e.Op, ErrCacheMiss, e.Key, e.Err)
}

func (e *CacheMissError) Is(target error) bool { return target == ErrCacheMiss }

func (e *CacheMissError) Unwrap() error { return e.Err }

// OptionError says that an operation doesn't take some options, or a form of a product some fields
// of [MatmulProgram]. It wraps [ErrNoParam] if [WithParam] is one of them.
type OptionError struct {
	Operation string   // by its name in graphs
	Options   []string // functions of this package, or fields of MatmulProgram
	Takes     []string
}

func (e *OptionError) Error() string {
	list := func(names []string) string { return strings.Join(names, ", ") }
	return fmt.Sprintf("no effect of %s: leave it out; %s takes %s", list(e.Options), e.Operation, list(e.Takes))
}

func (e *OptionError) Unwrap() error {
	if slices.Contains(e.Options, "WithParam") {
		return ErrNoParam
	}
	return nil
}

// OverlapError says that an operation would write a result to memory that an operand or another
// result has. It wraps [ErrMemory].
type OverlapError struct{ Result, Other *Tensor }

func (e *OverlapError) Error() string {
	return fmt.Sprintf("%v: result tensor %d shares memory with tensor %d: take one with memory of its own (see Device.Empty)", ErrMemory,
		e.Result.id, e.Other.id)
}

func (e *OverlapError) Unwrap() error { return ErrMemory }

// opError is the error of an operation. Nested opErrors name the package once.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return "ops: " + e.text() }

func (e *opError) text() string {
	if inner, ok := e.err.(*opError); ok {
		return e.op + ": " + inner.text()
	}
	return e.op + ": " + e.err.Error()
}

func (e *opError) Unwrap() error { return e.err }

func shapeError(format string, args ...any) error  { return kindError(ErrShape, format, args...) }
func typeError(format string, args ...any) error   { return kindError(ErrDataType, format, args...) }
func memoryError(format string, args ...any) error { return kindError(ErrMemory, format, args...) }

func kindError(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}
