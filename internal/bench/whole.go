package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// Rounds of what takes long, of the target and of what it is compared with.
const (
	fewRounds     = 5
	fewestOfOther = 3
)

// rows adds rows, which have nothing yet.
func (s *session) rows(rows ...*report.SummaryRow) []*report.SummaryRow {
	s.report.Summary = append(s.report.Summary, rows...)
	return rows
}

// missing says of rows why they aren't measured.
func missing(rows []*report.SummaryRow, why string) {
	for _, r := range rows {
		r.Missing = why
	}
}

// fill gives a row the median of a figure, and percentiles by name.
func (s *session) fill(row *report.SummaryRow, id string, percentiles ...string) *report.Figure {
	f, ok := s.report.Figure(id)
	if !ok {
		row.Missing = "the chip's clock moved each time"
		return nil
	}
	row.Figure, row.Now = id, new(report.InNs("", f.P50))
	for _, p := range percentiles {
		row.More = append(row.More, report.InNs(p, map[string]float64{"p90": f.P90, "p99": f.P99, "max": f.Max}[p]))
	}
	if len(f.Ratios) > 0 {
		row.Ratio = &f.Ratios[0]
	} else if b, ok := s.report.Baseline(report.MemcpyHot); ok && b.P50 > 0 {
		row.Ratio = &report.Ratio{To: report.MemcpyHot, Ns: b.P50, Value: f.P50 / b.P50}
	}
	return f
}

// most does something with at most so many rounds of each figure, after one to warm up.
func (s *session) most(rounds int, do func() error) error {
	was := s.runner
	defer func() { s.runner = was }()
	s.runner.Rounds, s.runner.Warmup = min(was.Rounds, rounds), min(was.Warmup, 1)
	return do()
}

// processorSuffix ends the name of a figure of processor time, of which rows have the least: what
// other programs on the machine add to it, by the caches and cores that they share, is no part of
// what something costs.
const (
	processorSuffix = "_processor_time"
	onProcessors    = "least processor time"
)

// whole is something that is measured as a whole, of the target and of what it is compared with.
type whole struct {
	name   string
	params []report.Param
	of     float64 // what a run is divided by; 0 means 1
}

// figure is an empty figure of it.
func (w whole) figure(suffix string, device ...report.Param) *report.Figure {
	return &report.Figure{Family: Summarized, Name: w.name + suffix, Params: append(slices.Clone(w.params), device...), PerSample: 1}
}

// work prepares what is measured on the session's device.
type work func(context.Context) (do func(context.Context) error, err error)

// run is a whole on one device.
type run struct {
	device []report.Param // nil for the target
	round  func(ctx context.Context, measure func(do func(context.Context) error) error) error

	wall, busy *measure.Series
}

// always is a run that needs no preparation in a round.
func always(do func(context.Context) error, device ...report.Param) *run {
	return &run{
		device: device,
		round:  func(_ context.Context, measure func(func(context.Context) error) error) error { return measure(do) },
	}
}

// measureWhole measures by the clock on the wall, and, in the same rounds, by the processor time of
// this process and its children. Runs on several devices take turns, so that a machine that is
// slower for a while is slower for all of them; those on others than the first one have
// fewestOfOther rounds.
func (s *session) measureWhole(ctx context.Context, w whole, runs ...*run) error {
	for _, r := range runs {
		r.wall, r.busy = measure.NewSeries(), measure.NewSeries()
	}
	round, first := -s.runner.Warmup, runs[0]
	f := w.figure("", first.device...)
	err := s.measure(ctx, f.Family, &measure.Job{Name: f.Name, Params: f.Params,
		Sample: func(ctx context.Context) (ns float64, err error) {
			for i, r := range runs {
				if i > 0 && round >= fewestOfOther {
					break
				}
				var t times
				err := r.round(ctx, func(do func(context.Context) error) (err error) {
					t, err = timesOf(ctx, do)
					return err
				})
				if err != nil {
					return 0, err
				}
				if i == 0 {
					ns = t.wall / cmp.Or(w.of, 1)
				}
				if round >= 0 {
					r.add(t, cmp.Or(w.of, 1))
				}
			}
			round++
			return ns, nil
		}})
	if err != nil {
		return err
	}
	for i, r := range runs {
		if i > 0 { // s.measure made the first one's
			s.addSeries(w.figure("", r.device...), r.wall)
		}
		s.addSeries(w.figure(processorSuffix, r.device...), r.busy)
	}
	return nil
}

// addSeries adds a figure to the report, if anything was measured.
func (s *session) addSeries(f *report.Figure, of *measure.Series) {
	if len(of.Rounds) > 0 {
		of.Fill(f)
		s.report.Figures = append(s.report.Figures, f)
	}
}

