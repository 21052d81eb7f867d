package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kmd"
)

// clockAttempts bounds the attempts to measure a figure at a steady clock.
const clockAttempts = 3

// aiClock reads the chip's clock. ok is false without a device, and where the firmware doesn't
// report the clock.
func (s *session) aiClock(ctx context.Context) (mhz float64, ok bool, err error) {
	if s.dev == nil {
		return 0, false, nil
	}
	mhz, err = s.dev.AIClock(ctx)
	if errors.Is(err, dispatch.ErrNoClock) {
		return 0, false, nil
	}
	return mhz, err == nil, err
}

// session is a run of the benchmarks.
type session struct {
	config Config
	runner measure.Runner
	dev    *reprise.Device // nil for families that need none
	report *report.Report
	marker *marker // nil without Config.Markers
}

// leaveOut reports that a family, or a part of it, measures nothing here. Only families that were
// asked for by name are reported.
func (s *session) leaveOut(family, part, why string) {
	if slices.Contains(s.config.Families, family) {
		s.report.LeftOut = append(s.report.LeftOut, report.LeftOut{Family: family + part, Why: why})
	}
}

// with opens the target for do.
func (s *session) with(ctx context.Context, do func() error, opts ...reprise.Option) error {
	return s.open(ctx, s.config.Target, do, opts)
}

// withProbe opens the device for measurements of the host's share.
func (s *session) withProbe(ctx context.Context, do func() error, opts ...reprise.Option) error {
	return s.open(ctx, cmp.Or(s.config.ProbeTarget, s.config.Target), do, opts)
}

func (s *session) open(ctx context.Context, t kmd.Target, do func() error, opts []reprise.Option) (err error) {
	if s.dev, err = reprise.Open(ctx, t, append(slices.Clip(s.config.Options), opts...)...); err != nil {
		return err
	}
	s.report.Arch = s.dev.Arch().String()
	defer func() { err = errors.Join(err, s.dev.Close(ctx)); s.dev = nil }()
	runtime.GC() // so that earlier garbage isn't collected during the measurement
	return do()
}

// measure adds a figure to the report, or a refusal if the chip's clock changed in every attempt: a
// chip may lower its clock although the open device holds the driver's power state.
func (s *session) measure(ctx context.Context, family string, j *measure.Job) error {
	id := (&report.Figure{Family: family, Name: j.Name, Params: j.Params}).ID()
	if s.config.Progress != nil {
		s.config.Progress(id)
	}
	refusal := report.Refusal{Figure: id}
	for range clockAttempts {
		f, err := s.runner.Measure(ctx, family, j)
		if err != nil {
			return fmt.Errorf("%s: %w", j.Name, err)
		}
		if f.AIClock == nil || !f.AIClock.Moved() {
			s.report.Figures = append(s.report.Figures, f)
			return s.marker.mark(ctx, id, j, s.runner.Rounds*j.Burst)
		}
		refusal.AIClocks = append(refusal.AIClocks, f.AIClock)
	}
	s.report.Refused = append(s.report.Refused, refusal)
	return nil
}

