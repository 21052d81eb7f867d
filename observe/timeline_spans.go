package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
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
		case flow.None, flow.Args, flow.Reset, flow.Divide:
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

// ZoneSpan is a zone of a kernel (reprise/zone.h), or a printed line, which has no duration.
type ZoneSpan struct {
	print.Record
	HostStart, HostEnd time.Duration // since StartTimeline
}

// Record adds what a kernel has printed to the timeline: it is a handler for print.Listen. The
// clocks of a chip's tiles all begin with its reset, and so count as one.
func (t *Timeline) Record(r print.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped += int(r.Lost)
	if r.Kernel == "" {
		return
	}
	if len(t.printed) >= t.most {
		t.dropped++
		return
	}
	t.printed = append(t.printed, r)
}

// Zones returns what kernels have recorded, by core, processor and start, longer ones first. It is
// complete once the Listener was drained and Stop has returned.
func (t *Timeline) Zones() []ZoneSpan {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]ZoneSpan, len(t.printed))
	for i, r := range t.printed {
		if !r.Zone {
			r.Start = r.Time
		}
		out[i] = ZoneSpan{Record: r, HostStart: t.hostTimeLocked(r.Start), HostEnd: t.hostTimeLocked(r.Time)}
	}
	slices.SortStableFunc(out, func(a, b ZoneSpan) int {
		return cmp.Or(cmp.Compare(a.Core.X, b.Core.X), cmp.Compare(a.Core.Y, b.Core.Y), cmp.Compare(a.Processor, b.Processor),
			cmp.Compare(a.Start, b.Start), cmp.Compare(b.Time, a.Time))
	})
	return out
}

func (t *Timeline) zoneEvents() (tracks, body []traceEvent) {
	type place struct {
		core chip.Core
		on   chip.Processor
	}
	var last place
	for i, z := range t.Zones() {
		if at := (place{z.Core, z.Processor}); i == 0 || at != last {
			last = at
			tracks = append(tracks, meta("thread_name", zoneProcess, len(tracks), fmt.Sprintf("%v %v", at.core, at.on)))
		}
		e := newEvent(z.Text, "zone", z.HostStart, z.HostEnd, zoneProcess, len(tracks)-1)
		e.Args = map[string]any{"program": z.Program, "kernel": z.Kernel}
		if z.Zone {
			e.Args["cycles"] = z.Time - z.Start
		} else {
			e.Category, e.Phase, e.Duration = "print", "i", nil
		}
		if z.File != "" {
			e.Args["source"] = fmt.Sprintf("%s:%d", z.File, z.Line)
		}
		body = append(body, e)
	}
	if len(tracks) > 0 {
		tracks = append(tracks, meta("process_name", zoneProcess, 0, t.dev.Name()+": kernels"))
	}
	return tracks, body
}

// EngineSpan is a time in which each sample found a thread of a worker's Tensix engines waiting for
// the same condition.
type EngineSpan struct {
	Worker     chip.Core
	Thread     int           // 0 unpacks, 1 computes, 2 packs
	Wait       string        // the waiting instruction and its condition, in words
	Start, End time.Duration // of the first and the last sample, since StartTimeline
}

type engineThread struct {
	worker chip.Core
	thread int
}

// SampleEngines samples every interval until Stop what the threads of these workers' engines wait
// for, for [Timeline.EngineSpans]. Only an emulated device can tell; otherwise, and for a core
// outside of the chip, the error is that of [dispatch.Debug.EngineWait].
func (t *Timeline) SampleEngines(interval time.Duration, workers ...chip.Core) error {
	if interval <= 0 {
		return fmt.Errorf("observe: sample engines every %v: want an interval above 0", interval)
	}
	if len(workers) == 0 {
		return fmt.Errorf("observe: sample engines: no worker is named")
	}
	var threads []engineThread
	for _, w := range workers {
		for i := range 3 {
			threads = append(threads, engineThread{w, i})
		}
		if _, err := t.dev.Debug().EngineWait(w, 0); err != nil {
			return fmt.Errorf("observe: sample engines: %w", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return fmt.Errorf("observe: sample engines: the timeline has stopped")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		open := make([]int, len(threads)) // index + 1 of the span that each thread is in, 0 if it doesn't wait
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				t.sample(threads, open)
			}
		}
	})
	t.samplers = append(t.samplers, func() {
		cancel()
		done.Wait()
	})
	return nil
}

func (t *Timeline) sample(threads []engineThread, open []int) {
	for i, th := range threads {
		wait, err := t.dev.Debug().EngineWait(th.worker, th.thread)
		now := time.Since(t.began)
		t.mu.Lock()
		t.noteLocked(err)
		switch {
		case wait == "":
			open[i] = 0
		case open[i] > 0 && t.engines[open[i]-1].Wait == wait:
			t.engines[open[i]-1].End = now
		case len(t.engines) == t.most:
			t.dropped++
		default:
			t.engines = append(t.engines, EngineSpan{th.worker, th.thread, wait, now, now})
			open[i] = len(t.engines)
		}
		t.mu.Unlock()
	}
}

