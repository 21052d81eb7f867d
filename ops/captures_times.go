package ops

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/ops/graph"
)

// timesPatience limits the wait for times at the end of a capture: the device stores them slightly
// later than a program's completion.
const timesPatience = time.Second

// capturedTimes relates the programs that queues start during captures to functions of graphs, by
// their order in each queue: the device stores times without names.
type capturedTimes struct {
	log      *observe.ProgramLog    // nil without times
	before   map[int]*reprise.Event // by queue: recorded before its first call, after what captures haven't seen
	began    map[uint64][]uint64    // clocks of the call's queues at its begin, by call
	started  map[int][]*programStart
	recorded []capturedProgram // into the trace under capture
	traces   map[*reprise.Trace][]capturedProgram
	replays  map[*reprise.Trace]int
}

type capturedProgram struct {
	name  string
	cores int
	in    map[*Capture]int
}

type programStart struct {
	from       uint64 // clock of the queue before the call: earlier programs belong to no function
	programs   []capturedProgram
	until      *reprise.Event // after a replay with an unknown number of programs; otherwise nil
	in         map[*Capture]int
	trace      string
	replay     int
	begin, end time.Time // of the call
}

func (t *capturedTimes) startLocked(dev *reprise.Device) {
	log, err := observe.CollectPrograms(dev)
	if err != nil {
		return
	}
	*t = capturedTimes{log: log, before: map[int]*reprise.Event{}, began: map[uint64][]uint64{}, started: map[int][]*programStart{},
		traces: map[*reprise.Trace][]capturedProgram{}, replays: map[*reprise.Trace]int{}}
}

func (t *capturedTimes) stopLocked() {
	if t.log != nil {
		_ = t.log.Stop() // times read before an error are valid
	}
	*t = capturedTimes{}
}

func (t *capturedTimes) beginLocked(ctx context.Context, call *reprise.Call) {
	if t.log == nil || call.Kind != reprise.CallRun && call.Kind != reprise.CallReplay {
		return
	}
	var at []uint64
	for _, q := range call.Queues {
		c, err := q.Clock()
		if _, ok := t.before[q.ID()]; !ok && err == nil {
			t.before[q.ID()], err = call.Stamp(context.WithoutCancel(ctx), q)
		}
		if err != nil {
			return
		}
		at = append(at, c.Cycles)
	}
	t.began[call.ID] = at
}

func (c *captures) calledLocked(ctx context.Context, call *reprise.Call) {
	t := &c.times
	began := t.began[call.ID]
	delete(t.began, call.ID)
	if len(began) != len(call.Queues) || call.Err != nil {
		return
	}
	in := c.functionsLocked()
	tr, _ := call.Object.(*reprise.Trace)
	if tr != nil {
		t.replays[tr]++
	}
	for i, q := range call.Queues {
		s := &programStart{from: began[i], in: in, begin: call.Start, end: call.End}
		if x, ok := call.Object.(*reprise.Executable); ok {
			s.programs = []capturedProgram{{x.Name(), x.Cores(), in}}
		}
		if tr != nil {
			s.trace, s.replay = tr.Name(), t.replays[tr]
			var counted bool
			if s.programs, counted = t.replayed(tr, q, in); !counted {
				var err error
				if s.until, err = call.Stamp(context.WithoutCancel(ctx), q); err != nil {
					return
				}
			}
		}
		t.started[q.ID()] = append(t.started[q.ID()], s)
	}
}

func (c *captures) functionsLocked() map[*Capture]int {
	in := make(map[*Capture]int, len(c.stack))
	for _, one := range c.stack {
		in[one] = one.rec.Function()
	}
	return in
}

// replayed returns the programs of a replay on a queue, or false for a trace with control flow,
// whose conditions decide how many run. in are the functions of programs that no captured function
// has recorded.
func (t *capturedTimes) replayed(tr *reprise.Trace, q *reprise.Queue, in map[*Capture]int) ([]capturedProgram, bool) {
	var out []capturedProgram
	recorded := t.traces[tr]
	for _, part := range tr.Parts() {
		if part.Queue != q {
			continue
		}
		names, ok := observe.ReplayedPrograms(part)
		if !ok {
			return nil, false
		}
		for _, name := range names {
			p := capturedProgram{name: name, in: in}
			if len(recorded) > 0 && recorded[0].name == name {
				p, recorded = recorded[0], recorded[1:]
			}
			out = append(out, p)
		}
	}
	return out, true
}

func (c *captures) record(x *reprise.Executable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.times.log != nil {
		c.times.recorded = append(c.times.recorded, capturedProgram{x.Name(), x.Cores(), c.functionsLocked()})
	}
}

func (t *capturedTimes) programs(c *Capture, device int) []graph.ProgramRun {
	if t.log == nil {
		return nil
	}
	var out []graph.ProgramRun
	for _, id := range slices.Sorted(maps.Keys(t.started)) {
		t.walk(id, func(s *programStart, p capturedProgram, start, end uint64) {
			function, mine := p.in[c]
			if !mine { // a trace that was captured before this capture began
				function, mine = s.in[c]
			}
			if mine {
				out = append(out, graph.ProgramRun{Function: function, Name: p.name, Device: int64(device), Queue: id, Cores: p.cores, Trace: s.trace,
					Replay: s.replay,
					Start:  start, End: end, HostStart: s.begin.Sub(c.rec.Started()), HostEnd: s.end.Sub(c.rec.Started())})
			}
		})
	}
	return out
}

// walk calls f for each program of a queue with a known time, in order of start, and returns how
// many programs the queue must have started.
func (t *capturedTimes) walk(queue int, f func(s *programStart, p capturedProgram, start, end uint64)) int {
	n := 0
	e := t.before[queue]
	if e == nil {
		return 0
	}
	if done, err := e.Query(); err != nil || !done {
		return 0
	}
	queued, _ := e.DeviceTime()
	for _, s := range t.started[queue] {
		for at, ok := t.log.At(queue, n); ok && at.Start < max(s.from, queued); at, ok = t.log.At(queue, n) {
			n++
		}
		for _, p := range s.programs {
			if at, ok := t.log.At(queue, n); ok {
				f(s, p, at.Start, at.End)
			}
			n++
		}
		if s.until == nil {
			continue
		}
		until, ok := s.until.DeviceTime()
		if !ok {
			break
		}
		for ; n < t.log.Done(queue); n++ {
			at, ok := t.log.At(queue, n)
			if ok && at.Start >= until {
				break
			}
			if ok {
				f(s, capturedProgram{in: s.in}, at.Start, at.End)
			}
		}
	}
	return n
}

func (t *capturedTimes) settle() {
	if t.log == nil {
		return
	}
	for end := time.Now().Add(timesPatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		missing := false
		for id := range t.started {
			missing = missing || t.walk(id, func(*programStart, capturedProgram, uint64, uint64) {}) > t.log.Done(id)
		}
		if !missing || t.log.Err() != nil {
			return
		}
	}
}
