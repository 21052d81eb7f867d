package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Event marks a place in a queue's commands for other queues and the host to wait for. It can be
// recorded again; each call means the newest recording at that moment. Its methods may be called
// from any goroutine.
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

type recording struct {
	q     *Queue
	start uint64 // of the queue
	site  uintptr
	done  *completion
}

// Name returns the event's name.
func (e *Event) Name() string { return e.name }

var (
	// ErrNotRecorded is returned when an event is waited for that was never recorded.
	ErrNotRecorded = errors.New("it was never recorded, so nothing would end the wait: record it first")
	// ErrLost: the newest recording was lost with its queue's commands.
	ErrLost = errors.New("its recording was lost, so nothing would end the wait: record it again")
	// ErrOtherDevice is returned when an event is used with a queue of another device.
	ErrOtherDevice = errors.New("it belongs to another device")
)

// EventError is returned when an event can't be recorded or waited for.
type EventError struct {
	Event      string
	Op         string // "record", "wait", "synchronize" or "query"
	Queue      int    // -1 for the host
	Site       string // file:line, or empty
	Recorder   int    // -1 if there is none
	RecordedAt string // file:line, or empty
	Err        error
}

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

func (e *EventError) Unwrap() error { return e.Err }

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
// it has run and all results are in memory. site is a program counter for errors, or 0.
func (q *Queue) Record(ctx context.Context, e *Event, site uintptr, subs ...int) (err error) {
	if e.d != q.d {
		return e.fail("record", q.id, site, nil, ErrOtherDevice)
	}
	if e.timed && q.d.opts.QueueFirmware != nil {
		return e.fail("record", q.id, site, nil, fmt.Errorf("the device's time: %w", ErrQueueFirmware))
	}
	r := &recording{q: q, site: site}
	group := func() (lanes, error) { return q.groupLocked("record", subs) }
	if r.done, r.start, err = q.record(ctx, "record", e.timed, group); err != nil {
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

func (q *Queue) record(ctx context.Context, op string, timed bool, group func() (lanes, error)) (done *completion, start uint64,
	err error) {
	defer q.leave(&err, q.enter())
	g, err := group()
	if err != nil {
		return nil, 0, err
	}
	return q.recordLocked(ctx, op, timed, g)
}

func (q *Queue) recordLocked(ctx context.Context, op string, timed bool, g lanes) (done *completion, start uint64, err error) {
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
	b := q.builderLocked()
	q.appendEventLocked(&b, payload[:], g)
	b.WriteHost(cq.WriteHost{Event: true, Pad1: uint16(q.id), Data: report[:]})
	c := &completion{event: id, isEvent: true, timed: timed, before: q.beforeLocked(g), entries: q.rings.fetch.put + 1}
	c.task, c.total = q.taskLocked()
	q.comp.push(c)
	if err := q.sendBuiltLocked(ctx, "record event", &b); err != nil {
		q.comp.takeBack(c)
		return nil, 0, err
	}
	q.stream.event = id
	q.status.latest.Store(uint32(id))
	q.tidyLocked()
	return c, q.status.starts.Load(), nil
}

// beforeLocked is the clock of what is done when a group of lanes is: with sub-devices left out,
// nothing of this queue.
func (q *Queue) beforeLocked(g lanes) clock {
	if g == q.allLocked() {
		return q.tickLocked()
	}
	return q.nowLocked()
}

func (q *Queue) appendEventLocked(b *cq.Builder, payload []byte, g lanes) {
	q.waitLocked(b, g, func(w cq.Wait) {
		w.Flags |= cq.WaitBarrier
		b.Wait(cq.Master, w)
	})
	b.WritePacked(cq.WritePacked{
		Type: cq.PackedEvent, Size: uint16(len(payload)), Addr: q.d.ctl.LastEvent[q.id], Cores: q.d.eventXYs,
		NoStride: true, Data: payload,
	})
}

// tidyFrom completions are outstanding when recording an event drains the ring; the smallest holds
// 63.
const tidyFrom = 32

func (q *Queue) tidyLocked() {
	if q.comp.count() >= tidyFrom {
		_ = q.drain()
	}
}

// drain closes the queue if that fails.
func (q *Queue) drain() error {
	if err := q.comp.drain(); err != nil {
		return q.fail(q.errorf("%w", err))
	}
	return nil
}

// WaitEvent makes later commands of the queue wait for the event's newest recording, without
// waiting itself. The error is an *EventError if there is none or it is lost.
func (q *Queue) WaitEvent(ctx context.Context, e *Event, site uintptr) (err error) {
	if e.d != q.d {
		return e.fail("wait for", q.id, site, nil, ErrOtherDevice)
	}
	r, err := e.newest("wait for", q.id, site)
	if err != nil {
		return err
	}
	defer q.leave(&err, q.enter())
	if err := q.usable("wait for event"); err != nil {
		return err
	}
	if err := r.broken(); err != nil {
		return e.fail("wait for", q.id, site, r, err)
	}
	if r.q == q || r.start != r.q.status.starts.Load() || r.q.status.latest.Load()-uint32(r.done.event) >= 1<<30 {
		// Recorded earlier on this queue, done before a restart, or so old that the dispatcher's
		// comparison could wrap.
		q.order.vclock.merge(r.done.before)
		return nil
	}
	b := q.builderLocked()
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: q.d.ctl.LastEvent[r.q.id], Count: uint32(r.done.event)})
	if err := q.sendBuiltLocked(ctx, "wait for event", &b); err != nil {
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
// of its tile's clock since reset; ok is false if it isn't known to be done. The clocks of
// different tiles have the same rate, but perhaps other starts.
func (e *Event) DeviceTime() (cycles uint64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.timed || e.last == nil || !e.last.done.done() || e.last.done.lost != nil {
		return 0, false
	}
	return e.last.done.time, true
}

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
	return q.d.kd.Guard(q.drain)
}

// Clock is a reading of the clock of a queue's timed events.
type Clock struct {
	Cycles uint64        // since reset
	Host   time.Time     // the middle
	Within time.Duration // half the time it took
}

// Clock reads the clock of the queue's dispatch core, bypassing the queue.
func (q *Queue) Clock() (Clock, error) {
	pr := &q.d.pr.Debug
	for {
		var v [3]uint32
		var at [3]time.Time
		for i, reg := range [3]uint32{pr.WallClockHigh, pr.WallClockLow, pr.WallClockHigh} {
			var err error
			at[i] = time.Now()
			if v[i], err = q.d.kd.Read32(q.dispatcher.At, uint64(reg)); err != nil {
				return Clock{}, q.errorf("read clock: %w", err)
			}
		}
		if v[0] == v[2] {
			half := at[2].Sub(at[1]) / 2
			return Clock{Cycles: uint64(v[0])<<32 | uint64(v[1]), Host: at[1].Add(half), Within: half}, nil
		}
	}
}

// Wait waits until everything submitted before has run and all its results are in memory.
func (q *Queue) Wait(ctx context.Context) error { return q.WaitFor(ctx) }

// WaitFor is Wait for the programs of sub-devices; without any, those of the stall group.
func (q *Queue) WaitFor(ctx context.Context, subs ...int) error {
	return q.waitFor(ctx, func() (lanes, error) { return q.groupLocked("wait", subs) })
}

// WaitAll is Wait for the programs of all sub-devices, whatever the stall group.
func (q *Queue) WaitAll(ctx context.Context) error {
	return q.waitFor(ctx, func() (lanes, error) { return q.allLocked(), nil })
}

func (q *Queue) waitFor(ctx context.Context, group func() (lanes, error)) error {
	done, _, err := q.record(ctx, "wait", false, group)
	if err != nil {
		return err
	}
	return q.awaitReport(ctx, "the commands so far to finish", done)
}

func (q *Queue) taskLocked() (t task, total uint32) {
	total = q.stream.replays + uint32(q.stream.runs)
	return task{last: q.history.name(), n: total - q.forecasts.waited.Load()}, total
}
