package bench

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/ops"
)

const notEmulated = "this process doesn't emulate the device"

// summarizeEmulator measures the time of an instruction and of a byte where this process emulates
// the device. Config.Against gets the same work; its time is divided by the instructions counted
// here.
func summarizeEmulator(ctx context.Context, s *session) error {
	one := report.Other{Quantity: report.InNs(quotedSimulator, 4.5), Source: ttsimAlone}
	instruction := func(what string) *report.SummaryRow {
		return &report.SummaryRow{
			What:   "emulator, an instruction, " + what,
			Others: []report.Other{one},
			Goals:  []report.Quantity{report.InNs("", 1)},
		}
	}
	rows := s.rows(instruction("1 worker busy"), instruction("all workers busy"),
		&report.SummaryRow{What: "emulator, a NoC byte, pages of 64 B", Goals: []report.Quantity{report.InNs("", 3)}})
	if s.config.Emulated == nil {
		missing(rows, notEmulated)
		return nil
	}
	works := []struct {
		workload          // of the emulator
		less     workload // for Config.Against
		whole             // of less
	}{{workload: busyWorkers(1)}, {}}
	err := s.emulate(ctx, 1, func(chips []emulated) error {
		s.report.Arch = chips[0].Arch().String()
		works[1].workload = busyWorkers(chips[0].Queue(0).Workers().Size())
		for i := range works {
			w := &works[i]
			params := report.Params("workers", w.workers)
			if err := s.measureWork(ctx, chips, w.workload, executed, params); err != nil {
				return err
			}
			w.less = w.workload
			w.less.pages = min(w.pages, pagesOfOther)
			n, err := chips[0].count(ctx, w.less)
			if err != nil {
				return err
			}
			w.whole = whole{executed.name, params, float64(n)}
		}
		return s.measurePages(ctx, chips, 64)
	})
	if err != nil {
		return err
	}
	for i, w := range works {
		if err := s.measureOther(ctx, w.whole, func(ctx context.Context) (func(context.Context) error, error) {
			q := s.dev.Queue(0)
			x, err := w.less.load(ctx, s.dev)
			return func(ctx context.Context) error { return errors.Join(q.Run(ctx, x), q.Wait(ctx)) }, err
		}); err != nil {
			return err
		}
		of := "/workers=" + strconv.Itoa(w.workers)
		s.fill(rows[i], "emulator/"+executed.name+of)
		s.addProcessorTime(rows[i], "emulator/"+executed.name+processorSuffix+of)
		s.fillOther(rows[i], w.whole)
		if s.config.Against != nil {
			rows[i].Note = "the other device did such work too, its time is divided by the instructions that the emulator counts for that"
		}
	}
	s.fill(rows[2], "emulator/"+bytesMoved.name+"/page=64")
	s.addProcessorTime(rows[2], "emulator/"+bytesMoved.name+processorSuffix+"/page=64")
	if r := rows[2].Ratio; r != nil && r.To == report.MemcpyPages {
		rows[2].Others = []report.Other{{Quantity: report.InNs("a copy", r.Ns)}}
	}
	return nil
}

// busyWorkers is the work for timing an instruction.
func busyWorkers(n int) workload {
	return workload{workers: n, pages: instructionPages / n, page: 4 << 10, add: true}
}

// pagesOfOther bounds the pages of a worker of Config.Against: a simulator executes all other
// workers' polling and would take half a minute.
const pagesOfOther = 40

// count returns the instructions of a workload.
func (c emulated) count(ctx context.Context, w workload) (n uint64, err error) {
	x, err := w.load(ctx, c.Device)
	if err != nil {
		return 0, err
	}
	for range 2 { // the first run loads the kernels
		before := c.Work().Instructions
		if err := errors.Join(c.Queue(0).Run(ctx, x), c.Queue(0).Wait(ctx)); err != nil {
			return 0, err
		}
		n = c.Work().Instructions - before
	}
	return n, x.Release(ctx)
}

