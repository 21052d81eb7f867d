package bench

import (
	"context"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// stamps are two events that record the device's time before and after what is measured, and the rate of its clock.
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
