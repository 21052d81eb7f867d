package observe

import (
	"cmp"
	"sort"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// ProgramSpan is a time in which a program ran, eagerly or in a replay, as the device noted.
type ProgramSpan struct {
	Queue int
	Call  uint64 // number of the call that started it
	Kind  string
	Name  string // of the program; "" where the log of a trace's control flow doesn't tell
	Trace string // "" for a program that ran eagerly
	// Start and End are cycles of queue 0's clock, from when earlier programs were done to when its
	// kernels were.
	Start, End uint64

	HostStart, HostEnd time.Duration // since StartTimeline
}

func (t *Timeline) stopPrograms() error {
	t.mu.Lock()
	log := t.programLog
	t.programLog = nil
	t.mu.Unlock()
	if log == nil {
		return nil
	}
	err := log.Stop()
	all := map[int][]dispatch.ProgramTime{}
	lost := 0
	for id := range t.dev.Queues() {
		times, n := log.take(id)
		for i := range times {
			times[i].Start -= uint64(t.shift[id])
			times[i].End -= uint64(t.shift[id])
		}
		all[id] = times
		lost += n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.programs = all
	t.dropped += lost
	return err
}

// Programs returns when programs ran, by queue and start. It is complete once Stop has returned,
// and empty before. tt-metal's firmware notes no times.
func (t *Timeline) Programs() []ProgramSpan {
	var out []ProgramSpan
	for _, s := range t.Spans() {
		out = append(out, t.programsOf(&s)...)
	}
	return out
}

func (t *Timeline) programsOf(call *Span) []ProgramSpan {
	if call.Queue < 0 || call.Kind != reprise.CallRun.String() && call.Kind != reprise.CallReplay.String() {
		return nil
	}
	t.mu.Lock()
	times := within(t.programs[call.Queue], call.StartCycles, call.EndCycles, func(p *dispatch.ProgramTime) uint64 { return p.Start })
	t.mu.Unlock()
	names, trace := make([]string, len(times)), ""
	switch o := call.Object.(type) {
	case *reprise.Trace:
		trace = o.Name()
		t.nameReplayed(names, times, call, o)
	case *reprise.Executable:
		for i := range names {
			names[i] = o.Name()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []ProgramSpan
	for i, at := range times {
		s := ProgramSpan{Queue: call.Queue, Call: call.Call, Kind: call.Kind, Name: names[i], Trace: trace, Start: at.Start,
			End: min(at.End, call.EndCycles)}
		s.HostStart, s.HostEnd = t.hostSpanLocked(call, s.Start, s.End)
		out = append(out, s)
	}
	return out
}

func (t *Timeline) hostSpanLocked(call *Span, from, to uint64) (start, end time.Duration) {
	start = min(max(t.hostTimeLocked(from), call.Start), call.End)
	return start, min(max(t.hostTimeLocked(to), start), call.End)
}

func within[T any](list []T, start, end uint64, cycles func(*T) uint64) []T {
	at := func(v uint64) int { return sort.Search(len(list), func(i int) bool { return cycles(&list[i]) >= v }) }
	return list[at(start):at(end)]
}

// nameReplayed names the programs of a replay: as recorded without control flow, otherwise those of
// the spans with as many programs.
func (t *Timeline) nameReplayed(names []string, times []dispatch.ProgramTime, call *Span, tr *reprise.Trace) {
	spans := t.controlOf(call)
	name := func(recorded []string, in func(cycles uint64) bool) {
		var own []int
		for n, at := range times {
			if in(at.Start) {
				own = append(own, n)
			}
		}
		if len(own) == len(recorded) {
			for k, n := range own {
				names[n] = recorded[k]
			}
		}
	}
	for i, s := range spans {
		name(s.Programs, func(cycles uint64) bool {
			return s.Start <= cycles && cycles < s.End && !insideOne(spans[i+1:], s.Depth+1, cycles)
		})
	}
	for _, part := range tr.Parts() {
		if part.Queue.Device() == t.dev && part.Queue.ID() == call.Queue {
			name(always(part.Steps), func(cycles uint64) bool { return !insideOne(spans, 0, cycles) })
		}
	}
}

// ReplayedPrograms returns the names of the programs that each replay of a trace runs on a queue,
// in order; false for a trace with loops, branches or calls, whose programs vary.
func ReplayedPrograms(part reprise.Part) (names []string, ok bool) {
	for i := range part.Steps {
		switch part.Steps[i].Control.Kind {
		case flow.None, flow.Args, flow.Reset:
		default:
			return nil, false
		}
	}
	return always(part.Steps), true
}

func always(steps []tracebuf.Step) []string {
	places, _ := flow.Read(cq.Blackhole, len(steps), func(i int) (*flow.Control, []byte) { return &steps[i].Control, nil })
	var out []string
	for i, s := range steps {
		if places[i].Depth == 0 && s.Program != tracebuf.NoProgram {
			out = append(out, s.Name)
		}
	}
	return out
}

func insideOne(spans []ControlSpan, depth int, cycles uint64) bool {
	for _, s := range spans {
		if s.Depth < depth {
			return false
		}
		if s.Start <= cycles && cycles < s.End {
			return true
		}
	}
	return false
}

func (t *Timeline) programEvents(call *Span) []traceEvent {
	var out []traceEvent
	for _, s := range t.programsOf(call) {
		e := newEvent(cmp.Or(s.Name, "program"), "program", s.HostStart, s.HostEnd, programProcess, s.Queue)
		e.Args = map[string]any{"call": s.Call, "cycles": s.End - s.Start}
		if s.Trace != "" {
			e.Args["trace"] = s.Trace
		}
		out = append(out, e)
	}
	return out
}