// record captures a trace that runs a program several times.
func (s *session) record(ctx context.Context, x *reprise.Executable, programs int) (*reprise.Trace, error) {
	return s.dev.Queue(0).Capture(ctx, fmt.Sprintf("%d programs", programs), func(_ context.Context, r *reprise.Recorder) error {
		for range programs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
}

// recorded calls do with a trace of several runs of a program, and then releases the trace.
func (s *session) recorded(ctx context.Context, x *reprise.Executable, programs int, do func(*reprise.Trace) error) error {
	t, err := s.record(ctx, x, programs)
	if err == nil {
		err = do(t)
	}
	if err != nil {
		return err
	}
	return t.Release(ctx)
}

func replay(t *reprise.Trace) func(ctx context.Context, n int) error {
	return func(ctx context.Context, n int) error {
		for range n {
			if err := t.Replay(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// jobToEnd measures an operation from its submission to the return of the wait for its end.
func jobToEnd(name string, params []report.Param, burst int, op func(context.Context, int) error,
	finish func(context.Context) error) *measure.Job {
	return &measure.Job{Name: name, Params: params, Burst: burst, Submit: op, Finish: finish,
		Do: measure.Repeat(func(ctx context.Context) error {
			if err := op(ctx, 1); err != nil {
				return err
			}
			return finish(ctx)
		})}
}

// measureTimes measures samples by wall-clock time and, where the system counts it, by processor
// time, whose figures end in processorSuffix. sample gets the clock and its least sensible
// duration.
func (s *session) measureTimes(ctx context.Context, family string, job measure.Job, processor func() (time.Duration, bool),
	sample func(ctx context.Context, now func() time.Duration, least time.Duration) (float64, error)) error {
	origin := time.Now()
	wall := job
	wall.Sample = func(ctx context.Context) (float64, error) {
		return sample(ctx, func() time.Duration { return time.Since(origin) }, 0)
	}
	err := s.measure(ctx, family, &wall)
	if _, ok := processor(); !ok {
		return err
	}
	job.Name += processorSuffix
	job.Sample = func(ctx context.Context) (float64, error) {
		return sample(ctx, func() time.Duration { t, _ := processor(); return t }, sampleLasts)
	}
	return errors.Join(err, s.measure(ctx, family, &job))
}

// load loads a program of the shape.
func (s *session) load(ctx context.Context, p shape) (*reprise.Executable, error) {
	prog, err := p.program(s.dev)
	if err != nil {
		return nil, err
	}
	return s.dev.Load(ctx, prog)
}

// loaded calls do with a loaded program of the shape, and then releases the program.
func (s *session) loaded(ctx context.Context, p shape, do func(*reprise.Executable) error) error {
	x, err := s.load(ctx, p)
	if err == nil {
		err = do(x)
	}
	if err != nil {
		return err
	}
	return x.Release(ctx)
}

func (s *session) finish(ctx context.Context) error { return s.dev.Queue(0).Wait(ctx) }

// stamps are two events that record the device's clock before and after an operation.
type stamps struct {
	s             *session
	before, after *reprise.Event
	mhz           float64
}

// newStamps returns nil where the device doesn't report its clock rate.
func (s *session) newStamps(ctx context.Context) (*stamps, error) {
	mhz, ok, err := s.aiClock(ctx)
	if err != nil || !ok || mhz == 0 {
		return nil, err
	}
	return &stamps{s: s, before: s.dev.NewEvent("before", reprise.Timed()), after: s.dev.NewEvent("after", reprise.Timed()), mhz: mhz}, nil
}

// job measures op between two stamps.
func (p *stamps) job(name string, params []report.Param, burst int, op func(context.Context) error) *measure.Job {
	return &measure.Job{
		Name:      name,
		Params:    params,
		PerSample: 1,
		Burst:     burst,
		Settle:    p.s.finish,
		Sample: func(ctx context.Context) (float64, error) {
			from, to, err := p.around(ctx, op)
			return float64(to-from) * 1e3 / p.mhz, err
		},
	}
}

// around returns two readings of the device's clock with op in between.
func (p *stamps) around(ctx context.Context, op func(context.Context) error) (from, to uint64, err error) {
	q := p.s.dev.Queue(0)
	if err := q.Record(ctx, p.before); err != nil {
		return 0, 0, err
	}
	if op != nil {
		if err := op(ctx); err != nil {
			return 0, 0, err
		}
	}
	if err := q.Record(ctx, p.after); err != nil {
		return 0, 0, err
	}
	if err := p.after.Wait(ctx); err != nil {
		return 0, 0, err
	}
	from, _ = p.before.DeviceTime()
	to, _ = p.after.DeviceTime()
	return from, to, nil
}
