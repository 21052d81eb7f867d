package reprise

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf"
)

var (
	// ErrClosed: the device was closed before or during the call.
	ErrClosed = errors.New("the device is closed")
	// ErrReleased: a buffer, executable or trace was used after its release.
	ErrReleased = errors.New("it has been released already")
	// ErrRecovering: Recover ended the wait, or isn't through yet.
	ErrRecovering = errors.New("the device is being recovered")
	// ErrLayout: a loaded trace was given a part of a buffer instead of a whole one.
	ErrLayout = errors.New("only a whole buffer can be used")
	// ErrWrongDevice: a buffer, executable or trace of one device was used with another.
	ErrWrongDevice = errors.New("it belongs to another device")
	// ErrCaptureEnded: a Recorder was used after its capture's function had returned.
	ErrCaptureEnded = errors.New("the capture has ended")
	// ErrReserved: a trace is being stepped through or checked on the queue, so nothing else runs
	// there, and that trace can't be released.
	ErrReserved = dispatch.ErrReserved
	// ErrNotCapturing: End or Discard was called for a capture that Begin didn't start or that has
	// ended.
	ErrNotCapturing = errors.New("no capture is under way that Begin started")
	// ErrInCapture: a capture can't hold the operation. A *CaptureError says where and why.
	ErrInCapture = errors.New("it can't be part of a trace")
	// ErrNestedCapture is an ErrInCapture: a capture was started inside another, or on a queue that
	// is recording.
	ErrNestedCapture = fmt.Errorf("a capture is under way: %w", ErrInCapture)
	// ErrReplayInCapture is an ErrInCapture: a trace was replayed inside a capture, or on a queue
	// that is recording.
	ErrReplayInCapture = fmt.Errorf("a replay inside a capture: %w", ErrInCapture)
	// ErrSkipped: a part of a trace wasn't replayed because another part couldn't be.
	ErrSkipped = dispatch.ErrSkipped
	// ErrNoParam: the trace has no parameter of that name and kind.
	ErrNoParam = tracebuf.ErrNoParam
	// ErrNoQueue: [Device.Queue] was asked for a number that the device doesn't have.
	ErrNoQueue = errors.New("no such queue")
	// ErrOtherQueue: the trace or capture has no part on the queue.
	ErrOtherQueue = errors.New("it belongs to another queue")

	// ErrEmptyTrace: a capture recorded nothing.
	ErrEmptyTrace = tracebuf.ErrEmpty
	// ErrDamagedTrace: a trace file was changed or cut off. ErrInvalidTrace: no recorder makes such
	// a file. ErrOtherTarget: the file is for another kind of device.
	ErrDamagedTrace = tracebuf.ErrDamaged
	ErrInvalidTrace = tracebuf.ErrInvalid
	ErrOtherTarget  = tracebuf.ErrTarget
	// ErrOutOfMemory: device memory is full. A *allocator.OutOfMemoryError says more.
	ErrOutOfMemory = allocator.ErrOutOfMemory
	// ErrTimeout: nothing moved for the hang timeout; the cause of a *dispatch.HangError when
	// nothing else is known.
	ErrTimeout = dispatch.ErrTimeout
	// ErrNoDevice: there is no device at the path; the card is absent or the driver isn't loaded.
	ErrNoDevice = kmd.ErrNoDevice
	// ErrPermission: this user may not open the device node.
	ErrPermission = kmd.ErrPermission
	// ErrBusy: what users of a card share is taken: ranges of host memory, or windows.
	ErrBusy = kmd.ErrBusy
	// ErrDeviceLost: the device is gone, or was reset by another process. A *kmd.LostError has the
	// first cause.
	ErrDeviceLost = kmd.ErrDeviceLost
)

// checkObject refuses an object of another device, or after its release.
func checkObject(what, name string, here, released bool) error {
	switch {
	case !here:
		return fmt.Errorf("%s %q: %w", what, name, ErrWrongDevice)
	case released:
		return fmt.Errorf("%s %q: %w", what, name, ErrReleased)
	}
	return nil
}

func callerPC() uintptr {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	return pc[0]
}

func overlap(err error) error {
	if err == nil {
		return nil // before anything is allocated
	}
	var o *dispatch.OverlapError
	if errors.As(err, &o) {
		at := callSite()
		o.Site = fmt.Sprintf("%s:%d", filepath.Base(at.File), at.Line)
	}
	return err
}

// callSite is userPC with file and line; zero if userPC is.
func callSite() runtime.Frame {
	at, _ := runtime.CallersFrames([]uintptr{userPC()}).Next()
	return at
}

// userPC returns the user's call site: the innermost one outside of this package and its wrappers.
// It is 0 if that is on another goroutine.
func userPC() uintptr {
	var pcs [5]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			f := runtime.FuncForPC(pc - 1)
			switch {
			case f == nil || isWrapper(f.Name()):
			case f.Name() == "runtime.goexit":
				return 0
			default:
				return pc
			}
		}
		if n < len(pcs) {
			return 0
		}
	}
}

// modulePath is found by reflection, for renamed copies of the module.
var modulePath = reflect.TypeFor[trimmedError]().PkgPath()

func isWrapper(function string) bool {
	rest, ok := strings.CutPrefix(function, modulePath)
	return ok && slices.ContainsFunc([]string{".", "/mesh.", "/pipeline.", "/allocator."},
		func(p string) bool { return strings.HasPrefix(rest, p) })
}

type trimmedError struct {
	err  error
	text string
}

func (e *trimmedError) Error() string { return e.text }

func (e *trimmedError) Unwrap() error { return e.err }

// nameOnce removes the program's name from an error that will be wrapped with that name.
func nameOnce(program string, err error) error {
	before, after, ok := strings.Cut(err.Error(), fmt.Sprintf("program %q: ", program))
	if !ok {
		return err
	}
	return &trimmedError{err, before + after}
}
