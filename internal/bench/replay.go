package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/observe"
)

// measureReplay measures submissions of replays and whole replays, for several trace lengths.
// Submissions are measured on a queue with one worker: an emulated device shares the host's
// processors and caches, and should be done soon.
func measureReplay(ctx context.Context, s *session) error {
	for _, n := range s.config.Programs {
		if n < 1 {
			return fmt.Errorf("a trace of %d programs: there must be at least one", n)
		}
	}
	err := s.withProbe(ctx, func() error { return s.replays(ctx, s.submitReplay) }, reprise.WithQueueWorkers(0, chip.Range{}))
	if err != nil {
		return err
	}
	err = s.with(ctx, func() error { return s.replays(ctx, s.replayToEnd) })
	if err != nil {
		return err
	}
	err = s.with(ctx, func() error { return s.replays(ctx, s.replayStages) })
	if err == nil {
		err = s.countInstructions(ctx)
	}
	if err != nil || !s.config.Timeline {
		return err
	}
	return s.with(ctx, func() (err error) {
		if s.report.Timeline, err = observe.StartTimeline(ctx, s.dev); err != nil {
			return err
		}
		return errors.Join(s.replays(ctx, s.drawReplays), s.report.Timeline.Stop(ctx))
	})
}

// countInstructions counts the instructions of the queue's cores for each program of a long trace.
func (s *session) countInstructions(ctx context.Context) error {
	if s.config.Retired == nil || s.config.CountTarget == nil || s.report.ReplaySummary == nil {
		return nil
	}
	return s.open(ctx, s.config.CountTarget, func() error {
		return s.loaded(ctx, common, func(x *reprise.Executable) error {
			const more = 32 // a whole number of rounds of launch messages
			var retired [2]uint64
			for i := range retired {
				if err := s.recorded(ctx, x, (i+1)*more, func(t *reprise.Trace) error {
					if err := s.finish(ctx); err != nil {
						return err
					}
					before := s.config.Retired()
					err := errors.Join(t.Replay(ctx), s.finish(ctx))
					retired[i] = s.config.Retired() - before
					return err
				}); err != nil {
					return err
				}
			}
			s.report.InstructionsPerProgram = new(float64(retired[1]-retired[0]) / more)
			return nil
		})
	}, nil)
}

// drawReplays replays a trace for the timeline, first idle, then back to back.
func (s *session) drawReplays(ctx context.Context, t *reprise.Trace, programs int) error {
	const replays = 3
	again := replay(t)
	for range replays {
		if err := errors.Join(again(ctx, 1), s.finish(ctx)); err != nil {
			return err
		}
	}
	return errors.Join(again(ctx, replays), s.finish(ctx))
}

// replays calls measure with a trace of each length.
func (s *session) replays(ctx context.Context, measure func(context.Context, *reprise.Trace, int) error) error {
	return s.loaded(ctx, common, func(x *reprise.Executable) error {
		for _, n := range s.config.Programs {
			if err := s.recorded(ctx, x, n, func(t *reprise.Trace) error { return measure(ctx, t, n) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *session) submitReplay(ctx context.Context, t *reprise.Trace, programs int) error {
	// Enough to warm up the host and few enough for the ring. Long traces are replayed less often.
	per, burst := 16, max(1, 32/programs)
	if programs > 32 {
		per = 4
	}
	part := t.Parts()[0]
	bytes := part.ReplayBytes
	job := &measure.Job{
		Name: "submit", Params: report.Params("programs", programs), Do: replay(t), PerSample: per, Burst: burst, Settle: s.finish,
		Against: []*measure.Baseline{measure.MemcpySame(bytes, per)},
		Bytes:   float64(bytes), Commands: float64(part.ReplayCommands), Allocs: true,
		Peers: replayPeers(),
	}
	if nt := measure.NonTemporal(); nt != nil {
		job.Against = append(job.Against, nt)
	}
	if err := s.measure(ctx, "replay", job); err != nil {
		return err
	}
	if f, ok := s.report.Figure((&report.Figure{Family: "replay", Name: job.Name, Params: job.Params}).ID()); ok &&
		programs == s.config.Programs[0] {
		s.summarizeReplay(f, programs)
	}
	return nil
}

func (s *session) replayToEnd(ctx context.Context, t *reprise.Trace, programs int) error {
	burst := max(1, min(4, 32/programs))
	return s.measure(ctx, "replay", jobToEnd("to_end", report.Params("programs", programs), burst, replay(t), s.finish))
}

func (s *session) summarizeReplay(f *report.Figure, programs int) {
	sum := &report.ReplaySummary{HostSubmitNsP50: f.P50, Programs: programs}
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
	s.report.ReplaySummary = sum
}
