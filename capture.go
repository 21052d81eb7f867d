package reprise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// captures are the captures of a device that are under way.
type captures struct {
	mu   sync.Mutex
	open atomic.Pointer[[]*Recorder] // nil when there is none, so that others need look no further
}

// add enters a capture, with a mark that no other one of the device has.
func (c *captures) add(r *Recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []*Recorder
	if p := c.open.Load(); p != nil {
		open = *p
	}
	for r.mark = rand.Uint32(); slices.ContainsFunc(open, func(o *Recorder) bool { return o.mark == r.mark }); r.mark++ {
	}
	if len(open) == 0 {
		r.self[0] = r
		r.open = r.self[:]
	} else {
		r.open = append(slices.Clip(open), r)
	}
	c.open.Store(&r.open)
}

func (c *captures) remove(r *Recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := *c.open.Load()
	if len(open) == 1 {
		c.open.Store(nil)
		return
	}
	rest := make([]*Recorder, 0, len(open)-1)
	for _, o := range open {
		if o != r {
			rest = append(rest, o)
		}
	}
	c.open.Store(&rest)
}

// Capture records what record puts into the Recorder as a trace of that name and writes the trace to DRAM. Nothing
// runs, and the queue is as before; other goroutines may go on using it.
//
// Inside record the device can't be used otherwise: to transfer, to allocate, to load, to wait, to replay or to capture
// is a *CaptureError that names the place, and the capture fails with it even if record drops it. (What record has other
// goroutines do is theirs.) Buffers may be freed and executables closed: the trace keeps them.
//
// When record or anything else fails, nothing is left behind.
func (q *Queue) Capture(ctx context.Context, name string, record func(*Recorder) error) (*Trace, error) {
	if q.d.watch.on.Load() == nil {
		return q.capture(ctx, name, record)
	}
	var t *Trace
	call := &Call{Kind: CallCapture, Queues: q.self, Name: name}
	err := q.d.observed(ctx, call, func() (err error) {
		if t, err = q.capture(ctx, name, record); err == nil {
			call.Object, call.Bytes = t, t.Size()
		}
		return err
	})
	return t, err
}

func (q *Queue) capture(ctx context.Context, name string, record func(*Recorder) error) (*Trace, error) {
	if record == nil {
		return nil, fmt.Errorf("reprise: capture %q: no function to record with: it is nil", name)
	}
	r, err := q.record(name, false)
	if err != nil {
		return nil, err
	}
	r.t.site = userPC() // from here it is near
	if err := r.call(record); err != nil {
		return nil, err
	}
	return r.finish(ctx)
}

// call has a function record, and ends the capture whatever becomes of it.
func (r *Recorder) call(record func(*Recorder) error) (err error) {
	cause := errPanicked
	defer func() { err = r.close(cause) }()
	cause = spell(r.mark, markBits, func() error { return record(r) })
	return nil
}

var errPanicked = errors.New("the function that records panicked")

// Begin starts a capture without a function, for programs that are ported from interfaces where it is so. Until
// [Recorder.End] or [Recorder.Discard] whatever [Queue.Run] is given on this queue, by any goroutine, is recorded
// instead of run. Transfers, Finish and replays on this queue fail meanwhile with a *CaptureError, and so do
// allocating and loading on the device; if it is the queue that refuses, End fails too, since the trace would lack what
// was refused.
func (q *Queue) Begin(name string) (*Recorder, error) {
	return q.record(name, true)
}

// record starts a capture.
func (q *Queue) record(name string, begun bool) (*Recorder, error) {
	d := q.d
	if err := d.usable("capture"); err != nil {
		return nil, err
	}
	if err := d.refuse(q, opCapture, name); err != nil {
		return nil, err
	}
	r := newRecorder(q, name, begun)
	if begun && !q.rec.CompareAndSwap(nil, r) {
		return nil, fmt.Errorf("reprise: capture %q: %w", name, ErrNestedCapture)
	}
	d.captures.add(r)
	return r, nil
}

// End ends a capture that [Queue.Begin] started and writes the trace to DRAM. From then on the queue runs what it is
// given, also if End fails; then nothing else is left behind.
func (r *Recorder) End(ctx context.Context) (*Trace, error) {
	if err := r.end("end"); err != nil {
		return nil, err
	}
	if err := r.close(nil); err != nil {
		return nil, err
	}
	return r.finish(ctx)
}

// Discard ends a capture that [Queue.Begin] started, without a trace, whether it could have become one or not.
func (r *Recorder) Discard() error {
	if err := r.end("discard"); err != nil {
		return err
	}
	_ = r.close(errDiscarded) // or why the capture would have failed anyway
	return nil
}

var errDiscarded = errors.New("it was discarded")

// end makes the queue run again what it is given.
func (r *Recorder) end(op string) error {
	if r == nil {
		return fmt.Errorf("reprise: %s capture: no recorder: it is nil: %w", op, ErrNotCapturing)
	}
	if !r.begun || !r.q.rec.CompareAndSwap(r, nil) {
		return fmt.Errorf("reprise: %s capture %q: %w", op, r.name, ErrNotCapturing)
	}
	return nil
}
