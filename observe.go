package reprise

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Observer is told of the calls that use a device. [Device.Observe] attaches one.
//
// Begin is called before a call does anything, End with its result. Both get the call's own
// context, on its goroutine, and the same *Call, which the Observer may read until End returns.
// While a call that puts something into a queue is between Begin and End, nothing else gets into
// that queue, so Observers hear of calls in the queue's order. An Observer must return quickly and
// must not use the queue except by [Call.Stamp].
//
// An Observer with a method
//
//	RecordControl(name string) (end func())
//
// is also told when a [Recorder] of the device records control flow: RecordControl is called before
// the body is recorded, end after it, on the same goroutine. Names are like "loop of 5", "if
// state[0] == 1", with "then" and "otherwise" inside, or "call layer".
type Observer interface {
	Begin(ctx context.Context, c *Call)
	End(ctx context.Context, c *Call)
}

// CallKind is what a call does.
type CallKind uint8

// The kinds of calls. Those up to CallWaitEvent put something into queues and return while the
// device may still work on it.
const (
	CallWrite             CallKind = iota // Queue.Write
	CallRead                              // Queue.StartRead and the first half of Queue.Read
	CallRun                               // Queue.Run
	CallReplay                            // Trace.Replay
	CallRecord                            // Queue.Record
	CallWaitEvent                         // Queue.WaitEvent
	CallPendingWait                       // Pending.Wait and the second half of Queue.Read
	CallEventWait                         // Event.Wait
	CallQueueWait                         // Queue.Wait
	CallAllocate                          // Device.NewBuffer
	CallReleaseBuffer                     // Buffer.Release
	CallLoad                              // Device.Load
	CallReleaseExecutable                 // Executable.Release
	CallCapture                           // Queue.Capture
	CallReleaseTrace                      // Trace.Release
	numCalls
)

var callNames = [numCalls]string{
	"write", "read", "run", "replay", "record", "wait event", "pending wait", "event wait", "queue wait", "allocate", "release buffer",
	"load", "release executable", "capture", "release trace",
}

func (k CallKind) String() string {
	if k < numCalls {
		return callNames[k]
	}
	return fmt.Sprintf("call %d", uint8(k))
}

// Queued reports whether such calls put something into queues.
func (k CallKind) Queued() bool { return k <= CallWaitEvent }

// Call is a call that uses a device.
type Call struct {
	ID     uint64 // counts up from 1; a call that another one makes has the higher number
	Kind   CallKind
	Queues []*Queue // used queues: none, one, or those of a trace
	Name   string   // the object's name
	// Object is the *Buffer, *Executable, *Trace or *Event; nil for a CallQueueWait. What a call
	// makes is there from End on, if there was no error.
	Object any
	Bytes  int // moved, allocated or released; of a load or capture those in DRAM, of a replay those that the host sends
	Start  time.Time
	End    time.Time // from End on
	Err    error     // from End on

	observers []*observer // told of Begin
	told      bool        // in an Observer's Begin or End
}

// Stamp records a timed event on one of the call's queues: in an Observer's Begin directly before
// what the call puts there, in its End directly after. The event's [Event.DeviceTime] is when the
// device had carried out what was in front. Observers aren't told of the event. Only Begin and End
// may call Stamp, and only for a call whose kind is [CallKind.Queued].
func (c *Call) Stamp(ctx context.Context, q *Queue) (*Event, error) {
	if !c.told || !c.Kind.Queued() || !slices.Contains(c.Queues, q) {
		return nil, fmt.Errorf("reprise: stamp %v %q: not in an Observer's Begin or End, or the call put nothing into this queue", c.Kind, c.Name)
	}
	e := q.d.NewEvent("stamp", Timed())
	if err := q.q.Record(ctx, e.e, 0); err != nil {
		return nil, q.d.opError("stamp", err)
	}
	return e, nil
}

type controlObserver interface {
	RecordControl(name string) (end func())
}

func (d *Device) recordControl(name string) (end func()) {
	var ends []func()
	for _, o := range d.watch.all() {
		if w, ok := o.Observer.(controlObserver); ok {
			ends = append(ends, w.RecordControl(name))
		}
	}
	return func() {
		for _, f := range slices.Backward(ends) {
			f()
		}
	}
}

