package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
)

// measureReplay measures what a replay costs the host: putting it into the queue, and waiting until it is done, for
// traces of several lengths. Submitting costs the same for all of them.
func measureReplay(ctx context.Context, s *session) error {
	x, err := s.load(ctx, common)
	if err != nil {
		return err
	}
	for i, n := range s.config.Programs {
		if n < 1 {
			return fmt.Errorf("a trace of %d programs: there must be at least one", n)
		}
		if err := s.replay(ctx, x, n, i == 0); err != nil {
			return err
		}
	}
	return x.Close(ctx)
}

func (s *session) replay(ctx context.Context, x *reprise.Executable, programs int, first bool) (err error) {
	q := s.dev.Queue(0)
	t, err := q.Capture(ctx, fmt.Sprintf("%d programs", programs), func(r *reprise.Recorder) error {
		for range programs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Release(ctx)) }()
	replay := func(ctx context.Context, n int) error {
		for range n {
			if err := t.Replay(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	// So many at once that the device has work for a moment and the ring never fills; long traces are work enough.
	burst, per := max(1, 32/programs), 4
	if programs > 32 {
		per = 1
	}
	bytes := t.ReplayBytes()
	params := []Param{param("programs", programs)}
	job := &job{
		name: "submit", params: params, op: replay, per: per, burst: burst, settle: s.finish,
		against: []*baseline{memcpySame(bytes, per)}, bytes: float64(bytes), allocs: true,
		peers: replayPeers(),
	}
	if nt := nonTemporal(); nt != nil {
		job.against = append(job.against, nt)
	}
	if err := s.measure(ctx, "replay", job); err != nil {
		return err
	}
	if first {
		s.summarizeReplay(programs)
	}
	return s.measure(ctx, "replay", jobToEnd("to_end", params, min(4, burst), replay, s.finish))
}

// jobToEnd measures an operation until its results are in memory and the waiter knows.
func jobToEnd(name string, params []Param, burst int, op func(context.Context, int) error, finish func(context.Context) error) *job {
	return &job{name: name, params: params, per: 1, burst: burst, op: func(ctx context.Context, n int) error {
		for range n {
			if err := op(ctx, 1); err != nil {
				return err
			}
			if err := finish(ctx); err != nil {
				return err
			}
		}
		return nil
	}}
}

// summarizeReplay takes the last figure for the summary.
func (s *session) summarizeReplay(programs int) {
	f := s.report.Figures[len(s.report.Figures)-1]
	sum := &ReplaySummary{HostSubmitNsP50: f.P50, Programs: programs}
	if f.Bytes != nil {
		sum.BytesPerReplay = *f.Bytes
	}
	if f.Allocs != nil {
		sum.AllocsPerReplay = *f.Allocs
	}
	for _, r := range f.Ratios {
		if r.To == MemcpySame {
			sum.MemcpyNsP50 = r.Ns
		}
	}
	s.report.ReplaySummary = sum
}
