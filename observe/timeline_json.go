package observe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

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
