package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Event marks a place among the commands of a queue, for other queues and for the host to wait for. It can be recorded
// again and again: what is asked of an Event means its newest recording at that moment, so a wait that is in a queue
// already isn't changed by a later recording. Its methods may be called from any goroutine.
//
// Every recording is reported to the host as well. Upstream records some events for the device alone; asking those
// from the host would wait for ever.
//
// Waits can't go round in a circle: a queue waits for a recording that has been put into its queue before, so each
// command waits only for commands that were submitted earlier.
type Event struct {
	d     *Device
	name  string
	timed bool

	mu   sync.Mutex
	last *recording
}

// recording is one time that an event was recorded.
type recording struct {
	q     *Queue
	start uint64 // which start of the queue it belongs to
	site  uintptr
	done  *completion
}

// NewEvent returns an event that was never recorded. A timed one takes the device's time with each recording.
func (d *Device) NewEvent(name string, timed bool) *Event {
	return &Event{d: d, name: name, timed: timed}
}

// Name returns the event's name.
func (e *Event) Name() string { return e.name }

// Device returns the event's device.
func (e *Event) Device() *Device { return e.d }

var (
	// ErrNotRecorded is returned when an event is waited for that was never recorded.
	ErrNotRecorded = errors.New("it was never recorded, so nothing would end the wait: record it first")
	// ErrLost is returned when an event is waited for whose recording went with its queue's commands.
	ErrLost = errors.New("its recording was lost, so nothing would end the wait: record it again")
	// ErrOtherDevice is returned when an event is used with a queue of another device.
	ErrOtherDevice = errors.New("it belongs to another device")
)

// EventError says why an event can't be waited for.
type EventError struct {
	Event      string // its name
	Op         string // "record", "wait", "synchronize" or "query"
	Queue      int    // that was to record it or to wait; -1 for the host
	Site       string // file:line of that call; empty if unknown
	Recorder   int    // queue of its newest recording; -1 if there is none
	RecordedAt string // file:line of that recording; empty if unknown
	Err        error  // what is wrong
}

// Error implements error.
func (e *EventError) Error() string {
	who, recorded := "", ""
	if e.Queue >= 0 {
		who = fmt.Sprintf("queue %d: ", e.Queue)
	}
	at := func(site string) string {
		if site == "" {
			return ""
		}
		return " at " + site
	}
	if e.Recorder >= 0 {
		recorded = fmt.Sprintf(", recorded on queue %d%s", e.Recorder, at(e.RecordedAt))
	}
	return fmt.Sprintf("dispatch: %s%s event %q%s%s: %v", who, e.Op, e.Event, at(e.Site), recorded, e.Err)
}

// Unwrap returns what is wrong.
func (e *EventError) Unwrap() error { return e.Err }

// siteName turns a program counter of runtime.Callers into file:line.
func siteName(pc uintptr) string {
	if pc == 0 {
		return ""
	}
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
}

func (e *Event) fail(op string, queue int, site uintptr, r *recording, err error) error {
	out := &EventError{Event: e.name, Op: op, Queue: queue, Site: siteName(site), Recorder: -1, Err: err}
	if r != nil {
		out.Recorder, out.RecordedAt = r.q.id, siteName(r.site)
	}
	return out
}

// newest returns the newest recording.
func (e *Event) newest(op string, queue int, site uintptr) (*recording, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		return nil, e.fail(op, queue, site, nil, ErrNotRecorded)
	}
	return e.last, nil
}

// Recorder returns the number of the queue with the event's newest recording; ok is false if it was never recorded.
func (e *Event) Recorder() (queue int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		return 0, false
	}
	return e.last.q.id, true
}

// broken says why a recording will never be done; nil if it is, or may yet be.
func (r *recording) broken() error {
	if r.done.done() {
		if r.done.lost != nil {
			return fmt.Errorf("%w (%w)", ErrLost, r.done.lost)
		}
		return nil
	}
	if err := r.q.status.failed.Load(); err != nil && !r.done.done() {
		return *err
	}
	return nil
}

