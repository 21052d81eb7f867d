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

// session is a run of the benchmarks, which ends with ctx.
type session struct {
	ctx    context.Context
	config Config
	runner measure.Runner
	dev    *reprise.Device // nil for families that need none
	report *report.Report
	marker *marker // nil without Config.Markers
}

// aiClock reads the chip's clock. ok is false without a device, and where the firmware doesn't
// report the clock.
func (s *session) aiClock() (mhz float64, ok bool, err error) {
	if s.dev == nil {
		return 0, false, nil
	}
	mhz, err = s.dev.AIClock(s.ctx)
	if errors.Is(err, dispatch.ErrNoClock) {
		return 0, false, nil
	}
	return mhz, err == nil, err
}

// leaveOut reports that a family, or a part of it, measures nothing here, if it was asked for by name.
func (s *session) leaveOut(family, part, why string) {
	if slices.Contains(s.config.Families, family) {
		s.report.LeftOut = append(s.report.LeftOut, report.LeftOut{Family: family + part, Why: why})
	}
}

// with opens the target for do.
func (s *session) with(do func() error, opts ...reprise.Option) error {
	return s.open(s.config.Target, do, opts...)
}

// withProbe opens the device for measurements of the host's share.
func (s *session) withProbe(do func() error, opts ...reprise.Option) error {
	return s.open(cmp.Or(s.config.ProbeTarget, s.config.Target), do, opts...)
}

func (s *session) open(t kmd.Target, do func() error, opts ...reprise.Option) (err error) {
	if s.dev, err = reprise.Open(s.ctx, t, append(slices.Clip(s.config.Options), opts...)...); err != nil {
		return err
	}
	s.report.Arch = s.dev.Arch().String()
	defer func() { err = errors.Join(err, s.dev.Close(s.ctx)); s.dev = nil }()
	runtime.GC() // so that earlier garbage isn't collected during the measurement
	return do()
}

// measure adds a figure to the report, or a refusal if the chip's clock changed in every attempt: a
// chip may lower its clock although the open device holds the driver's power state.
func (s *session) measure(family string, j *measure.Job) error {
	id := report.ID(family, j.Name, j.Params...)
	if s.config.Progress != nil {
		s.config.Progress(id)
	}
	refusal := report.Refusal{Figure: id}
	for range clockAttempts {
		f, err := s.runner.Measure(s.ctx, family, j)
		if err != nil {
			return fmt.Errorf("%s: %w", j.Name, err)
		}
		if f.AIClock == nil || !f.AIClock.Moved() {
			s.report.Figures = append(s.report.Figures, f)
			return s.marker.mark(id, j, s.runner.Rounds*j.Burst)
		}
		refusal.AIClocks = append(refusal.AIClocks, f.AIClock)
	}
	s.report.Refused = append(s.report.Refused, refusal)
	return nil
}

