package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

const mostTurns = 1 << 16 // loops, iterations, branches and calls in a queue's log: 1 MiB of each DRAM bank

// ControlSpan is a time in which a queue was in a loop, an iteration, a branch or a call of a
// trace.
type ControlSpan struct {
	tracebuf.ControlSpan // Start and End are cycles of queue 0's clock
	Queue                int
	Call                 uint64 // number of the replay's call
	Trace                string

	HostStart, HostEnd time.Duration // since StartTimeline
}

type controlLogs struct {
	mu     sync.Mutex
	on     map[int]debug.ControlLog
	turns  map[int][]cq.TurnEntry
	traces map[*reprise.Trace]traceImages
}

type traceImages map[int]map[uint32]*tracebuf.Image // of a trace and its callees, by queue and address

func (t *Timeline) logControl(tr *reprise.Trace) {
	l := &t.control
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.traces[tr]; ok {
		return
	}
	var dbg *debug.Debugger
	var images traceImages
	for i, p := range tr.Parts() {
		if p.Queue.Device() != t.dev || !slices.ContainsFunc(p.Steps,
			func(s tracebuf.Step) bool { return s.Control.Kind != flow.None }) {
			continue
		}
		if dbg == nil {
			dbg, images = tr.Debug(), traceImages{}
		}
		id := p.Queue.ID()
		images[id] = dbg.ControlImages(i)
		if l.on[id] != nil {
			continue
		}
		log, err := dbg.LogControl(i, mostTurns)
		if err != nil {
			t.mu.Lock()
			t.noteLocked(err)
			t.mu.Unlock()
			continue
		}
		l.on[id] = log
	}
	l.traces[tr] = images
}

func (t *Timeline) stopControl(ctx context.Context) error {
	l := &t.control
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	if l.on != nil {
		l.turns = map[int][]cq.TurnEntry{}
	}
	for id, log := range l.on {
		turns, dropped, err := log.Stop(ctx)
		errs = append(errs, err)
		for i := range turns {
			turns[i].Cycles -= uint64(t.shift[id])
		}
		l.turns[id] = turns
		t.mu.Lock()
		t.dropped += dropped
		t.mu.Unlock()
	}
	l.on = nil
	return errors.Join(errs...)
}

// ControlSpans returns the loops, iterations, branches and calls of the replays, by queue and
// start, outer ones first. It is complete once Stop has returned, and empty before.
func (t *Timeline) ControlSpans() []ControlSpan {
	var out []ControlSpan
	for _, s := range t.Spans() {
		out = append(out, t.controlOf(&s)...)
	}
	return out
}

func (t *Timeline) controlOf(replay *Span) []ControlSpan {
	tr, ok := replay.Object.(*reprise.Trace)
	if !ok || replay.Queue < 0 || replay.Kind != reprise.CallReplay.String() {
		return nil
	}
	l := &t.control
	l.mu.Lock()
	turns, images := l.turns[replay.Queue], l.traces[tr][replay.Queue]
	l.mu.Unlock()
	turns = within(turns, replay.StartCycles, replay.EndCycles+1, func(e *cq.TurnEntry) uint64 { return e.Cycles })
	if len(turns) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []ControlSpan
	for _, s := range tracebuf.ControlSpans(turns, replay.EndCycles, func(addr uint32) *tracebuf.Image { return images[addr] }) {
		c := ControlSpan{ControlSpan: s, Queue: replay.Queue, Call: replay.Call, Trace: tr.Name()}
		c.HostStart, c.HostEnd = t.hostSpanLocked(replay, s.Start, s.End)
		out = append(out, c)
	}
	return out
}

func (s *ControlSpan) title() string {
	switch s.Kind {
	case tracebuf.SpanIteration:
		return fmt.Sprintf("iteration %d", s.Number)
	case tracebuf.SpanBranch:
		return fmt.Sprintf("%s: body %d", s.Name, s.Number)
	}
	return s.Name
}

func (t *Timeline) controlEvents(replay *Span) []traceEvent {
	var out []traceEvent
	for _, s := range t.controlOf(replay) {
		e := newEvent(s.title(), s.Kind.String(), s.HostStart, s.HostEnd, deviceProcess, s.Queue)
		e.Args = map[string]any{"call": s.Call, "cycles": s.End - s.Start}
		switch s.Kind {
		case tracebuf.SpanLoop:
			e.Args["iterations"] = s.Number
		case tracebuf.SpanIteration:
			e.Args["loop"] = s.Name
		}
		if len(s.Programs) > 0 {
			e.Args["programs"] = s.Programs
		}
		if s.Aborted {
			e.Args["aborted"] = true
		}
		out = append(out, e)
	}
	return out
}
