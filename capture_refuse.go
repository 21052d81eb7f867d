package reprise

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// CaptureError is returned for what can't be done during a capture. It names the operation, where it was called, and
// what to do instead. Err is ErrInCapture or one of the more precise errors that wrap it, or why a program couldn't be
// recorded.
type CaptureError struct {
	Trace   string // name of the trace
	Op      string // "run program \"dense\"", "write buffer \"in\""
	File    string
	Line    int
	Err     error
	Instead string // empty if nothing else would do
}

// Error implements error.
func (e *CaptureError) Error() string {
	s := fmt.Sprintf("reprise: capture %q: %s at %s:%d: %v", e.Trace, e.Op, e.File, e.Line, e.Err)
	if e.Instead != "" {
		s += ": " + e.Instead
	}
	return s
}

// Unwrap returns why it can't be recorded.
func (e *CaptureError) Unwrap() error { return e.Err }

// captureOp is something that can't be done during a capture.
type captureOp uint8

const (
	opWrite captureOp = iota
	opRead
	opFinish
	opRun
	opReplay
	opCapture
	opAllocate
	opLoad
	opLoadTrace
	opDebug
	opRecord
	opWait
	opSynchronize
)

// refusals says of each operation how it is named, what the error is, and what to do instead.
var refusals = [...]struct {
	what    string
	err     error
	instead string
}{
	opWrite:       {"write buffer", ErrInCapture, "a trace holds programs only: write before the capture, and between replays"},
	opRead:        {"read buffer", ErrInCapture, "nothing has run yet: read after a replay"},
	opFinish:      {"finish", ErrInCapture, "nothing of the capture has run yet: finish before it, or after a replay"},
	opRun:         {"run program", ErrInCapture, "it would run now instead of being recorded: use Recorder.Run"},
	opReplay:      {"replay trace", ErrReplayInCapture, "a trace can't hold another: record its programs, or replay both in turn"},
	opCapture:     {"capture", ErrNestedCapture, "end this capture first, or record all programs into it"},
	opAllocate:    {"allocate buffer", ErrInCapture, "allocate it before the capture, or take it from a Pool"},
	opLoad:        {"load program", ErrInCapture, "its kernels would have to be written: load it before the capture"},
	opLoadTrace:   {"load trace", ErrInCapture, "load it before the capture"},
	opRecord:      {"record event", ErrInCapture, "use Recorder.Record in a capture over several queues, or record it behind a replay"},
	opWait:        {"wait for event", ErrInCapture, "use Recorder.Wait in a capture over several queues, or wait before a replay"},
	opSynchronize: {"synchronize with event", ErrInCapture, "nothing of the capture has run yet: do it before the capture, or after a replay"},
	opDebug:       {"debug trace", ErrInCapture, "its programs would have to run: do it before the capture"},
}

func (op captureOp) what() string { return refusals[op].what }

// refuse says whether an operation is part of a capture of the device, and which error it is then. q is nil if the
// operation is not one of a queue. Callers test d.captures.open first, where it counts.
func (d *Device) refuse(q *Queue, op captureOp, name string) error {
	open := d.captures.open.Load()
	if open == nil {
		return nil
	}
	// Others than the goroutine that captures get away with a look at the addresses on the stack.
	begun := slices.ContainsFunc(*open, func(r *Recorder) bool { return r.begun && (q == nil || q == r.q) })
	if !begun && !insideSome() {
		return nil
	}
	at := callSite()
	for _, r := range *open {
		if r.begun {
			if q != nil && q != r.q {
				continue
			}
		} else if !at.within(r.mark) {
			continue
		}
		to := refusals[op]
		err := &CaptureError{Trace: r.name, Op: to.what, File: at.file, Line: at.line, Err: to.err, Instead: to.instead}
		if name != "" {
			err.Op = fmt.Sprintf("%s %q", to.what, name)
		}
		// Who begins a capture twice, or allocates beside one, has lost nothing of it.
		if !r.begun || q != nil && op != opCapture {
			r.fail(err)
		}
		return err
	}
	return nil
}

// The stack of a goroutine says whether it is inside a capture's function, and of which: between Capture and the
// function lie frames of two kinds that spell the capture's mark. So a capture costs others nothing, and it needs no
// name for a goroutine, which Go doesn't have.
const markBits = 32

//go:noinline
func spell(mark uint32, left int, f func() error) error {
	if left == 0 {
		return f()
	}
	if mark>>(left-1)&1 != 0 {
		return spellOne(mark, left-1, f)
	}
	return spellZero(mark, left-1, f)
}

//go:noinline
func spellZero(mark uint32, left int, f func() error) error { return spell(mark, left, f) }

//go:noinline
func spellOne(mark uint32, left int, f func() error) error { return spell(mark, left, f) }

// insideSome says whether the goroutine may be inside a function that captures, of whatever device.
func insideSome() bool {
	var pcs [96]uintptr
	n := runtime.Callers(2, pcs[:])
	if n == len(pcs) {
		return true // too deep to say so quickly
	}
	mark := reflect.ValueOf(spell).Pointer()
	for _, pc := range pcs[:n] {
		if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == mark {
			return true
		}
	}
	return false
}

// site is where somebody called into this package.
type site struct {
	file  string
	line  int
	marks []uint32 // of the captures that the goroutine is in, inmost first
}

func (s *site) within(mark uint32) bool {
	for _, m := range s.marks {
		if m == mark {
			return true
		}
	}
	return false
}

// callSite walks the stack of its caller.
func callSite() site {
	const most = 1 << 16 // frames
	pcs := make([]uintptr, 128)
	n := runtime.Callers(2, pcs)
	for n == len(pcs) && n < most {
		pcs = make([]uintptr, 4*n)
		n = runtime.Callers(2, pcs)
	}
	var s site
	frames := runtime.CallersFrames(pcs[:n])
	bits, mark := 0, uint32(0)
	for {
		f, more := frames.Next()
		name, ours := strings.CutPrefix(f.Function, packagePath)
		if !ours && !strings.HasPrefix(f.Function, meshPath) && s.file == "" && f.File != "" {
			s.file, s.line = f.File, f.Line
		}
		switch {
		case ours && name == "spell":
			if bits == markBits {
				s.marks = append(s.marks, mark)
				bits, mark = 0, 0
			}
		case ours && (name == "spellZero" || name == "spellOne"):
			if name == "spellOne" { // from the lowest bit on, as the stack unwinds
				mark |= 1 << bits
			}
			bits++
		default:
			bits, mark = 0, 0
		}
		if !more {
			return s
		}
	}
}

// packagePath begins the names of this package's functions, meshPath those of the package that calls it for others.
const (
	packagePath = "github.com/reprise-tt/reprise."
	meshPath    = "github.com/reprise-tt/reprise/mesh."
)
