package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// measureArguments measures setting all runtime arguments of a loaded program, unique and common
// ones.
func measureArguments(ctx context.Context, s *session) error {
	return s.shapes(ctx, func(p shape, x *reprise.Executable) error {
		next := uint32(0)
		set := func(_ chip.Core, args []uint32) {
			for i := range args {
				args[i] = next
			}
		}
		values, names := make([]uint32, p.common), make([]string, p.groups)
		for i := range names {
			names[i] = fmt.Sprintf("blank %d", i)
		}
		bytes := 4 * (p.args*s.dev.Queue(0).Workers().Size() + p.common*p.groups)
		return s.measure(ctx, "arguments", &measure.Job{
			Name: "set_all", Params: report.Params("shape", p.name), PerSample: 4, Burst: 8, Allocs: true, Peers: argumentPeers(p),
			Against: []*measure.Baseline{measure.MemcpySame(bytes, 4)}, Bytes: float64(bytes),
			Do: measure.Repeat(func(context.Context) error {
				next++
				for _, name := range names {
					if err := x.SetArgs(name, set); err != nil {
						return err
					}
					if p.common == 0 {
						continue
					}
					if err := x.SetCommonArgs(name, values); err != nil {
						return err
					}
				}
				return nil
			}),
		})
	})
}

// measurePatching measures replays with a new value of a parameter, of one core and of every core.
func measurePatching(ctx context.Context, s *session) error {
	q := s.dev.Queue(0)
	x, err := s.load(ctx, common)
	if err != nil {
		return err
	}
	all := q.Workers()
	for _, cores := range []chip.Range{{Start: all.Start, End: all.Start}, all} {
		arg := reprise.Arg{Kernel: "blank 0", Index: 7, Cores: []chip.Range{cores}}
		t, err := q.Capture(ctx, "patched", func(_ context.Context, r *reprise.Recorder) error {
			if err := x.SetArg(arg, 0); err != nil { // the same on all cores
				return err
			}
			return errors.Join(r.Run(x), r.Param("n", arg))
		})
		if err != nil {
			return err
		}
		v := uint32(0)
		job := &measure.Job{
			Name: "set_replay", Params: report.Params("cores", cores.Size()), PerSample: 4, Burst: 4, Settle: s.finish, Allocs: true,
			Do: measure.Repeat(func(ctx context.Context) error {
				v++
				return errors.Join(t.Set("n", v), t.Replay(ctx))
			}),
		}
		if err := s.measure(ctx, "patching", job); err != nil {
			return fmt.Errorf("%d cores: %w", cores.Size(), err)
		}
		if err := t.Release(ctx); err != nil {
			return err
		}
	}
	return x.Release(ctx)
}

// measureEvents measures recording an event, the host's wait for one, and a handover between two
// queues and back.
func measureEvents(ctx context.Context, s *session) error {
	return s.with(ctx, func() error {
		a, b := s.dev.Queue(0), s.dev.Queue(1)
		there, back := s.dev.NewEvent("there"), s.dev.NewEvent("back")
		record := measure.Repeat(func(ctx context.Context) error { return a.Record(ctx, there) })
		if err := s.measure(ctx, "events", &measure.Job{Name: "record", PerSample: 8, Burst: 8, Do: record, Settle: s.finish, Allocs: true}); err != nil {
			return err
		}
		if err := s.measure(ctx, "events", jobToEnd("record_to_host", nil, 8, record, there.Wait)); err != nil {
			return err
		}
		handOver := measure.Repeat(func(ctx context.Context) error {
			return errors.Join(a.Record(ctx, there), b.WaitEvent(ctx, there), b.Record(ctx, back), a.WaitEvent(ctx, back))
		})
		return s.measure(ctx, "events", jobToEnd("there_and_back", nil, 8, handOver, s.finish))
	}, reprise.WithQueues(2))
}
