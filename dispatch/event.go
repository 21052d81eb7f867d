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

// Event marks a place in a queue's commands for other queues and the host to wait for. It can be
// recorded again; each call means the newest recording at that moment, so a later recording doesn't
// change a wait that is already in a queue. Its methods may be called from any goroutine.
//
// Every recording is reported to the host, unlike some of tt-metal's. Waits can't form a cycle: a
// queue waits only for commands that were submitted earlier.
type Event struct {
	d     *machine
	name  string
	timed bool

	mu   sync.Mutex
	last *recording
}

// recording is one recording of an event.
type recording struct {
	q     *Queue
	start uint64 // which start of the queue it belongs to
	site  uintptr
	done  *completion
}

// Name returns the event's name.
func (e *Event) Name() string { return e.name }

var (
	// ErrNotRecorded is returned when an event is waited for that was never recorded.
	ErrNotRecorded = errors.New("it was never recorded, so nothing would end the wait: record it first")
	// ErrLost is returned when the newest recording of an event was lost with its queue's commands.
	ErrLost = errors.New("its recording was lost, so nothing would end the wait: record it again")
	// ErrOtherDevice is returned when an event is used with a queue of another device.
	ErrOtherDevice = errors.New("it belongs to another device")
)

// EventError is returned when an event can't be recorded or waited for.
type EventError struct {
	Event      string // its name
	Op         string // "record", "wait", "synchronize" or "query"
	Queue      int    // number of the queue that was to record it or to wait; -1 for the host
	Site       string // file:line of that call; empty if unknown
	Recorder   int    // number of the queue with its newest recording; -1 if it was never recorded
	RecordedAt string // file:line of that recording; empty if unknown
	Err        error  // the cause
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

// Unwrap returns Err.
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

func (e *Event) newest(op string, queue int, site uintptr) (*recording, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		return nil, e.fail(op, queue, site, nil, ErrNotRecorded)
	}
	return e.last, nil
}

// Recorder returns the number of the queue with the event's newest recording; ok is false if there
// is none.
func (e *Event) Recorder() (queue int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		return 0, false
	}
	return e.last.q.id, true
}

// broken returns why a recording will never be done; nil if it may.
func (r *recording) broken() error {
	if r.done.done() {
		if r.done.lost != nil {
			return fmt.Errorf("%w (%w)", ErrLost, r.done.lost)
		}
		return nil
	}
	if err := r.q.failure(); err != nil && !r.done.done() {
		return err
	}
	return nil
}

// Record records the event at this place in the queue. The recording is done when everything before
// it has run and all results are in memory. site is a program counter that names the call in
// errors, or 0.
func (q *Queue) Record(ctx context.Context, e *Event, site uintptr) (err error) {
	if e.d != q.d {
		return e.fail("record", q.id, site, nil, ErrOtherDevice)
	}
	if e.timed && q.d.opts.QueueFirmware != nil {
		return e.fail("record", q.id, site, nil, fmt.Errorf("the device's time: %w", ErrQueueFirmware))
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

// record makes the dispatcher tell all queues and the host when everything so far is done. It
// returns the completion, and the start of the queue that it belongs to.
func (q *Queue) record(ctx context.Context, op string, timed bool) (done *completion, start uint64, err error) {
	q.mu.Lock()
	defer q.leave(&err, debug.SetPanicOnFault(true))
	return q.recordLocked(ctx, op, timed)
}

func (q *Queue) recordLocked(ctx context.Context, op string, timed bool) (done *completion, start uint64, err error) {
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
	q.appendEventLocked(&b, payload[:])
	b.WriteHost(cq.WriteHost{Event: true, Pad1: uint16(q.id), Data: report[:]})
	cmds, err := b.Finish()
	if err != nil {
		return nil, 0, fmt.Errorf("dispatch: queue %d: record event: %w", q.id, err)
	}
	q.stream.buf = cmds
	c := &completion{event: id, isEvent: true, timed: timed, before: q.tickLocked(), entries: q.rings.fetch.put + 1}
	c.task, c.total = q.taskLocked()
	// Expected before it can arrive.
	q.comp.push(c)
	if err := q.sendLocked(ctx, cmds, false); err != nil {
		q.comp.takeBack(c)
		return nil, 0, err
	}
	q.stream.event = id
	q.status.latest.Store(uint32(id))
	q.tidyLocked()
	return c, q.status.starts.Load(), nil
}

func (q *Queue) appendEventLocked(b *cq.Builder, payload []byte) {
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier | cq.WaitStream, Stream: uint16(q.d.pr.Stream.FirstDispatch),
		Count: uint32(q.stream.state.Expected)})
	b.WritePacked(cq.WritePacked{
		Type: cq.PackedEvent, Size: uint16(len(payload)), Addr: q.d.ctl.LastEvent[q.id], Cores: q.d.eventXYs,
		NoStride: true, Data: payload,
	})
}

