// Package observe shows what a device and its host do: a [Timeline] with the device's own times,
// [Log] for log/slog, and [Metrics] for Prometheus. Package observe/otel, a module of its own,
// makes spans of OpenTelemetry.
package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// Timeline is what the host and each queue of a device did, from [StartTimeline] to
// [Timeline.Stop]: when calls were made, and when the device carried them out.
//
// The device's times are stamps of its dispatchers, one after every submission. So meanwhile the
// device works on each queue strictly in order, and each call costs the host some microseconds
// more.
type Timeline struct {
	dev   *reprise.Device
	began time.Time
	stop  func()
	most  int

	mu      sync.Mutex
	stopped bool
	host    []Span
	stamps  []stamp
	settled int // leading stamps whose times are known
	clocks  []clockReading
	shift   []int64           // cycles by which a queue's clock is ahead of queue 0's
	begin   map[uint64]uint64 // cycles at which calls under way began, by call
	dropped int
	err     error

	control    controlLogs
	programLog *ProgramLog // nil once stopped
	programs   map[int][]dispatch.ProgramTime
	printed    []print.Record

	samplers []func()
	engines  []EngineSpan
}

const mostSpans = 1 << 19

type clockReading struct {
	at     time.Time
	cycles uint64 // on queue 0's clock
}

type stamp struct {
	span  Span
	event *reprise.Event // has the time of the end; nil once taken
	lost  bool
	from  time.Duration
}

// Span is a time in which the host or a queue did something.
type Span struct {
	Queue      int    // -1 for the host
	Kind       string // "write", "run", ... as the call, or "span" of Timeline.Span
	Name       string // of the buffer, program, trace or event
	Call       uint64 // number of the call; 0 of Timeline.Span
	Object     any
	Start, End time.Duration // since StartTimeline
	// StartCycles and EndCycles are the device's own times on queue 0's clock; 0 for the host's
	// spans. Start and End put them beside the host's times as well as two clocks agree.
	StartCycles, EndCycles uint64
	failed                 bool
}

// Overlaps reports whether two spans of queues overlap on the device.
func (s *Span) Overlaps(o *Span) bool {
	return s.StartCycles < o.EndCycles && o.StartCycles < s.EndCycles
}

// StartTimeline begins to record a device. It waits for the queues, so neither StartTimeline nor
// [Timeline.Stop] may be called inside a capture.
func StartTimeline(ctx context.Context, dev *reprise.Device) (*Timeline, error) {
	t := &Timeline{dev: dev, began: time.Now(), begin: map[uint64]uint64{}, shift: make([]int64, dev.Queues()), most: mostSpans,
		control: controlLogs{on: map[int]debug.ControlLog{}, traces: map[*reprise.Trace]traceImages{}}}
	if err := t.start(ctx); err != nil {
		return nil, fmt.Errorf("observe: start timeline: %w", err)
	}
	t.stop = dev.Observe(timelineObserver{t})
	return t, nil
}

func (t *Timeline) start(ctx context.Context) (err error) {
	if err := t.compareClocks(); err != nil {
		return err
	}
	for id := range t.dev.Queues() { // no span begins earlier than here
		if err := t.dev.Queue(id).Wait(ctx); err != nil {
			return err
		}
	}
	if _, err := t.read(t.dev.Queue(0)); err != nil {
		return err
	}
	t.programLog, err = CollectPrograms(t.dev)
	return err
}

// Only readings that enclose each other prove a difference.
func (t *Timeline) compareClocks() error {
	const rounds = 8
	first := t.dev.Queue(0)
	for id := 1; id < t.dev.Queues(); id++ {
		low, high := int64(-1)<<62, int64(1)<<62
		for range rounds {
			var cycles [3]uint64
			for i, q := range []*reprise.Queue{first, t.dev.Queue(id), first} {
				c, err := q.Clock()
				if err != nil {
					return err
				}
				cycles[i] = c.Cycles
			}
			low = max(low, int64(cycles[1]-cycles[2]))
			high = min(high, int64(cycles[1]-cycles[0]))
		}
		if low > 0 || high < 0 {
			t.shift[id] = low + (high-low)/2
		}
	}
	return nil
}

func (t *Timeline) read(q *reprise.Queue) (uint64, error) {
	c, err := q.Clock()
	if err != nil {
		return 0, err
	}
	cycles := c.Cycles - uint64(t.shift[q.ID()])
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.clocks); n == 0 || t.clocks[n-1].at.Before(c.Host) && t.clocks[n-1].cycles < cycles {
		t.clocks = append(t.clocks, clockReading{c.Host, cycles})
	}
	return cycles, nil
}

type timelineObserver struct{ t *Timeline }

func (o timelineObserver) Begin(_ context.Context, c *reprise.Call) {
	t := o.t
	if !c.Kind.Queued() || len(c.Queues) == 0 {
		return
	}
	t.mu.Lock()
	room := t.hasRoomLocked()
	t.mu.Unlock()
	if !room {
		return
	}
	if tr, ok := c.Object.(*reprise.Trace); ok && c.Kind == reprise.CallReplay {
		t.logControl(tr)
	}
	now, err := t.read(c.Queues[0])
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteLocked(err)
	t.begin[c.ID] = now
}