// record captures a trace that runs a program several times.
func (s *session) record(x *reprise.Executable, programs int) (*reprise.Trace, error) {
	return s.queue().Capture(s.ctx, fmt.Sprintf("%d programs", programs), func(_ context.Context, r *reprise.Recorder) error {
		for range programs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
}

// recorded calls do with a trace of several runs of a program, and then releases the trace.
func (s *session) recorded(x *reprise.Executable, programs int, do func(*reprise.Trace) error) error {
	t, err := s.record(x, programs)
	if err == nil {
		err = do(t)
	}
	if err != nil {
		return err
	}
	return t.Release(s.ctx)
}

func (s *session) replay(t *reprise.Trace) func(n int) error {
	ctx := s.ctx
	return func(n int) error {
		for range n {
			if err := t.Replay(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// jobToEnd measures an operation from its submission to the return of the wait for its end.
func jobToEnd(name string, params []report.Param, burst int, op func(int) error, finish func() error) *measure.Job {
	return &measure.Job{Name: name, Params: params, Burst: burst, Submit: op, Finish: finish, Do: measure.Repeat(func() error {
		if err := op(1); err != nil {
			return err
		}
		return finish()
	})}
}

// measureTimes measures samples by wall-clock time and, where the system counts it, by processor
// time. sample gets the clock and its least sensible duration.
func (s *session) measureTimes(family string, job measure.Job, processor func() (time.Duration, bool),
	sample func(now func() time.Duration, least time.Duration) (float64, error)) error {
	origin := time.Now()
	wall := job
	wall.Sample = func() (float64, error) {
		return sample(func() time.Duration { return time.Since(origin) }, 0)
	}
	err := s.measure(family, &wall)
	if _, ok := processor(); !ok {
		return err
	}
	job.Name += processorSuffix
	job.Sample = func() (float64, error) {
		return sample(func() time.Duration { t, _ := processor(); return t }, sampleLasts)
	}
	return errors.Join(err, s.measure(family, &job))
}

// load loads a program of the shape.
func (s *session) load(p shape) (*reprise.Executable, error) {
	prog, err := p.program(s.dev)
	if err != nil {
		return nil, err
	}
	return s.dev.Load(s.ctx, prog)
}

// loaded calls do with a loaded program of the shape, and then releases the program.
func (s *session) loaded(p shape, do func(*reprise.Executable) error) error {
	x, err := s.load(p)
	if err == nil {
		err = do(x)
	}
	if err != nil {
		return err
	}
	return x.Release(s.ctx)
}

// shapes calls do with loaded programs of the shapes common and worst.
func (s *session) shapes(do func(shape, *reprise.Executable) error) error {
	for _, p := range []shape{common, worst} {
		if err := s.loaded(p, func(x *reprise.Executable) error { return do(p, x) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) queue() *reprise.Queue { return s.dev.Queue(0) }

func (s *session) finish() error { return s.queue().Wait(s.ctx) }

// runToEnd returns a function that runs a program on queue 0 and waits for its end.
func runToEnd(ctx context.Context, d *reprise.Device, x *reprise.Executable) func() error {
	q := d.Queue(0)
	return func() error {
		if err := q.Run(ctx, x); err != nil {
			return err
		}
		return q.Wait(ctx)
	}
}

// stamps are two events that record the device's clock before and after an operation.
type stamps struct {
	ctx           context.Context
	queue         *reprise.Queue
	before, after *reprise.Event
	mhz           float64 // 0 if unknown
}

func newStamps(ctx context.Context, d *reprise.Device) *stamps {
	return &stamps{ctx: ctx, queue: d.Queue(0), before: d.NewEvent("before", reprise.Timed()), after: d.NewEvent("after", reprise.Timed())}
}

// newStamps returns nil where the device doesn't report its clock rate.
func (s *session) newStamps() (*stamps, error) {
	mhz, ok, err := s.aiClock()
	if err != nil || !ok || mhz == 0 {
		return nil, err
	}
	p := newStamps(s.ctx, s.dev)
	p.mhz = mhz
	return p, nil
}

// job measures op between two stamps.
func (p *stamps) job(name string, params []report.Param, burst int, op func() error) *measure.Job {
	return &measure.Job{
		Name: name, Params: params, PerSample: 1, Burst: burst,
		Settle: func() error { return p.queue.Wait(p.ctx) },
		Sample: func() (float64, error) {
			from, to, err := p.around(op)
			return float64(to-from) * 1e3 / p.mhz, err
		},
	}
}

// around returns two readings of the device's clock with op in between.
func (p *stamps) around(op func() error) (from, to uint64, err error) {
	if err := p.queue.Record(p.ctx, p.before); err != nil {
		return 0, 0, err
	}
	if op != nil {
		if err := op(); err != nil {
			return 0, 0, err
		}
	}
	if err := p.queue.Record(p.ctx, p.after); err != nil {
		return 0, 0, err
	}
	if err := p.after.Wait(p.ctx); err != nil {
		return 0, 0, err
	}
	from, _ = p.before.DeviceTime()
	to, _ = p.after.DeviceTime()
	return from, to, nil
}