// summarizePrograms measures a replay of many programs on all workers to its end.
func summarizePrograms(ctx context.Context, s *session) error {
	const programs = 100
	w := whole{"replay_to_end", report.Params("programs", programs), 0}
	rows := s.rows(&report.SummaryRow{What: "replay 100 programs, all workers"})
	err := s.inTurn(ctx, w, func(ctx context.Context) (func(context.Context) error, error) {
		q := s.dev.Queue(0)
		x, err := s.load(ctx, common)
		if err != nil {
			return nil, err
		}
		t, err := s.record(ctx, x, programs)
		return func(ctx context.Context) error { return errors.Join(t.Replay(ctx), q.Wait(ctx)) }, err
	})
	if err != nil {
		return err
	}
	if s.report.Arch == chip.Blackhole.String() {
		rows[0].Others = []report.Other{{Quantity: report.InNs(quotedSimulator, 1.37e9), Source: ttsimBeside}}
	}
	s.fillWhole(rows[0], w)
	part(rows[0], "a 100th of the simulator's,", 100)
	return nil
}

// summarizeProcessors measures the speed-up of one emulated chip with parallel tiles on all
// processors over one.
func summarizeProcessors(ctx context.Context, s *session) error {
	processors := runtime.GOMAXPROCS(0)
	rows := s.rows(
		&report.SummaryRow{What: "one emulated chip on all processors: RISC-V cores",
			Note: "with the option parallel; else one goroutine executes the instructions of all tiles"},
		&report.SummaryRow{What: "one emulated chip on all processors: engines",
			Note: "a product of 512 x 512 x 512; with the option parallel, as RISC-V cores"},
	)
	for _, r := range rows {
		r.Others = []report.Other{{Quantity: report.InTimes("processors", float64(processors))}}
		r.Goals = []report.Quantity{report.InTimes("near", float64(min(processors, 8)))}
	}
	switch {
	case s.config.Parallel == nil:
		missing(rows, notEmulated)
		return nil
	case processors < 2:
		missing(rows, "there is one processor")
		return nil
	}
	return s.emulateOn(ctx, s.config.Parallel, 1, func(chips []emulated) error {
		d := chips[0].Device
		w := busyWorkers(d.Queue(0).Workers().Size())
		w.pages *= 40 // so that the launch counts for little
		x, err := w.load(ctx, d)
		if err != nil {
			return err
		}
		q := d.Queue(0)
		err = s.speedUp(ctx, rows[0], "instructions", func(ctx context.Context) error { return errors.Join(q.Run(ctx, x), q.Wait(ctx)) })
		if err != nil {
			return err
		}
		b := &opsBench{s: s, dev: d, ops: ops.New(d)}
		defer b.ops.Release(ctx)
		var in [3]*ops.Tensor
		for i := range in {
			if in[i], err = b.random(ctx, []int{512, 512}, uint64(i)); err != nil {
				return err
			}
		}
		return s.speedUp(ctx, rows[1], "engines", func(ctx context.Context) error {
			_, err := b.ops.Matmul(ctx, in[0], in[1], ops.Into(in[2]))
			return errors.Join(err, b.ops.Wait(ctx))
		})
	})
}

// speedUp sets a row to the ratio of the time on one processor to the time on all, measured in turn
// in each round.
func (s *session) speedUp(ctx context.Context, row *report.SummaryRow, what string, do func(context.Context) error) error {
	var ratios []float64
	elapsed := func(ctx context.Context) (time.Duration, error) {
		start := time.Now()
		err := do(ctx)
		return time.Since(start), err
	}
	alone := func(ctx context.Context) (time.Duration, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		return elapsed(ctx)
	}
	w := whole{name: "all_processors", params: report.Params("work", what)}
	err := s.most(fewRounds, func() error {
		return s.measure(ctx, Summarized, &measure.Job{Name: w.name, Params: w.params,
			Sample: func(ctx context.Context) (float64, error) {
				one, err := alone(ctx)
				if err != nil {
					return 0, err
				}
				all, err := elapsed(ctx)
				ratios = append(ratios, float64(one)/float64(all))
				return float64(all), err
			}})
	})
	if err != nil {
		return err
	}
	if f := s.fill(row, w.figure("").ID()); f != nil {
		row.More = []report.Quantity{report.InNs("on all processors", f.P50)}
		row.Now = new(report.InTimes("", report.Median(ratios)))
	}
	return nil
}
