package bench

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// measureEmulator measures the emulator's speed: host time for an instruction with one, two and all
// workers busy, for a byte moved, for an idle chip, and for an instruction with several chips busy.
func measureEmulator(ctx context.Context, s *session) error {
	if s.config.Emulated == nil {
		s.leaveOut("emulator", "", "this process doesn't emulate the device")
		return nil
	}
	err := s.emulate(ctx, 1, func(chips []emulated) error {
		d := chips[0].Device
		s.report.Arch = d.Arch().String()
		if err := s.measureIdle(ctx); err != nil {
			return err
		}
		for _, workers := range []int{1, 2, d.Queue(0).Workers().Size()} {
			if err := s.measureWork(ctx, chips, busyWorkers(workers), executed, report.Params("workers", workers)); err != nil {
				return err
			}
		}
		for _, page := range []int{64, 8 << 10} {
			if err := s.measurePages(ctx, chips, page); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n := 1; n <= max(2, min(2*runtime.NumCPU(), 32)); n *= 2 {
		if err := s.emulate(ctx, n, func(chips []emulated) error {
			w := busyWorkers(chips[0].Queue(0).Workers().Size())
			return s.measureWork(ctx, chips, w, executed, report.Params("chips", n))
		}); err != nil {
			return err
		}
	}
	return nil
}

// instructionPages of 4 KiB are shared by the workers; each takes some 5,000 instructions.
const instructionPages = 780

// counter is a quantity of work.
type counter struct {
	name, unit string
	of         func(Work) uint64
}

var (
	executed   = counter{"instruction", "instructions", func(w Work) uint64 { return w.Instructions }}
	bytesMoved = counter{"noc_byte", "bytes", func(w Work) uint64 { return w.NoCBytes }}
)

// measurePages measures the time of a byte that all workers of a chip copy in pages.
func (s *session) measurePages(ctx context.Context, chips []emulated, page int) error {
	workers := chips[0].Queue(0).Workers().Size()
	w := workload{workers: workers, pages: (4 << 20) / (workers * max(page, 1024)), page: page}
	return s.measureWork(ctx, chips, w, bytesMoved, report.Params("page", page), measure.MemcpyPages(page))
}

// measureWork measures the time of one unit of work while all chips run the same workload.
func (s *session) measureWork(ctx context.Context, chips []emulated, w workload, of counter, params []report.Param,
	against ...*measure.Baseline) error {
	all := make([]*reprise.Executable, len(chips))
	for i, c := range chips {
		var err error
		if all[i], err = w.load(ctx, c.Device); err != nil {
			return err
		}
	}
	count := func() (n uint64) {
		for _, c := range chips {
			n += of.of(c.Work())
		}
		return n
	}
	work := func(ctx context.Context) error {
		errs := make([]error, len(chips))
		var running sync.WaitGroup
		for i, c := range chips {
			running.Go(func() {
				q := c.Queue(0)
				if errs[i] = q.Run(ctx, all[i]); errs[i] == nil {
					errs[i] = q.Wait(ctx)
				}
			})
		}
		running.Wait()
		return errors.Join(errs...)
	}
	job := measure.Job{Name: of.name, Params: params, Unit: of.unit, Against: against}
	err := s.measureTimes(ctx, "emulator", job, measure.ProcessTime,
		func(ctx context.Context, now func() time.Duration, least time.Duration) (float64, error) {
			before, begun, start := count(), time.Now(), now()
			err := work(ctx)
			for err == nil && time.Since(begun) < least {
				err = work(ctx)
			}
			return float64(now()-start) / float64(max(1, count()-before)), err
		})
	for _, x := range all {
		err = errors.Join(err, x.Release(ctx))
	}
	return err
}

// measureIdle measures the processor time of an idle device per millisecond, where the system
// counts it.
func (s *session) measureIdle(ctx context.Context) error {
	if _, ok := measure.ProcessTime(); !ok {
		return nil
	}
	const milliseconds = 20
	return s.measure(ctx, "emulator", &measure.Job{Name: "idle_millisecond", Sample: func(context.Context) (float64, error) {
		before, _ := measure.ProcessTime()
		time.Sleep(milliseconds * time.Millisecond)
		after, _ := measure.ProcessTime()
		return float64(after-before) / milliseconds, nil
	}})
}