func (r *run) add(t times, of float64) {
	r.wall.Add(t.wall / of)
	r.wall.End()
	if t.counted {
		r.busy.Add(t.busy / of)
		r.busy.End()
	}
}

// sampleLasts is how long a sample of processor time takes at least. The kernel brings the times of
// threads that run on other processors up to date at its ticks, so a reading may be some
// milliseconds behind.
const sampleLasts = 100 * time.Millisecond

// times are what something takes, in nanoseconds: by the clock on the wall, and in processor time
// of this process and its children, if that is counted.
type times struct {
	wall, busy float64
	counted    bool
}

// timesOf does something as often as a sample needs.
func timesOf(ctx context.Context, do func(context.Context) error) (t times, err error) {
	before, counted := measure.TreeTime()
	n, took := 0, time.Duration(0)
	for start := time.Now(); took < sampleLasts; took = time.Since(start) {
		if err := do(ctx); err != nil {
			return t, err
		}
		n++
	}
	after, _ := measure.TreeTime()
	return times{float64(took) / float64(n), float64(after-before) / float64(n), counted}, nil
}

// inTurn measures the same work of the target and, in turn, of the device that it is compared with,
// if there is one. That is closed in between: a simulator executes the waiting of its workers for
// as long as it is open.
func (s *session) inTurn(ctx context.Context, w whole, of work) error {
	return s.with(ctx, func() error {
		do, err := of(ctx)
		if err != nil {
			return err
		}
		runs := []*run{always(do)}
		if a := s.config.Against; a != nil {
			runs = append(
				runs,
				&run{device: a.params(), round: func(ctx context.Context, measure func(func(context.Context) error) error) error {
					return s.openOther(ctx, of, func(do func(context.Context) error) error {
						if err := do(ctx); err != nil { // which brings the kernels
							return err
						}
						return measure(do)
					})
				}},
			)
		}
		return s.most(fewRounds, func() error { return s.measureWhole(ctx, w, runs...) })
	})
}

// measureOther measures the device that the target is compared with, if there is one.
func (s *session) measureOther(ctx context.Context, w whole, of work) error {
	a := s.config.Against
	if a == nil {
		return nil
	}
	return s.openOther(ctx, of, func(do func(context.Context) error) error {
		return s.most(fewestOfOther, func() error { return s.measureWhole(ctx, w, always(do, a.params()...)) })
	})
}

// openOther opens the device that the target is compared with, for work there. The session's own
// device is the same afterwards.
func (s *session) openOther(ctx context.Context, of work, then func(do func(context.Context) error) error) error {
	a := s.config.Against
	defer func(arch string, dev *reprise.Device) { s.report.Arch, s.dev = arch, dev }(s.report.Arch, s.dev)
	err := s.open(ctx, a.Target, func() error {
		do, err := of(ctx)
		if err != nil {
			return err
		}
		return then(do)
	}, []reprise.Option{reprise.WithHangTimeout(10 * time.Minute)}) // a simulator takes its time
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

// params are of figures of that device.
func (a *Against) params() []report.Param { return report.Params("device", a.Name) }

// fillWhole gives a row what was measured of the target and of what it is compared with.
func (s *session) fillWhole(row *report.SummaryRow, w whole) {
	s.fill(row, w.figure("").ID())
	s.addProcessorTime(row, w.figure(processorSuffix).ID())
	s.fillOther(row, w)
}

// addProcessorTime adds the least of a figure, if it was measured.
func (s *session) addProcessorTime(row *report.SummaryRow, id string) {
	if f, ok := s.report.Figure(id); ok {
		row.More = append(row.More, report.InNs(onProcessors, f.Min))
	}
}

// fillOther gives a row what was measured of what the target is compared with, in place of what is
// quoted.
func (s *session) fillOther(row *report.SummaryRow, w whole) {
	a := s.config.Against
	if a == nil {
		return
	}
	var measured []report.Other
	device := a.params()
	if f, ok := s.report.Figure(w.figure("", device...).ID()); ok {
		measured = append(measured, report.Other{Quantity: report.InNs(a.Name, f.P50)})
	}
	if f, ok := s.report.Figure(w.figure(processorSuffix, device...).ID()); ok {
		measured = append(measured, report.Other{Quantity: report.InNs(onProcessors, f.Min)})
	}
	if len(measured) > 0 {
		row.Others = measured
	}
}

// part makes it the goal to take a part of what the first of the others takes.
func part(row *report.SummaryRow, name string, of float64) {
	if len(row.Others) > 0 {
		row.Goals = []report.Quantity{report.InNs(name, row.Others[0].Value/of)}
	}
}
