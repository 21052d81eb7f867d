package bench

import (
	"context"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// measureEnqueue measures putting a loaded program into the queue, and the round trip until it has ended.
func measureEnqueue(ctx context.Context, s *session) error {
	q := s.dev.Queue(0)
	for _, shape := range []shape{common, worst} {
		x, err := s.load(ctx, shape)
		if err != nil {
			return err
		}
		run := func(ctx context.Context, n int) error {
			for range n {
				if err := q.Run(ctx, x); err != nil {
					return err
				}
			}
			return nil
		}
		params := []report.Param{report.NewParam("shape", shape.name)}
		job := &measure.Job{
			Name: "run", Params: params, Do: run, PerSample: 8, Burst: 8, Settle: s.finish,
			Against: []*measure.Baseline{
				measure.MemcpySame(x.Commands().Bytes, 8),
			}, Bytes: float64(x.Commands().Bytes), Commands: float64(x.Commands().Count),
			Allocs: true,
			Peers:  enqueuePeers(shape),
		}
		if err := s.measure(ctx, "enqueue", job); err != nil {
			return err
		}
		if err := s.measure(ctx, "enqueue", jobToEnd("run_to_end", params, 4, run, s.finish)); err != nil {
			return err
		}
		if err := x.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureCapture measures recording a trace of one program and putting the write to DRAM into the queue. Releasing the
// traces waits for the device and isn't part of it.
func measureCapture(ctx context.Context, s *session) error {
	for _, shape := range []shape{common, worst} {
		x, err := s.load(ctx, shape)
		if err != nil {
			return err
		}
		var traces []*reprise.Trace
		q, one := s.dev.Queue(0), func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) }
		job := &measure.Job{
			Name: "capture", Params: []report.Param{report.NewParam("shape", shape.name)}, PerSample: 4, Burst: 4,
			Against: []*measure.Baseline{
				measure.MemcpySame(x.Commands().Bytes, 4),
			}, Bytes: float64(x.Commands().Bytes), Peers: capturePeers(shape), Allocs: true,
			Do: func(ctx context.Context, n int) error {
				for range n {
					t, err := q.Capture(ctx, "capture", one)
					if err != nil {
						return err
					}
					traces = append(traces, t)
				}
				return nil
			},
			Settle: func(ctx context.Context) error {
				for _, t := range traces {
					if err := t.Release(ctx); err != nil {
						return err
					}
				}
				traces = traces[:0]
				return nil
			},
		}
		if err := s.measure(ctx, "capture", job); err != nil {
			return err
		}
		if err := x.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureOpen measures opening and closing the device, firmware and queues included.
func measureOpen(ctx context.Context, s *session) error {
	return s.measure(ctx, "open", &measure.Job{Name: "open_close", PerSample: 1, Burst: 1, Do: func(ctx context.Context, n int) error {
		for range n {
			d, err := reprise.Open(ctx, s.config.Target, s.config.Options...)
			if err != nil {
				return err
			}
			s.report.Arch = d.Arch().String()
			if err := d.Close(ctx); err != nil {
				return err
			}
		}
		return nil
	}})
}
