package reprise

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// recording is the state of a capture that devices and queues see.
type recording struct {
	name   string
	queues []*Queue // in the order of the call
	begun  runner   // the Recorder of a capture by Queue.Begin, else nil

	mu    sync.Mutex // guards what is recorded as well
	err   error      // the first one
	ended atomic.Bool
}

type runner interface {
	Run(x *Executable, args ...Arg) error
}

func (c *recording) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = cmp.Or(c.err, err)
}

type captureKey struct{}

// CaptureError is returned for what a capture can't hold. It names the operation, its call site and
// the alternative. Err is ErrInCapture, an error that wraps it, or why a program couldn't be
// recorded.
type CaptureError struct {
	Trace   string // name of the trace
	Op      string // "run program \"dense\"", "write buffer \"in\""
	File    string // of the call; empty if it is on another goroutine
	Line    int
	Err     error
	Instead string // empty without an alternative
}

func (e *CaptureError) Error() string {
	at := ""
	if e.File != "" {
		at = fmt.Sprintf(" at %s:%d", e.File, e.Line)
	}
	s := fmt.Sprintf("reprise: capture %q: %s%s: %v", e.Trace, e.Op, at, e.Err)
	if e.Instead != "" {
		s += ": " + e.Instead
	}
	return s
}

// Unwrap returns why it can't be recorded.
func (e *CaptureError) Unwrap() error { return e.Err }

type captureOp uint8

const (
	opWrite captureOp = iota
	opRead
	opQueueWait
	opRun
	opReplay
	opCapture
	opAllocate
	opLoad
	opLoadTrace
	opDebug
	opRecord
	opWaitEvent
	opEventWait
)

var refusals = [...]struct {
	what    string
	err     error
	instead string
}{
	opWrite:     {"write buffer", ErrInCapture, "a trace holds programs only: write before the capture, and between replays"},
	opRead:      {"read buffer", ErrInCapture, "nothing has run yet: read after a replay"},
	opQueueWait: {"wait for queue", ErrInCapture, "nothing of the capture has run yet: wait before it, or after a replay"},
	opRun:       {"run program", ErrInCapture, "it would run now instead of being recorded: use Recorder.Run"},
	opReplay:    {"replay trace", ErrReplayInCapture, "a trace can't hold another: record its programs, or replay both in turn"},
	opCapture:   {"capture", ErrNestedCapture, "end this capture first, or record all programs into it"},
	opAllocate:  {"allocate buffer", ErrInCapture, "allocate it before the capture, or take it from a Pool"},
	opLoad:      {"load program", ErrInCapture, "its kernels would have to be written: load it before the capture"},
	opLoadTrace: {"load trace", ErrInCapture, "load it before the capture"},
	opRecord:    {"record event", ErrInCapture, "use Recorder.Record in a capture over several queues, or record it after a replay"},
	opWaitEvent: {"wait for event", ErrInCapture, "use Recorder.WaitEvent in a capture over several queues, or wait before a replay"},
	opEventWait: {"wait on the host for event", ErrInCapture,
		"nothing of the capture has run yet: do it before the capture, or after a replay"},
	opDebug: {"debug trace", ErrInCapture, "its programs would have to run: do it before the capture"},
}

func (op captureOp) what() string { return refusals[op].what }

func (op captureOp) refusal(trace, what string) *CaptureError {
	at, why := callSite(), &refusals[op]
	return &CaptureError{Trace: trace, Op: what, File: at.File, Line: at.Line, Err: why.err, Instead: why.instead}
}

// refuse returns a *CaptureError if an operation belongs to a capture of the device: by its
// context, or because of Begin on the queue; if q is nil, on any queue.
func (d *Device) refuse(ctx context.Context, q *Queue, op captureOp, name string) error {
	if d.capturing.Load() == 0 {
		return nil
	}
	c := d.captureOf(ctx, q)
	if c == nil {
		return nil
	}
	err := op.refusal(c.name, op.what())
	if name != "" {
		err.Op = fmt.Sprintf("%s %q", err.Op, name)
	}
	// A capture by Begin lacks nothing after a second Begin or a refused allocation.
	if c.begun == nil || q != nil && op != opCapture {
		c.fail(err)
	}
	return err
}

// admit refuses what a closed device or a capture can't do.
func (d *Device) admit(ctx context.Context, q *Queue, what string, op captureOp, name string) error {
	if err := d.usable(what); err != nil {
		return err
	}
	return d.refuse(ctx, q, op, name)
}

func (d *Device) captureOf(ctx context.Context, q *Queue) *recording {
	if c, ok := ctx.Value(captureKey{}).(*recording); ok && !c.ended.Load() &&
		slices.ContainsFunc(c.queues, func(o *Queue) bool { return o.d == d }) {
		return c
	}
	for _, o := range d.queues {
		if c := o.rec.Load(); c != nil && (q == nil || q == o) {
			return c
		}
	}
	return nil
}
