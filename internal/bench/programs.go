package bench

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// measureEnqueue measures submitting a loaded program, and the round trip to its end.
func measureEnqueue(ctx context.Context, s *session) error {
	q := s.dev.Queue(0)
	return s.shapes(ctx, func(p shape, x *reprise.Executable) error {
		run := measure.Repeat(func(ctx context.Context) error { return q.Run(ctx, x) })
		params, c := report.Params("shape", p.name), x.Commands()
		job := &measure.Job{
			Name: "run", Params: params, Do: run, PerSample: 8, Burst: 8, Settle: s.finish, Allocs: true, Peers: enqueuePeers(p),
			Against: []*measure.Baseline{measure.MemcpySame(c.Bytes, 8)}, Bytes: float64(c.Bytes), Commands: float64(c.Count),
		}
		if err := s.measure(ctx, "enqueue", job); err != nil {
			return err
		}
		return s.measure(ctx, "enqueue", jobToEnd("run_to_end", params, 4, run, s.finish))
	})
}

// measureCapture measures recording a trace of one program and submitting its write to DRAM.
// Releasing traces waits for the device and isn't measured.
func measureCapture(ctx context.Context, s *session) error {
	return s.shapes(ctx, func(p shape, x *reprise.Executable) error {
		var traces []*reprise.Trace
		q, one := s.dev.Queue(0), func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) }
		bytes := x.Commands().Bytes
		return s.measure(ctx, "capture", &measure.Job{
			Name: "capture", Params: report.Params("shape", p.name), PerSample: 4, Burst: 4, Peers: capturePeers(p), Allocs: true,
			Against: []*measure.Baseline{measure.MemcpySame(bytes, 4)}, Bytes: float64(bytes),
			Do: measure.Repeat(func(ctx context.Context) error {
				t, err := q.Capture(ctx, "capture", one)
				if err == nil {
					traces = append(traces, t)
				}
				return err
			}),
			Settle: func(ctx context.Context) error {
				var errs []error
				for _, t := range traces {
					errs = append(errs, t.Release(ctx))
				}
				traces = traces[:0]
				return errors.Join(errs...)
			},
		})
	})
}

// shapes calls do with loaded programs of the shapes common and worst.
func (s *session) shapes(ctx context.Context, do func(shape, *reprise.Executable) error) error {
	for _, p := range []shape{common, worst} {
		if err := s.loaded(ctx, p, func(x *reprise.Executable) error { return do(p, x) }); err != nil {
			return err
		}
	}
	return nil
}

// measureOpen measures opening and closing the device, with firmware and queues.
func measureOpen(ctx context.Context, s *session) error {
	return s.measure(ctx, "open", &measure.Job{Name: "open_close", Do: measure.Repeat(func(ctx context.Context) error {
		d, err := reprise.Open(ctx, s.config.Target, s.config.Options...)
		if err != nil {
			return err
		}
		s.report.Arch = d.Arch().String()
		return d.Close(ctx)
	})})
}
