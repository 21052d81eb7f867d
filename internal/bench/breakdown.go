package bench

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// Stages of a replay, as numbered for the probes.
const (
	stageSubmit = 1
	stageWait   = 2
)

// A burst fits into the queue's rings and the emulator's interface.
const (
	probeBurst  = 100
	probeBursts = 10
)

// breakdown watches replays of the smallest trace by eBPF, on a device of its own. Without
// Config.EBPF only system calls are counted, where the kernel permits.
func (s *session) breakdown() error {
	kinds := []probe.Kind{probe.Calls}
	if s.config.EBPF {
		kinds = append(kinds, probe.Scheduler, probe.Faults, probe.Functions)
	}
	m := s.config.machine()
	if !s.config.EBPF && m.Missing(probe.BPF) != nil {
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

// watched are replays observed by probes.
type watched struct {
	*session
	trace  *reprise.Trace
	config probe.Config

	tid          int
	replays      int
	bursts       []float64 // ns of each
	waits        float64   // ns of all waits
	instructions uint64
	counted      bool // whether instructions is valid
	snapshot     *probe.Snapshot
	has          func(probe.Kind) bool
}

// run replays bursts on one locked thread. Another goroutine waits for the device, since waiting would
// put the locked thread to sleep.
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
	if err := errors.Join(burst(), wait()); err != nil { // to warm up
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
	} else if err := w.config.Machine.Missing(probe.Counters); err != nil {
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
	total := func(of func(probe.Thread) float64) *float64 {
		var v float64
		for _, t := range threads {
			v += of(t)
		}
		return w.each(v)
	}
	if w.has(probe.Calls) {
		c.Syscalls = total(func(t probe.Thread) float64 { return float64(t.Syscalls()) })
	}
	if w.has(probe.Scheduler) {
		c.Switches = total(func(t probe.Thread) float64 { return float64(t.Voluntary + t.Preempted) })
		c.Preemptions = total(func(t probe.Thread) float64 { return float64(t.Preempted) })
		c.OffNs = total(func(t probe.Thread) float64 { return float64(t.Off.Total) })
		c.ReadyNs = total(func(t probe.Thread) float64 { return float64(t.Ready.Total) })
	}
	if w.has(probe.Faults) {
		c.Faults = total(func(t probe.Thread) float64 { return float64(t.Faults.Count) })
	}
	return c
}

// jitter ranks the causes that delayed the submitting thread. Unexplained time of bursts beyond their
// median is a cause of its own.
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