// EngineSpans returns the samples of [Timeline.SampleEngines] by worker, thread and time. It is
// complete once Stop has returned.
func (t *Timeline) EngineSpans() []EngineSpan {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.engines)
	slices.SortStableFunc(out, func(a, b EngineSpan) int {
		return cmp.Or(a.Worker.Compare(b.Worker), cmp.Compare(a.Thread, b.Thread))
	})
	return out
}

func (t *Timeline) engineEvents() (tracks, body []traceEvent) {
	names := [3]string{"unpack", "math", "pack"}
	var last engineThread
	for i, s := range t.EngineSpans() {
		if th := (engineThread{s.Worker, s.Thread}); i == 0 || th != last {
			if i == 0 {
				tracks = append(tracks, meta("process_name", engineProcess, 0, "Tensix engines"))
			}
			last = th
			tracks = append(tracks, meta("thread_name", engineProcess, len(tracks), fmt.Sprintf("worker %v %s", s.Worker, names[s.Thread])))
		}
		body = append(body, newEvent(s.Wait, "engine", s.Start, s.End, engineProcess, len(tracks)-1))
	}
	return tracks, body
}

const programEvery = time.Millisecond // between two readings of the rings, which hold a thousand programs of each queue

// ProgramLog collects when the programs of a device's queues run, without any command in the
// queues. Its methods may be called from any goroutine.
type ProgramLog struct {
	end  func()
	most int

	mu     sync.Mutex
	from   []*dispatch.ProgramTimes // by queue; nil where the firmware notes no times
	queues []queueLog
	err    error
}

type queueLog struct {
	times []dispatch.ProgramTime
	gaps  []programGap
	lost  int
}

// programGap is programs whose times were overwritten before they were read.
type programGap struct {
	before int // index in times of the program after them
	lost   int // programs lost so far, these included
}

// CollectPrograms begins to collect the times of the programs that the device starts from here on,
// and maybe of some before. tt-metal's firmware notes no times.
func CollectPrograms(dev *reprise.Device) (*ProgramLog, error) {
	p := &ProgramLog{most: mostSpans, queues: make([]queueLog, dev.Queues())}
	for id := range dev.Queues() {
		from, err := dev.Queue(id).ProgramTimes()
		if err != nil && !errors.Is(err, dispatch.ErrQueueFirmware) {
			return nil, err
		}
		p.from = append(p.from, from)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	p.end = sync.OnceFunc(func() { close(end); <-ended })
	go func() {
		defer close(ended)
		tick := time.NewTicker(programEvery)
		defer tick.Stop()
		for p.collect() {
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return p, nil
}

func (p *ProgramLog) collect() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, from := range p.from {
		q := &p.queues[id]
		if from == nil || p.err != nil {
			continue
		}
		had := len(q.times)
		var lost int
		q.times, lost, p.err = from.Append(q.times)
		if lost > 0 {
			q.lost += lost
			q.gaps = append(q.gaps, programGap{had, q.lost})
		}
		if over := len(q.times) - p.most; over > 0 {
			q.times = q.times[:p.most]
			q.lost += over
		}
	}
	return p.err == nil
}

// Stop reads the remaining times and ends the collection. The error is the first one of reading
// times, such as [dispatch.ErrTimesLost] after a Recover: earlier times are kept.
func (p *ProgramLog) Stop() error {
	p.end()
	p.collect()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from = nil
	return p.err
}

// Err returns the first error of reading times, nil without one.
func (p *ProgramLog) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// At returns the time of program n of a queue, counted from 0 by start; false if it isn't known to
// be done or was lost.
func (p *ProgramLog) At(queue, n int) (dispatch.ProgramTime, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &p.queues[queue]
	lost := 0
	for _, g := range q.gaps {
		if n < g.before+lost {
			break
		}
		if lost = g.lost; n < g.before+lost {
			return dispatch.ProgramTime{}, false
		}
	}
	if n -= lost; n >= len(q.times) {
		return dispatch.ProgramTime{}, false
	}
	return q.times[n], true
}

// Done returns how many programs of a queue are known to be done, lost ones included.
func (p *ProgramLog) Done(queue int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &p.queues[queue]
	n := len(q.times)
	if k := len(q.gaps); k > 0 {
		n += q.gaps[k-1].lost
	}
	return n
}

func (p *ProgramLog) take(queue int) (times []dispatch.ProgramTime, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queues[queue].times, p.queues[queue].lost
}
