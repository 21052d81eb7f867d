package bench

import (
	"context"

	"github.com/reprise-tt/reprise"
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
		params := []Param{{"shape", shape.name}}
		job := &job{
			name: "run", params: params, op: run, per: 8, burst: 8, settle: s.finish,
			against: []*baseline{memcpySame(x.Commands().Bytes, 8)}, bytes: float64(x.Commands().Bytes), commands: float64(x.Commands().Count),
			allocs: true,
			peers:  enqueuePeers(shape),
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
		job := &job{
			name: "capture", params: []Param{{"shape", shape.name}}, per: 4, burst: 4,
			against: []*baseline{memcpySame(x.Commands().Bytes, 4)}, bytes: float64(x.Commands().Bytes), peers: capturePeers(shape), allocs: true,
			op: func(ctx context.Context, n int) error {
				for range n {
					t, err := q.Capture(ctx, "capture", one)
					if err != nil {
						return err
					}
					traces = append(traces, t)
				}
				return nil
			},
			settle: func(ctx context.Context) error {
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
	return s.measure(ctx, "open", &job{name: "open_close", per: 1, burst: 1, op: func(ctx context.Context, n int) error {
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
