package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/observe"
)

func measureReplay(s *session) error {
	for _, n := range s.config.Programs {
		if n < 1 {
			return fmt.Errorf("a trace of %d programs: there must be at least one", n)
		}
	}
	if err := s.submitReplays(); err != nil {
		return err
	}
	for _, measure := range []func(*reprise.Trace, int) error{s.replayToEnd, s.replayStages} {
		if err := s.with(func() error { return s.replays(measure) }); err != nil {
			return err
		}
	}
	if err := s.countInstructions(); err != nil || !s.config.Timeline {
		return err
	}
	return s.with(func() (err error) {
		if s.report.Timeline, err = observe.StartTimeline(s.ctx, s.dev); err != nil {
			return err
		}
		return errors.Join(s.replays(s.drawReplays), s.report.Timeline.Stop(s.ctx))
	})
}

// submitReplays uses a queue with one worker, so that an emulated device is done soon.
func (s *session) submitReplays() error {
	return s.withProbe(func() error { return s.replays(s.submitReplay) }, reprise.WithQueueWorkers(0, chip.Range{}))
}

func (s *session) countInstructions() error {
	if s.config.CountTarget == nil || s.report.ReplaySummary == nil {
		return nil
	}
	return s.open(s.config.CountTarget, func() error {
		return s.loaded(common, func(x *reprise.Executable) error {
			each, _, err := s.executed(x)
			s.report.InstructionsPerProgram = new(each[0] + each[1] + each[2])
			return err
		})
	})
}

func (s *session) drawReplays(t *reprise.Trace, programs int) error {
	const replays = 3
	again := s.replay(t)
	for range replays {
		if err := errors.Join(again(1), s.finish()); err != nil {
			return err
		}
	}
	return errors.Join(again(replays), s.finish())
}

