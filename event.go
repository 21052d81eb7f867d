package reprise

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch"
)

// Event marks a place among the commands of a queue, for other queues and for the host to wait for. It can be recorded
// again and again: [Queue.WaitEvent], Wait and Query mean its newest recording at the moment of the call, so a later
// recording doesn't change a wait that is in a queue already. Its methods may be called from any goroutine.
//
// Waits can't deadlock: what a queue waits for was put into another queue before the wait was.
type Event struct {
	d *Device
	e *dispatch.Event
}

// EventOption changes how NewEvent makes an event.
type EventOption func(*eventOptions)

type eventOptions struct{ timed bool }

// Timed makes an event take the device's time with each recording, for [Event.DeviceTime]. Recording it is refused
// (dispatch.ErrQueueFirmware) on a device that was opened with [WithQueueFirmware].
func Timed() EventOption { return func(o *eventOptions) { o.timed = true } }

// NewEvent returns an event that was never recorded. The name is for errors.
func (d *Device) NewEvent(name string, opts ...EventOption) *Event {
	var o eventOptions
	for _, opt := range opts {
		opt(&o)
	}
	return &Event{d: d, e: d.disp.NewEvent(name, o.timed)}
}

// Name returns the event's name.
func (e *Event) Name() string { return e.e.Name() }

// Wait waits until the event's newest recording is done. The error is an *dispatch.EventError if it was never recorded or
// the recording is lost, and wraps a *dispatch.HangError if the device stops.
func (e *Event) Wait(ctx context.Context) (err error) {
	at := callerPC()
	if e != nil && e.d.watched() {
		defer e.d.begin(ctx, &Call{Kind: CallEventWait, Name: e.Name(), Object: e}).end(ctx, &err)
	}
	if err := e.checkDevice(nil, "synchronize"); err != nil {
		return err
	}
	if id, ok := e.e.Recorder(); ok {
		if err := e.d.refuse(ctx, e.d.queues[id], opEventWait, e.Name()); err != nil {
			return err
		}
	}
	if err := e.e.Wait(ctx, at); err != nil {
		return e.d.opError("synchronize", err)
	}
	return nil
}

// Query reports whether the event's newest recording is done, without waiting.
func (e *Event) Query() (bool, error) {
	at := callerPC()
	if err := e.checkDevice(nil, "query"); err != nil {
		return false, err
	}
	done, err := e.e.Query(at)
	if err != nil {
		return false, e.d.opError("query", err)
	}
	return done, nil
}

// DeviceTime returns when the newest recording of a timed event was done, in cycles of the clock of the queue's dispatch
// core since its reset. ok is false if the event isn't timed or the host hasn't seen the recording done yet; after
// Wait, a Query that returned true, or Queue.Wait it has. The cores' clocks run at the same rate, but the times of
// two queues may differ by a constant.
func (e *Event) DeviceTime() (cycles uint64, ok bool) { return e.e.DeviceTime() }

// checkDevice checks that the event can be used with a device; nil stands for its own.
func (e *Event) checkDevice(d *Device, op string) error {
	if e == nil {
		return fmt.Errorf("reprise: %s: no event: it is nil", op)
	}
	if d != nil && e.d != d {
		return fmt.Errorf("reprise: %s: event %q: %w", op, e.Name(), ErrWrongDevice)
	}
	return e.d.usable(op)
}

// Record makes an event mean this place in the queue: the recording is done when everything so far in the queue has run
// and all its results are in memory. It returns once the command is in the issue ring.
func (q *Queue) Record(ctx context.Context, e *Event) (err error) {
	at := callerPC()
	if q.d.watched() {
		defer q.d.begin(ctx, &Call{Kind: CallRecord, Queues: q.self, Name: e.label(), Object: e}).end(ctx, &err)
	}
	if err := e.checkDevice(q.d, "record"); err != nil {
		return err
	}
	if err := q.d.refuse(ctx, q, opRecord, e.Name()); err != nil {
		return err
	}
	if err := q.q.Record(ctx, e.e, at); err != nil {
		return q.d.opError("record", err)
	}
	return nil
}

// WaitEvent holds whatever is put into the queue from now on until the event's newest recording is done. The call itself
// returns at once. The error is an *dispatch.EventError, which names both calls, if nothing would end the wait: the event was
// never recorded, or the recording is lost. Waiting for a recording of the same queue has no effect.
func (q *Queue) WaitEvent(ctx context.Context, e *Event) (err error) {
	at := callerPC()
	if q.d.watched() {
		defer q.d.begin(ctx, &Call{Kind: CallWaitEvent, Queues: q.self, Name: e.label(), Object: e}).end(ctx, &err)
	}
	if err := e.checkDevice(q.d, "wait"); err != nil {
		return err
	}
	if err := q.d.refuse(ctx, q, opWaitEvent, e.Name()); err != nil {
		return err
	}
	if err := q.q.WaitEvent(ctx, e.e, at); err != nil {
		return q.d.opError("wait", err)
	}
	return nil
}

// label returns an event's name, also of nil.
func (e *Event) label() string {
	if e == nil {
		return ""
	}
	return e.Name()
}
