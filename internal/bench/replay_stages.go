package bench

import (
	"context"
	"math"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// replayStages measures the parts of a replay on the device by stamps of the dispatcher. "stamp" is
// the time between two stamps with nothing in between; "device" and "program" include it. "program"
// is a program with stamps of its own. Where the device's clock runs in step with the host's, which
// an emulator's doesn't, "to_start" is the time an idle queue takes to start and "to_awake" the
// time a waiter takes to return.
func (s *session) replayStages(ctx context.Context, t *reprise.Trace, programs int) error {
	p, err := s.newStamps(ctx)
	if err != nil || p == nil {
		return err
	}
	first := programs == s.config.Programs[0]
	if first {
		if err := s.measure(ctx, "replay", p.job("stamp", nil, 8, nil)); err != nil {
			return err
		}
	}
	params, burst := report.Params("programs", programs), max(1, min(4, 32/programs))
	if err := s.measure(ctx, "replay", p.job("device", params, burst, t.Replay)); err != nil {
		return err
	}
	if programs <= 32 {
		err := s.measure(ctx, "replay", &measure.Job{Name: "program", Params: params, Burst: burst,
			Sample: func(ctx context.Context) (float64, error) {
				times, err := t.Debug().Times(ctx)
				if err != nil {
					return 0, err
				}
				return float64(times[programs-1].End-times[0].Start) / float64(programs) * 1e3 / p.mhz, nil
			}})
		if err != nil {
			return err
		}
	}
	if err := s.programTimes(ctx, t, programs, p.mhz); err != nil {
		return err
	}
	if !first {
		return nil
	}
	q := s.dev.Queue(0)
	ref, along, err := alongside(q.Clock, p.mhz, time.Sleep)
	if err != nil || !along {
		return err
	}
	at := func(cycles uint64) time.Time {
		return ref.Host.Add(time.Duration(float64(int64(cycles-ref.Cycles)) * 1e3 / p.mhz))
	}
	for _, j := range []struct {
		name string
		ns   func(called, from, to, known time.Time) time.Duration
	}{
		{"to_start", func(called, from, _, _ time.Time) time.Duration { return from.Sub(called) }},
		{"to_awake", func(_, _, to, known time.Time) time.Duration { return known.Sub(to) }},
	} {
		err := s.measure(ctx, "replay", &measure.Job{Name: j.name, Params: params, Burst: burst, Settle: s.finish,
			Sample: func(ctx context.Context) (float64, error) {
				called := time.Now()
				from, to, err := p.around(ctx, t.Replay)
				return float64(j.ns(called, at(from), at(to), time.Now())), err
			}})
		if err != nil {
			return err
		}
	}
	return nil
}

// alongside reports whether a clock of so many MHz runs in step with the host's, and returns its
// last reading.
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
	rate := float64(b.Cycles-a.Cycles) * 1e3 / float64(b.Host.Sub(a.Host)) // MHz
	return b, math.Abs(rate/mhz-1) < tolerance, nil
}