func (s *session) replays(measure func(*reprise.Trace, int) error) error {
	return s.loaded(common, func(x *reprise.Executable) error {
		for _, n := range s.config.Programs {
			if err := s.recorded(x, n, func(t *reprise.Trace) error { return measure(t, n) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *session) submitReplay(t *reprise.Trace, programs int) error {
	// Enough to warm up the host and few enough for the ring.
	per, burst := 16, max(1, 32/programs)
	if programs > 32 {
		per = 4
	}
	part := t.Parts()[0]
	job := &measure.Job{
		Name: "submit", Params: report.Params("programs", programs), Do: s.replay(t), PerSample: per, Burst: burst, Settle: s.finish,
		Copy: true, Bytes: float64(part.ReplayBytes), Commands: float64(part.ReplayCommands), Allocs: true, Peers: replayPeers(),
	}
	if nt := measure.NonTemporal(); nt != nil {
		job.Against = []*measure.Baseline{nt}
	}
	if err := s.measure("replay", job); err != nil {
		return err
	}
	if f, ok := s.report.Figure(report.ID("replay", job.Name, job.Params...)); ok && programs == s.config.Programs[0] {
		s.report.ReplaySummary = s.summarizeReplay(f, programs)
	}
	return nil
}

func (s *session) replayToEnd(t *reprise.Trace, programs int) error {
	return s.measure("replay", &measure.Job{Name: "to_end", Params: report.Params("programs", programs), Burst: fewReplays(programs),
		Submit: func() error { return t.Replay(s.ctx) }, Finish: s.finish})
}

func fewReplays(programs int) int { return max(1, min(4, 32/programs)) }

func (s *session) summarizeReplay(f *report.Figure, programs int) *report.ReplaySummary {
	sum := &report.ReplaySummary{HostSubmitNsP50: f.P50, Programs: programs}
	if nt, ok := s.report.Baseline(report.NonTemporal); ok {
		sum.NTStoreNs = &nt.P50
	}
	if f.Bytes != nil {
		sum.BytesPerReplay = *f.Bytes
	}
	if f.Allocs != nil {
		sum.AllocsPerReplay = *f.Allocs
	}
	for _, r := range f.Ratios {
		if r.To == report.MemcpySame {
			sum.MemcpyNsP50 = r.Ns
		}
	}
	return sum
}

// replayStages uses stamps of the dispatcher. "stamp" is the time between two of them; "device" and
// "program" include it. "to_start" and "to_awake" need a clock in step with the host's.
func (s *session) replayStages(t *reprise.Trace, programs int) error {
	p, err := s.newStamps()
	if err != nil || p == nil {
		return err
	}
	var jobs []*measure.Job
	first := programs == s.config.Programs[0]
	if first {
		jobs = append(jobs, p.job("stamp", nil, 8, nil))
	}
	replay := func() error { return t.Replay(s.ctx) }
	params, burst := report.Params("programs", programs), fewReplays(programs)
	jobs = append(jobs, p.job("device", params, burst, replay))
	if programs <= 32 {
		jobs = append(jobs, &measure.Job{Name: "program", Params: params, Burst: burst, Sample: func() (float64, error) {
			times, err := t.Debug().Times(s.ctx)
			if err != nil {
				return 0, err
			}
			return float64(times[programs-1].End-times[0].Start) / float64(programs) * 1e3 / p.mhz, nil
		}})
	}
	if err := s.measure("replay", jobs...); err != nil {
		return err
	}
	if err := s.programTimes(t, programs, p.mhz); err != nil || !first {
		return err
	}
	ref, along, err := alongside(s.queue().Clock, p.mhz, time.Sleep)
	if err != nil || !along {
		return err
	}
	at := func(cycles uint64) time.Time {
		return ref.Host.Add(time.Duration(float64(int64(cycles-ref.Cycles)) * 1e3 / p.mhz))
	}
	job := func(name string, ns func(called, from, to, known time.Time) time.Duration) *measure.Job {
		return &measure.Job{Name: name, Params: params, Burst: burst, Settle: s.finish, Sample: func() (float64, error) {
			called := time.Now()
			from, to, err := p.around(replay)
			return float64(ns(called, at(from), at(to), time.Now())), err
		}}
	}
	return s.measure("replay",
		job("to_start", func(called, from, _, _ time.Time) time.Duration { return from.Sub(called) }),
		job("to_awake", func(_, _, to, known time.Time) time.Duration { return known.Sub(to) }))
}

// alongside reports whether a clock runs in step with the host's, and its last reading.
func alongside(read func() (dispatch.Clock, error), mhz float64, sleep func(time.Duration)) (dispatch.Clock, bool, error) {
	const apart, tolerance = 20 * time.Millisecond, 0.01
	a, err := read()
	if err != nil {
		return a, false, err
	}
	sleep(apart)
	b, err := read()
	if err != nil {
		return b, false, err
	}
	rate := float64(b.Cycles-a.Cycles) * 1e3 / float64(b.Host.Sub(a.Host))
	return b, math.Abs(rate/mhz-1) < tolerance, nil
}

const mostTimes = 1000

func (s *session) programTimes(t *reprise.Trace, programs int, mhz float64) error {
	if programs > mostTimes {
		return nil
	}
	read, err := s.queue().ProgramTimes()
	if errors.Is(err, dispatch.ErrQueueFirmware) {
		return nil
	}
	if err != nil {
		return err
	}
	var times []dispatch.ProgramTime // of the last replay, not yet returned as samples
	return s.measure("replay", &measure.Job{
		Name: "device_program", Params: report.Params("programs", programs), Burst: min(max(programs, 4), 64),
		Sample: func() (float64, error) {
			if len(times) == 0 {
				if times, err = s.replayed(t, read, programs); err != nil {
					return 0, err
				}
			}
			at := times[0]
			times = times[1:]
			return float64(at.End-at.Start) * 1e3 / mhz, nil
		},
	})
}

func (s *session) replayed(t *reprise.Trace, read *dispatch.ProgramTimes, programs int) ([]dispatch.ProgramTime, error) {
	if _, _, err := read.Append(nil); err != nil { // drop those of earlier replays
		return nil, err
	}
	if err := errors.Join(t.Replay(s.ctx), s.finish()); err != nil {
		return nil, err
	}
	// The device records the last program's end shortly after the host sees the replay's end.
	var times []dispatch.ProgramTime
	var err error
	wait := s.queue().WaitFunc(s.ctx, func() bool {
		var lost int
		times, lost, err = read.Append(times)
		if lost > 0 {
			err = errors.Join(err, fmt.Errorf("the times of %d programs were overwritten", lost))
		}
		return err != nil || len(times) >= programs
	})
	if err := errors.Join(wait, err); err != nil {
		return nil, err
	}
	if len(times) != programs {
		return nil, fmt.Errorf("%d programs ran in a replay of %d", len(times), programs)
	}
	return times, nil
}

const (
	stageSubmit = 1
	stageWait   = 2
)

// A burst fits into the queue's rings and the emulator's interface.
const (
	probeBurst  = 100
	probeBursts = 10
)

// breakdown watches replays of the smallest trace; without Config.EBPF only system calls.
func (s *session) breakdown() error {
	kinds := []probe.Kind{probe.Calls}
	if s.config.EBPF {
		kinds = append(kinds, probe.Scheduler, probe.Faults)
	}
	m := s.config.machine()
	if !s.config.EBPF && m(probe.BPF) != nil {
		return nil
	}
	return s.withProbe(func() error {
		return s.loaded(minimal, func(x *reprise.Executable) error {
			return s.recorded(x, 1, func(t *reprise.Trace) error {
				costs, err := probe.Calibrate(m, kinds...)
				if err != nil {
					return err
				}
				w := &watched{session: s, trace: t, config: probe.Config{Kinds: kinds, Machine: m}}
				if err := w.run(); err != nil {
					return err
				}
				b := w.sum(costs)
				if s.report.ReplaySummary != nil {
					s.report.SyscallsPerReplay = b.Stages[0].Syscalls
				}
				if s.config.EBPF {
					s.report.Breakdown = b
				}
				return nil
			})
		})
	})
}

type watched struct {
	*session
	trace  *reprise.Trace
	config probe.Config

	tid          int
	replays      int
	bursts       []float64
	waits        float64
	instructions uint64
	counted      bool
	snapshot     *probe.Snapshot
	has          func(probe.Kind) bool
}

// run replays on a locked thread. Another goroutine waits, which would put it to sleep.
func (w *watched) run() (err error) {
	begin, done := make(chan struct{}), make(chan error)
	go func() {
		for range begin {
			done <- w.finish()
		}
	}()
	defer close(begin)
	wait := func() error {
		begin <- struct{}{}
		return <-done
	}
	replay := w.replay(w.trace)
	burst := func() error { return replay(probeBurst) }
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := errors.Join(burst(), wait()); err != nil {
		return err
	}
	p, err := probe.Start(w.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	counter, _ := probe.OpenCounter() // nil where it isn't available
	if counter != nil {
		defer func() { err = errors.Join(err, counter.Close()) }()
		w.counted = true
	}
	count := func() uint64 {
		if counter == nil {
			return 0
		}
		n, err := counter.Read()
		w.counted = w.counted && err == nil
		return n
	}
	w.tid, w.has = probe.ThreadID(), p.Has
	w.bursts = make([]float64, 0, probeBursts)
	for range probeBursts {
		before := count()
		start := measure.Ticks()
		p.Stage(stageSubmit)
		err := burst()
		p.Stage(stageWait)
		mid := measure.Ticks()
		w.instructions += count() - before
		if err := errors.Join(err, wait()); err != nil {
			return err
		}
		p.Stage(0)
		w.waits += w.runner.Clock.Ns(mid, measure.Ticks())
		w.bursts = append(w.bursts, w.runner.Clock.Ns(start, mid))
		w.replays += probeBurst
	}
	w.snapshot, err = p.Snapshot()
	return err
}

func (w *watched) sum(costs []probe.Cost) *report.Breakdown {
	sn := w.snapshot
	b := &report.Breakdown{Replays: w.replays, Costs: costs, Used: sn.Used, LeftOut: sn.LeftOut, Lost: sn.Lost}
	own, _ := sn.Thread(w.tid, stageSubmit)
	var all []probe.Thread
	for _, t := range sn.Threads {
		if t.Stage == stageWait {
			all = append(all, t)
		}
	}
	var submit float64
	for _, ns := range w.bursts {
		submit += ns
	}
	b.Stages = []report.StageCost{w.stage("submit", submit, own), w.stage("wait", w.waits, all...)}
	if w.counted {
		b.Stages[0].Instructions = w.each(float64(w.instructions))
	} else if err := w.config.Machine(probe.Counters); err != nil {
		b.LeftOut = append(slices.Clone(b.LeftOut), probe.LeftOut{Probe: "instructions", Why: err.Error()})
	}
	b.Jitter = w.jitter(own)
	return b
}

func (w *watched) each(v float64) *float64 {
	v /= float64(w.replays)
	return &v
}

func (w *watched) stage(name string, ns float64, threads ...probe.Thread) report.StageCost {
	c := report.StageCost{Name: name, Ns: *w.each(ns)}
	var calls, faults, switches, preempted uint64
	var off, ready time.Duration
	for _, t := range threads {
		calls, faults = calls+t.Syscalls(), faults+t.Faults.Count
		switches, preempted = switches+t.Voluntary+t.Preempted, preempted+t.Preempted
		off, ready = off+t.Off.Total, ready+t.Ready.Total
	}
	if w.has(probe.Calls) {
		c.Syscalls = w.each(float64(calls))
	}
	if w.has(probe.Scheduler) {
		c.Switches, c.Preemptions = w.each(float64(switches)), w.each(float64(preempted))
		c.OffNs, c.ReadyNs = w.each(float64(off)), w.each(float64(ready))
	}
	if w.has(probe.Faults) {
		c.Faults = w.each(float64(faults))
	}
	return c
}

// jitter ranks the causes of delays; unexplained time is one of its own.
func (w *watched) jitter(t probe.Thread) []report.JitterSource {
	var out []report.JitterSource
	add := func(name string, n uint64, total, longest time.Duration) {
		if n > 0 {
			out = append(out, report.JitterSource{Name: name, Count: n, Ns: float64(total), MaxNs: float64(longest)})
		}
	}
	add("waiting for a processor", t.Ready.Count, t.Ready.Total, t.Ready.Max)
	add("blocked", t.Off.Count, t.Off.Total-t.Ready.Total, t.Off.Max)
	add("page faults", t.Faults.Count, t.Faults.Total, t.Faults.Max)
	seen := t.Off.Total + t.Faults.Total
	for _, c := range t.Calls {
		add("in "+c.Name+", on the processor", c.Count, c.Total-c.Off, c.Max)
		seen += c.Total - c.Off
	}
	usual := report.Median(slices.Clone(w.bursts))
	var beyond, longest float64
	var n uint64
	for _, ns := range w.bursts {
		if more := ns - usual; more > usual/10 {
			n++
			beyond += more
			longest = max(longest, more)
		}
	}
	if rest := beyond - float64(seen); n > 0 && rest > 0 {
		out = append(out, report.JitterSource{Name: "not seen by any probe: interrupts, the hypervisor, cold caches", Count: n, Ns: rest,
			MaxNs: min(longest, rest)})
	}
	slices.SortStableFunc(out, func(a, b report.JitterSource) int { return cmp.Compare(b.Ns, a.Ns) })
	return out
}