func (o timelineObserver) End(ctx context.Context, c *reprise.Call) {
	t := o.t
	t.mu.Lock()
	now := t.begin[c.ID]
	delete(t.begin, c.ID)
	full := t.dropLocked()
	if !full {
		t.host = append(t.host, Span{
			Queue: -1, Kind: c.Kind.String(), Name: c.Name, Call: c.ID, Object: c.Object,
			Start: c.Start.Sub(t.began), End: c.End.Sub(t.began), failed: c.Err != nil,
		})
	}
	t.mu.Unlock()
	if full || c.Err != nil || !c.Kind.Queued() || c.Kind == reprise.CallRecord {
		return
	}
	for _, q := range c.Queues {
		e, err := c.Stamp(context.WithoutCancel(ctx), q)
		t.mu.Lock()
		t.noteLocked(err)
		if err == nil {
			t.stamps = append(t.stamps, stamp{
				span:  Span{Queue: q.ID(), Kind: c.Kind.String(), Name: c.Name, Call: c.ID, Object: c.Object, StartCycles: now},
				event: e, from: c.Start.Sub(t.began),
			})
		}
		for t.settled < len(t.stamps) && t.stamps[t.settled].take(t.shift) {
			t.settled++
		}
		t.mu.Unlock()
	}
}

func (t *Timeline) hasRoomLocked() bool { return !t.stopped && len(t.host)+len(t.stamps) < t.most }

func (t *Timeline) dropLocked() bool {
	if t.hasRoomLocked() {
		return false
	}
	t.dropped++
	return true
}

func (t *Timeline) noteLocked(err error) { t.err = cmp.Or(t.err, err) }

func (s *stamp) take(shift []int64) bool {
	if s.event == nil {
		return true
	}
	at, ok := s.event.DeviceTime()
	if ok {
		s.span.EndCycles = at - uint64(shift[s.span.Queue])
		s.event = nil
	}
	return ok
}

// Span records a host activity until the returned function is called.
func (t *Timeline) Span(name string) (end func()) {
	start := time.Since(t.began)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.dropLocked() {
			t.host = append(t.host, Span{Queue: -1, Kind: "span", Name: name, Start: start, End: time.Since(t.began)})
		}
	}
}

// Stop waits for the queues and ends the recording. The error is the first reason why the timeline
// is incomplete; it can still be written.
func (t *Timeline) Stop(ctx context.Context) error {
	t.stop()
	var errs []error
	defer func() {
		t.mu.Lock()
		stop := t.samplers
		t.samplers = nil
		t.mu.Unlock()
		for _, f := range stop {
			f()
		}
	}()
	for id := range t.dev.Queues() {
		errs = append(errs, t.dev.Queue(id).Wait(ctx))
	}
	_, err := t.read(t.dev.Queue(0))
	errs = append(errs, err, t.stopControl(ctx), t.stopPrograms())
	t.mu.Lock()
	defer t.mu.Unlock()
	errs = append(errs, t.err)
	if t.stopped {
		return nil
	}
	t.stopped = true
	for i := range t.stamps {
		if !t.stamps[i].take(t.shift) {
			t.stamps[i].lost, t.stamps[i].event = true, nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("observe: timeline: %w", err)
	}
	return nil
}

// Dropped returns how many calls, turns of control flow, programs and engine spans had no room.
func (t *Timeline) Dropped() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// Spans returns the host's spans, then each queue's, by start, once Stop has returned.
func (t *Timeline) Spans() []Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.host)
	slices.SortStableFunc(out, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	for id := range t.dev.Queues() {
		last, done := uint64(0), time.Duration(0)
		for _, s := range t.stamps {
			if s.span.Queue != id || s.lost || s.event != nil {
				continue
			}
			s.span.StartCycles = min(max(s.span.StartCycles, last), s.span.EndCycles)
			last = s.span.EndCycles
			// Clocks agree only roughly.
			s.span.Start = max(t.hostTimeLocked(s.span.StartCycles), s.from, done)
			s.span.End = max(t.hostTimeLocked(s.span.EndCycles), s.span.Start)
			done = s.span.End
			out = append(out, s.span)
		}
	}
	return out
}

func (t *Timeline) hostTimeLocked(cycles uint64) time.Duration {
	i, _ := slices.BinarySearchFunc(t.clocks, cycles, func(c clockReading, to uint64) int { return cmp.Compare(c.cycles, to) })
	i = min(max(i, 1), len(t.clocks)-1)
	if i < 1 {
		return t.clocks[0].at.Sub(t.began)
	}
	a, b := t.clocks[i-1], t.clocks[i]
	rate := float64(b.at.Sub(a.at)) / float64(b.cycles-a.cycles)
	return a.at.Sub(t.began) + time.Duration(rate*(float64(cycles)-float64(a.cycles)))
}