// tidyFrom is the number of outstanding completions at which recording an event drains the ring:
// the smallest completion queue holds 63.
const tidyFrom = 32

// tidyLocked drains the ring when many completions are outstanding, so that a host that only
// records doesn't stop the dispatcher.
func (q *Queue) tidyLocked() {
	if q.comp.count() >= tidyFrom {
		if err := q.comp.drain(); err != nil {
			_ = q.fail(fmt.Errorf("dispatch: queue %d: %w", q.id, err))
		}
	}
}

// WaitEvent makes later commands of the queue wait for the event's newest recording; the call
// returns at once. The error is an *EventError if the event was never recorded or its recording is
// lost. A recording on the same queue needs no wait.
func (q *Queue) WaitEvent(ctx context.Context, e *Event, site uintptr) (err error) {
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
		// Already ordered: recorded earlier on this queue, done before a restart, or so old that
		// the dispatcher's comparison could wrap.
		q.order.vclock.merge(r.done.before)
		return nil
	}
	b := cq.NewBuilder(q.d.layout(), q.stream.buf[:0])
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: q.d.ctl.LastEvent[r.q.id], Count: uint32(r.done.event)})
	cmds, err := b.Finish()
	if err != nil {
		return fmt.Errorf("dispatch: queue %d: wait for event: %w", q.id, err)
	}
	q.stream.buf = cmds
	if err := q.sendLocked(ctx, cmds, false); err != nil {
		return err
	}
	q.stream.waits++
	q.order.vclock.merge(r.done.before)
	return nil
}

// Wait waits until the event's newest recording is done.
func (e *Event) Wait(ctx context.Context, site uintptr) error {
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

// DeviceTime returns when the dispatcher reported the newest recording of a timed event, in cycles
// of its tile's clock since reset. ok is false if the event isn't timed or the recording isn't
// known to be done. The clocks of different tiles have the same rate, but perhaps other starts.
func (e *Event) DeviceTime() (cycles uint64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.timed || e.last == nil || !e.last.done.done() || e.last.done.lost != nil {
		return 0, false
	}
	return e.last.done.time, true
}

// reported returns whether a completion has arrived, without waiting.
func (q *Queue) reported(c *completion) (done bool, err error) {
	if !c.done() {
		if err := q.peek(); err != nil {
			return false, err
		}
	}
	if !c.done() {
		if err := q.failure(); err != nil && !c.done() {
			return false, err
		}
		return false, nil
	}
	if c.lost != nil {
		return false, c.lost
	}
	q.d.seen.add(c.before)
	return true, nil
}

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

// Clock is a reading of the clock of a queue's timed events.
type Clock struct {
	Cycles uint64        // of the dispatch core's clock since reset
	Host   time.Time     // when it was read: the middle of the reading
	Within time.Duration // half the time that the reading took
}

// Clock reads the clock of the queue's dispatch core, bypassing the queue. Two readings relate the
// device's times to the host's; readings of all queues relate their clocks.
func (q *Queue) Clock() (Clock, error) {
	pr := &q.d.pr.Debug
	read := func(reg uint32) (uint32, error) { return q.d.kd.Read32(q.dispatcher.At, uint64(reg)) }
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

// Wait waits until everything that was submitted before has run and all its results are in memory.
func (q *Queue) Wait(ctx context.Context) error {
	done, _, err := q.record(ctx, "wait", false)
	if err != nil {
		return err
	}
	return q.awaitReport(ctx, "the commands so far to finish", done)
}

// taskLocked returns the task of a wait for everything so far, and how many programs and replays
// were submitted.
func (q *Queue) taskLocked() (t task, total uint32) {
	total = q.stream.replays + uint32(q.stream.runs)
	return task{last: q.history.name(), n: total - q.forecasts.waited.Load()}, total
}