// A record's payload: the id, then flags, then the time. The device's own firmware looks at the flags; upstream's doesn't,
// and leaves the time as it is.
const (
	atEventFlags = 4
	atEventTime  = 8
	eventTimed   = 1
)

// Record makes the event mean this place in the queue: it is done when everything so far in the queue has run and all
// its results are in memory. site is a program counter that names the call in errors, or 0.
func (q *Queue) Record(ctx context.Context, e *Event, site uintptr) (err error) {
	if e.d != q.d {
		return e.fail("record", q.id, site, nil, ErrOtherDevice)
	}
	r := &recording{q: q, site: site}
	if r.done, r.start, err = q.record(ctx, "record", e.timed); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// When two goroutines record an event on one queue, the later place is the newer recording.
	if last := e.last; last == nil || last.q != q || last.start != r.start || r.done.event.After(last.done.event) {
		e.last = r
	}
	return nil
}

// record makes the dispatcher tell all queues and the host when everything so far is done. It returns what will be
// reported, and which start of the queue it belongs to.
func (q *Queue) record(ctx context.Context, op string, timed bool) (done *completion, start uint64, err error) {
	q.mu.Lock()
	defer q.leave(&err, debug.SetPanicOnFault(true))
	return q.recordIn(ctx, op, timed)
}

// recordIn is record for a caller that holds mu.
func (q *Queue) recordIn(ctx context.Context, op string, timed bool) (done *completion, start uint64, err error) {
	if err := q.usable(op); err != nil {
		return nil, 0, err
	}
	id := q.stream.event + 1
	var payload, report [16]byte
	cq.Put32(payload[:], 0, uint32(id))
	report = payload
	if timed {
		cq.Put32(report[:], atEventFlags, eventTimed)
	}
	b := cq.NewBuilder(q.d.layout(), q.stream.buf[:0])
	q.appendEvent(&b, payload[:])
	b.WriteHost(cq.WriteHost{Event: true, Pad1: uint16(q.id), Data: report[:]})
	cmds, err := b.Finish()
	if err != nil {
		return nil, 0, fmt.Errorf("dispatch: queue %d: record event: %w", q.id, err)
	}
	q.stream.buf = cmds
	c := &completion{event: id, isEvent: true, timed: timed, before: q.tick(), entries: q.rings.fetch.put + 1}
	// The completion is expected before it can arrive.
	undo := q.comp.expect(c)
	if err := q.send(ctx, cmds, false); err != nil {
		undo()
		return nil, 0, err
	}
	q.stream.event = id
	q.status.latest.Store(uint32(id))
	q.tidy()
	return c, q.status.starts.Load(), nil
}

// tidyFrom is from how many outstanding reports on recording an event looks for them: the smallest completion queue
// holds 63.
const tidyFrom = 32

// tidy takes reports out of the completion queue when many are outstanding, so that a host that only records and never
// waits doesn't stop the dispatcher. Called with mu held.
func (q *Queue) tidy() {
	if q.comp.count() >= tidyFrom {
		if err := q.comp.drain(); err != nil {
			_ = q.fail(fmt.Errorf("dispatch: queue %d: %w", q.id, err))
		}
	}
}

// Wait holds what is put into the queue from now on until the event's newest recording is done; the call returns at
// once. The error is an *EventError if that can't be: the event was never recorded, or its recording is lost.
// A recording on the same queue is done before anyway.
func (q *Queue) Wait(ctx context.Context, e *Event, site uintptr) (err error) {
	if e.d != q.d {
		return e.fail("wait for", q.id, site, nil, ErrOtherDevice)
	}
	r, err := e.newest("wait for", q.id, site)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.leave(&err, debug.SetPanicOnFault(true))
	if err := q.usable("wait for event"); err != nil {
		return err
	}
	if err := r.broken(); err != nil {
		return e.fail("wait for", q.id, site, r, err)
	}
	if r.q == q || r.start != r.q.status.starts.Load() || r.q.status.latest.Load()-uint32(r.done.event) >= 1<<30 {
		// It is before this place in the same queue, or was done before the device was started anew, or so long ago that
		// the dispatcher's comparison could wrap.
		q.order.vclock.merge(r.done.before)
		return nil
	}
	b := cq.NewBuilder(q.d.layout(), q.stream.buf[:0])
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: q.d.ctl.lastEvent[r.q.id], Count: uint32(r.done.event)})
	cmds, err := b.Finish()
	if err != nil {
		return fmt.Errorf("dispatch: queue %d: wait for event: %w", q.id, err)
	}
	q.stream.buf = cmds
	if err := q.send(ctx, cmds, false); err != nil {
		return err
	}
	q.stream.waits++
	q.order.vclock.merge(r.done.before)
	return nil
}