// Observe attaches an Observer to the device. stop detaches it; calls that have begun still end
// with it. A nil Observer attaches nothing.
func (d *Device) Observe(o Observer) (stop func()) {
	if o == nil {
		return func() {}
	}
	entry := &observer{o}
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	d.watch.set(append(slices.Clip(d.watch.all()), entry))
	return func() {
		d.watch.mu.Lock()
		defer d.watch.mu.Unlock()
		d.watch.set(slices.DeleteFunc(slices.Clone(d.watch.all()), func(e *observer) bool { return e == entry }))
	}
}

type watchers struct {
	on    atomic.Pointer[[]*observer] // nil without Observers
	mu    sync.Mutex                  // held while on changes
	calls atomic.Uint64
}

// observer is an attached Observer, told from others by its address.
type observer struct{ Observer }

func (w *watchers) all() []*observer {
	if p := w.on.Load(); p != nil {
		return *p
	}
	return nil
}

func (w *watchers) set(list []*observer) {
	if len(list) == 0 {
		w.on.Store(nil)
		return
	}
	w.on.Store(&list)
}

func (d *Device) watched() bool { return d.watch.on.Load() != nil }

func (d *Device) fastPath() bool { return !d.watched() && d.capturing.Load() == 0 }

func (d *Device) begin(ctx context.Context, c *Call) *Call {
	c.ID = d.watch.calls.Add(1)
	if c.Kind.Queued() {
		for _, q := range c.Queues { // in the order of their numbers
			q.inOrder.Lock()
		}
	}
	c.observers = d.watch.all()
	c.told = true
	for _, o := range c.observers {
		o.Begin(ctx, c)
	}
	c.told = false
	c.Start = time.Now()
	return c
}

// observe is begin, or nil without Observers. The caller defers end.
func (d *Device) observe(ctx context.Context, kind CallKind, queues []*Queue, name string, object any, bytes int) *Call {
	if !d.watched() {
		return nil
	}
	return d.begin(ctx, &Call{Kind: kind, Queues: queues, Name: name, Object: object, Bytes: bytes})
}

func (c *Call) end(ctx context.Context, err *error) {
	if c == nil {
		return
	}
	c.Err, c.End, c.told = *err, time.Now(), true
	if c.Kind.Queued() {
		for _, q := range c.Queues {
			defer q.inOrder.Unlock()
		}
	}
	for _, o := range slices.Backward(c.observers) {
		o.End(ctx, c)
	}
	c.observers, c.told = nil, false
}

type deviceCall struct {
	d      *Device
	queues []*Queue // by their numbers
}

func callsOf(queues []*Queue) []deviceCall {
	if len(queues) == 1 {
		return []deviceCall{{queues[0].d, queues}}
	}
	var out []deviceCall
	for _, q := range slices.SortedFunc(slices.Values(queues), func(a, b *Queue) int { return a.q.Compare(b.q) }) {
		if n := len(out); n > 0 && out[n-1].d == q.d {
			out[n-1].queues = append(out[n-1].queues, q)
			continue
		}
		out = append(out, deviceCall{q.d, []*Queue{q}})
	}
	return out
}

func callsOn(ds []*Device) []deviceCall {
	out := make([]deviceCall, len(ds))
	for i, d := range ds {
		out[i].d = d
	}
	return out
}

// beginAll is begin on each device that has Observers; endAll belongs to it.
func beginAll(ctx context.Context, on []deviceCall, call func(i int) *Call) []*Call {
	begun := make([]*Call, len(on))
	for i := range on {
		if on[i].d.watched() {
			begun[i] = on[i].d.begin(ctx, call(i))
		}
	}
	return begun
}

// endAll ends what beginAll began. Without an error, done, if not nil, completes each Call.
func endAll(ctx context.Context, begun []*Call, done func(i int, c *Call), err *error) {
	for i, c := range slices.Backward(begun) {
		if c != nil && *err == nil && done != nil {
			done(i, c)
		}
		c.end(ctx, err)
	}
}

func (b *Buffer) label() string {
	if b == nil {
		return ""
	}
	return b.name
}