// traceEvent is an event of Google's "Trace Event Format", which Perfetto opens. Times are in
// microseconds.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	ID       uint64         `json:"id,omitempty"`
	Bind     string         `json:"bp,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

const (
	hostProcess = iota + 1
	deviceProcess
	engineProcess
	programProcess
	zoneProcess
)

// WriteJSON writes the timeline as trace-event JSON, for ui.perfetto.dev: a track for each set of
// nesting calls of the host, each queue, sampled engine thread and recorded processor, with arrows
// from calls to their effect on the device.
func (t *Timeline) WriteJSON(w io.Writer) error {
	spans := t.Spans()
	events := []traceEvent{
		meta("process_name", hostProcess, 0, "host"), meta("process_name", deviceProcess, 0, t.dev.Name()),
	}
	for id := range t.dev.Queues() {
		events = append(events, meta("thread_name", deviceProcess, id, fmt.Sprintf("queue %d", id)))
	}
	var body []traceEvent
	var lanes lanes
	threads := map[uint64]int{}
	starts := map[uint64]time.Duration{}
	for i := range spans {
		s := &spans[i]
		e := newEvent(s.Kind, s.Kind, s.Start, s.End, hostProcess, 0)
		switch {
		case s.Kind == "span":
			e.Name = s.Name
		case s.Name != "":
			e.Name = s.Kind + " " + s.Name
		}
		if s.Queue < 0 {
			e.Thread = lanes.place(s)
			threads[s.Call], starts[s.Call] = e.Thread, s.Start
			if s.failed {
				e.Args = map[string]any{"failed": true}
			}
			body = append(body, e)
			continue
		}
		e.Process, e.Thread = deviceProcess, s.Queue
		e.Args = map[string]any{"call": s.Call, "cycles": s.EndCycles - s.StartCycles}
		body = append(append(body, e), t.controlEvents(s)...)
		body = append(body, t.programEvents(s)...)
		if thread, ok := threads[s.Call]; ok {
			flow := uint64(s.Queue)<<48 | s.Call
			body = append(body,
				traceEvent{Name: "submit", Category: "submit", Phase: "s", Time: micros(starts[s.Call]), Process: hostProcess, Thread: thread,
					ID: flow},
				traceEvent{Name: "submit", Category: "submit", Phase: "f", Bind: "e", Time: micros(s.Start), Process: deviceProcess, Thread: s.Queue,
					ID: flow})
		}
	}
	for i := range max(1, len(lanes)) {
		name := "host"
		if i > 0 {
			name = fmt.Sprintf("host %d", i+1)
		}
		events = append(events, meta("thread_name", hostProcess, i, name))
	}
	for _, others := range []func() (tracks, body []traceEvent){t.engineEvents, t.zoneEvents} {
		tracks, spans := others()
		events, body = append(events, tracks...), append(body, spans...)
	}
	if slices.ContainsFunc(body, func(e traceEvent) bool { return e.Process == programProcess }) {
		events = append(events, meta("process_name", programProcess, 0, t.dev.Name()+": programs"))
		for id := range t.dev.Queues() {
			events = append(events, meta("thread_name", programProcess, id, fmt.Sprintf("programs of queue %d", id)))
		}
	}
	slices.SortStableFunc(body, func(a, b traceEvent) int { return cmp.Compare(a.Time, b.Time) })
	err := json.NewEncoder(w).Encode(struct {
		Events []traceEvent   `json:"traceEvents"`
		Unit   string         `json:"displayTimeUnit"`
		Other  map[string]any `json:"otherData"`
	}{append(events, body...), "ns", map[string]any{"dropped": t.Dropped(), "device": t.dev.Name()}})
	if err != nil {
		return fmt.Errorf("observe: write timeline: %w", err)
	}
	return nil
}

func newEvent(name, category string, start, end time.Duration, process, thread int) traceEvent {
	d := micros(end - start)
	return traceEvent{Name: name, Category: category, Phase: "X", Time: micros(start), Duration: &d, Process: process, Thread: thread}
}

func meta(what string, process, thread int, name string) traceEvent {
	return traceEvent{Name: what, Phase: "M", Process: process, Thread: thread, Args: map[string]any{"name": name}}
}

func micros(t time.Duration) float64 { return float64(t.Nanoseconds()) / 1000 }

// Of each track the ends of the open spans, the innermost last.
type lanes [][]time.Duration

// Spans come by start, longer ones first.
func (l *lanes) place(s *Span) int {
	for i, open := range *l {
		for len(open) > 0 && open[len(open)-1] <= s.Start {
			open = open[:len(open)-1]
		}
		(*l)[i] = open
		if len(open) == 0 || s.End <= open[len(open)-1] {
			(*l)[i] = append(open, s.End)
			return i
		}
	}
	*l = append(*l, []time.Duration{s.End})
	return len(*l) - 1
}
