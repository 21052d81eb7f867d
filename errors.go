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
	// ErrClosed is returned when something is used after its device was closed.
	ErrClosed = errors.New("the device is closed")
	// ErrReleased is returned when a buffer, executable or trace is used after it was released.
	ErrReleased = errors.New("it has been released already")
	// ErrRecovering is returned by what a Recover ends, and by what is put into a queue before it
	// is through.
	ErrRecovering = errors.New("the device is being recovered")
	// ErrLayout is returned for a part of a buffer where only a whole one will do: in the place of
	// a loaded trace's.
	ErrLayout = errors.New("only a whole buffer can be used")
	// ErrWrongDevice is returned when a buffer, executable or trace of one device is used with
	// another.
	ErrWrongDevice = errors.New("it belongs to another device")
	// ErrCaptureEnded is returned when a Recorder is used after the function it was handed to has
	// returned.
	ErrCaptureEnded = errors.New("the capture has ended")
	// ErrReserved is returned by what would run while a trace is being stepped through or checked
	// on the queue, and by releasing that trace meanwhile.
	ErrReserved = dispatch.ErrReserved
	// ErrNotCapturing is returned by Recorder.End and Recorder.Discard when there is nothing to
	// end: Begin didn't start the capture, or it has ended.
	ErrNotCapturing = errors.New("no capture is under way that Begin started")
	// ErrInCapture is returned for what can't be done while a trace is captured. A *CaptureError
	// says where and why.
	ErrInCapture = errors.New("it can't be part of a trace")
	// ErrNestedCapture is an ErrInCapture: a capture was started inside another, or on a queue that
	// is recording.
	ErrNestedCapture = fmt.Errorf("a capture is under way: %w", ErrInCapture)
	// ErrReplayInCapture is an ErrInCapture: a trace was replayed inside a capture, or on a queue
	// that is recording.
	ErrReplayInCapture = fmt.Errorf("a replay inside a capture: %w", ErrInCapture)
	// ErrSkipped is the error of a part of a trace that wasn't replayed because another part
	// couldn't be.
	ErrSkipped = dispatch.ErrSkipped
	// ErrNoParam is returned when a trace has no parameter of a name, or it is of another kind.
	ErrNoParam = tracebuf.ErrNoParam
	// ErrOtherQueue is returned for a queue that a trace or a capture has no part on.
	ErrOtherQueue = errors.New("it belongs to another queue")

	// ErrEmptyTrace is returned when a capture recorded nothing.
	ErrEmptyTrace = tracebuf.ErrEmpty
	// ErrDamagedTrace is returned for a trace file that was changed or cut off, ErrInvalidTrace for
	// one that no recorder makes, and ErrOtherTarget for one of another kind of device.
	ErrDamagedTrace = tracebuf.ErrDamaged
	ErrInvalidTrace = tracebuf.ErrInvalid
	ErrOtherTarget  = tracebuf.ErrTarget
	// ErrOutOfMemory is returned when device memory doesn't hold what was asked for; a
	// *allocator.OutOfMemoryError says more.
	ErrOutOfMemory = allocator.ErrOutOfMemory
	// ErrTimeout is the cause of a *dispatch.HangError when nothing else is known.
	ErrTimeout = dispatch.ErrTimeout
	// ErrNoDevice is returned when there is no device at a path: the card is absent or the driver
	// isn't loaded.
	ErrNoDevice = kmd.ErrNoDevice
	// ErrPermission is returned when a device node exists and this user may not open it.
	ErrPermission = kmd.ErrPermission
	// ErrBusy is returned when what users of a card share is taken: ranges of host memory, windows.
	ErrBusy = kmd.ErrBusy
	// ErrDeviceLost is returned when the device is gone, or was reset under the runtime.
	ErrDeviceLost = kmd.ErrDeviceLost
)

// callerPC returns the call site of the caller's caller.
func callerPC() uintptr {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	return pc[0]
}

// overlap adds the call site to an *dispatch.OverlapError.
func overlap(err error) error {
	var o *dispatch.OverlapError
	if errors.As(err, &o) {
		at := callSite()
		o.Site = fmt.Sprintf("%s:%d", filepath.Base(at.File), at.Line)
	}
	return err
}

// callSite returns the call site that the caller works for; its File is empty if that is on another
// goroutine.
func callSite() runtime.Frame {
	pc := userPC()
	if pc == 0 {
		return runtime.Frame{}
	}
	at, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return at
}

// userPC returns the call site that the caller works for: the innermost one outside of this package
// and of those that call it for their own callers. It is 0 if that is on another goroutine.
func userPC() uintptr {
	var pcs [5]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			f := runtime.FuncForPC(pc - 1)
			switch {
			case f == nil:
			case isWrapper(f.Name()):
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

// modulePath is the path of this package. It isn't written here, so that a copy of the module under
// another one needs no change.
var modulePath = reflect.TypeFor[trimmedError]().PkgPath()

// isWrapper reports whether a function is of this package, or of one that calls it, or is called by
// it, for others' callers.
func isWrapper(function string) bool {
	rest, ok := strings.CutPrefix(function, modulePath)
	return ok && slices.ContainsFunc([]string{".", "/mesh.", "/pipeline.", "/allocator."},
		func(p string) bool { return strings.HasPrefix(rest, p) })
}

// trimmedError is an error without its "program X:" prefix: the error around it names the program
// already.
type trimmedError struct {
	err  error
	text string
}

func (e *trimmedError) Error() string { return e.text }

func (e *trimmedError) Unwrap() error { return e.err }

// nameOnce prepares an error for one that names the program before it.
func nameOnce(program string, err error) error {
	before, after, ok := strings.Cut(err.Error(), fmt.Sprintf("program %q: ", program))
	if !ok {
		return err
	}
	return &trimmedError{err, before + after}
}
