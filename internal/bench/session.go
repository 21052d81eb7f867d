package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kmd"
)

// clockAttempts is how often a figure is measured, at most, until the clock stands still.
const clockAttempts = 3

// aiClock reads the clock of the chip. It returns false without a device, and where the firmware
// doesn't report the clock.
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

// leaveOut notes that a family measures nothing here, or nothing of a part if that isn't empty. It
// is reported if the family was asked for by name.
func (s *session) leaveOut(family, part, why string) {
	if slices.Contains(s.config.Families, family) {
		s.report.LeftOut = append(s.report.LeftOut, report.LeftOut{Family: family + part, Why: why})
	}
}

// with opens the device for what do measures.
func (s *session) with(ctx context.Context, do func() error, opts ...reprise.Option) error {
	return s.open(ctx, s.config.Target, do, opts)
}

// withProbe is with for measurements of the host's part alone.
func (s *session) withProbe(ctx context.Context, do func() error, opts ...reprise.Option) error {
	return s.open(ctx, cmp.Or(s.config.ProbeTarget, s.config.Target), do, opts)
}

func (s *session) open(ctx context.Context, t kmd.Target, do func() error, opts []reprise.Option) (err error) {
	if s.dev, err = reprise.Open(ctx, t, append(slices.Clip(s.config.Options), opts...)...); err != nil {
		return err
	}
	s.report.Arch = s.dev.Arch().String()
	defer func() { err = errors.Join(err, s.dev.Close(ctx)); s.dev = nil }()
	runtime.GC() // earlier garbage isn't collected while this is timed
	return do()
}

// measure adds a figure to the report, or a refusal if the chip's clock didn't stand still
// meanwhile: the device holds the driver's power state for as long as it is open, but a chip may
// still lower its clock.
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

// record records a program several times.
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

// recorded records a program several times for what do measures.
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

// jobToEnd measures an operation until its results are in memory and the waiter knows.
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

// load makes and loads a program of the shape.
func (s *session) load(ctx context.Context, p shape) (*reprise.Executable, error) {
	prog, err := p.program(s.dev)
	if err != nil {
		return nil, err
	}
	return s.dev.Load(ctx, prog)
}

// loaded loads a program of the shape for what do measures.
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

// stamps are two events that record the device's time before and after what is measured, and the
// rate of its clock.
type stamps struct {
	s             *session
	before, after *reprise.Event
	mhz           float64
}

// newStamps returns nil where the device doesn't tell how fast its clock is.
func (s *session) newStamps(ctx context.Context) (*stamps, error) {
	mhz, ok, err := s.aiClock(ctx)
	if err != nil || !ok || mhz == 0 {
		return nil, err
	}
	return &stamps{s: s, before: s.dev.NewEvent("before", reprise.Timed()), after: s.dev.NewEvent("after", reprise.Timed()), mhz: mhz}, nil
}

// job makes a job of what lies between two stamps.
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

// around returns the times of two stamps with op in between, by the device's clock.
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