// Synchronize waits until the event's newest recording is done.
func (e *Event) Synchronize(ctx context.Context, site uintptr) error {
	r, err := e.newest("synchronize with", -1, site)
	if err != nil {
		return err
	}
	if err := r.q.awaitReport(ctx, fmt.Sprintf("event %q", e.name), r.done); err != nil {
		return e.fail("synchronize with", -1, site, r, err)
	}
	return nil
}

// Query reports whether the event's newest recording is done, without waiting.
func (e *Event) Query(site uintptr) (bool, error) {
	r, err := e.newest("query", -1, site)
	if err != nil {
		return false, err
	}
	done, err := r.q.reported(r.done)
	if err != nil {
		return false, e.fail("query", -1, site, r, err)
	}
	return done, nil
}

// DeviceTime returns the time at which the dispatcher reported the newest recording of a timed event, in cycles of its
// tile's clock since reset. ok is false if the event isn't timed or the recording isn't known to be done. The clocks of
// different tiles tick alike but needn't have started alike.
func (e *Event) DeviceTime() (cycles uint64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.timed || e.last == nil || !e.last.done.done() || e.last.done.lost != nil {
		return 0, false
	}
	return e.last.done.time, true
}

// reported looks whether a completion has arrived, without waiting.
func (q *Queue) reported(c *completion) (done bool, err error) {
	if !c.done() {
		if err := q.peek(); err != nil {
			return false, err
		}
	}
	if !c.done() {
		if err := q.status.failed.Load(); err != nil && !c.done() {
			return false, *err
		}
		return false, nil
	}
	if c.lost != nil {
		return false, c.lost
	}
	q.d.seen.add(c.before)
	return true, nil
}

// peek takes out what the device has reported.
func (q *Queue) peek() error {
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	if q.life.closed {
		return nil
	}
	return q.d.kd.Guard(func() error {
		if err := q.comp.drain(); err != nil {
			return q.fail(fmt.Errorf("dispatch: queue %d: %w", q.id, err))
		}
		return nil
	})
}

// Clock is a reading of the clock that a queue's timed events use.
type Clock struct {
	Cycles uint64        // of the dispatch core's clock since reset
	Host   time.Time     // when it was read: the middle of the reading
	Within time.Duration // the reading took twice that long
}

// Clock reads the clock of the queue's dispatch core, past the queue. Two readings far apart relate the device's times
// to the host's; a reading of each queue relates the queues' clocks to each other.
func (q *Queue) Clock() (Clock, error) {
	pr := &q.d.pr.Debug
	read := func(reg uint32) (uint32, error) { return q.d.kd.Read32(q.dispatcher.at, uint64(reg)) }
	for {
		before, err := read(pr.WallClockHigh)
		if err != nil {
			return Clock{}, fmt.Errorf("dispatch: queue %d: read clock: %w", q.id, err)
		}
		start := time.Now()
		low, err := read(pr.WallClockLow)
		took := time.Since(start)
		if err != nil {
			return Clock{}, fmt.Errorf("dispatch: queue %d: read clock: %w", q.id, err)
		}
		after, err := read(pr.WallClockHigh)
		if err != nil {
			return Clock{}, fmt.Errorf("dispatch: queue %d: read clock: %w", q.id, err)
		}
		if before == after { // else the low half has wrapped somewhere in between
			return Clock{Cycles: uint64(before)<<32 | uint64(low), Host: start.Add(took / 2), Within: took / 2}, nil
		}
	}
}
