package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// Rounds of long measurements, of the target and of Config.Against.
const (
	fewRounds     = 5
	fewestOfOther = 3
)

func (s *session) rows(rows ...*report.SummaryRow) []*report.SummaryRow {
	s.report.Summary = append(s.report.Summary, rows...)
	return rows
}

func missing(rows []*report.SummaryRow, why string) {
	for _, r := range rows {
		r.Missing = why
	}
}

// fill sets a row from a figure: the median, named percentiles and a ratio.
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

// most calls do with at most so many rounds of each figure and one to warm up.
func (s *session) most(rounds int, do func() error) error {
	was := s.runner
	defer func() { s.runner = was }()
	s.runner.Rounds, s.runner.Warmup = min(was.Rounds, rounds), min(was.Warmup, 1)
	return do()
}

// processorSuffix ends the names of figures of processor time. Rows show their least: other
// programs add to processor time through shared caches and cores.
const (
	processorSuffix = "_processor_time"
	onProcessors    = "least processor time"
)

// whole is a figure of a run as a whole, on the target and on Config.Against.
type whole struct {
	name   string
	params []report.Param
	of     float64 // the operations of a run; 0 means 1
}

func (w whole) id(suffix string, device ...report.Param) string {
	return w.figure(suffix, device...).ID()
}

func (w whole) figure(suffix string, device ...report.Param) *report.Figure {
	return &report.Figure{Family: Summarized, Name: w.name + suffix, Params: append(slices.Clone(w.params), device...), PerSample: 1}
}

// work prepares a run on the session's device.
type work func() (do func() error, err error)

type run struct {
	device []report.Param // nil for the target
	round  func(measure func(do func() error) error) error

	wall, busy *measure.Series
}

func always(do func() error, device ...report.Param) *run {
	return &run{device: device, round: func(measure func(func() error) error) error { return measure(do) }}
}

// measureWhole measures wall-clock time and, in the same rounds, processor time of this process and
// its children. Devices take turns, so that a slow phase of the machine affects all; those after
// the first have fewestOfOther rounds.
func (s *session) measureWhole(w whole, runs ...*run) error {
	for _, r := range runs {
		r.wall, r.busy = measure.NewSeries(), measure.NewSeries()
	}
	of := cmp.Or(w.of, 1)
	round, first := -s.runner.Warmup, runs[0]
	f := w.figure("", first.device...)
	err := s.measure(f.Family, &measure.Job{Name: f.Name, Params: f.Params, Sample: func() (ns float64, err error) {
		for i, r := range runs {
			if i > 0 && round >= fewestOfOther {
				break
			}
			var t times
			if err := r.round(func(do func() error) (err error) {
				t, err = timesOf(do)
				return err
			}); err != nil {
				return 0, err
			}
			if i == 0 {
				ns = t.wall / of
			}
			if round >= 0 {
				r.wall.Add(t.wall / of)
				r.wall.End()
				if t.counted {
					r.busy.Add(t.busy / of)
					r.busy.End()
				}
			}
		}
		round++
		return ns, nil
	}})
	if err != nil {
		return err
	}
	add := func(f *report.Figure, of *measure.Series) {
		if len(of.Rounds) > 0 {
			of.Fill(f)
			s.report.Figures = append(s.report.Figures, f)
		}
	}
	for i, r := range runs {
		if i > 0 { // s.measure made the first one's
			add(w.figure("", r.device...), r.wall)
		}
		add(w.figure(processorSuffix, r.device...), r.busy)
	}
	return nil
}

// sampleLasts is the least duration of a sample of processor time: the kernel updates the times of
// threads on other processors at its ticks, milliseconds late.
const sampleLasts = 100 * time.Millisecond

// times are nanoseconds of wall-clock time and, if counted, of processor time of this process and its
// children.
type times struct {
	wall, busy float64
	counted    bool
}

// timesOf repeats do for at least sampleLasts and returns the mean.
func timesOf(do func() error) (t times, err error) {
	before, counted := measure.TreeTime()
	n, took := 0, time.Duration(0)
	for start := time.Now(); took < sampleLasts; took = time.Since(start) {
		if err := do(); err != nil {
			return t, err
		}
		n++
	}
	after, _ := measure.TreeTime()
	return times{float64(took) / float64(n), float64(after-before) / float64(n), counted}, nil
}

// inTurn measures the same work on the target and, in turn, on Config.Against, which is closed in
// between: an open simulator keeps executing its workers' polling.
func (s *session) inTurn(w whole, of work) error {
	return s.with(func() error {
		do, err := of()
		if err != nil {
			return err
		}
		runs := []*run{always(do)}
		if a := s.config.Against; a != nil {
			runs = append(runs, &run{device: a.params(), round: func(measure func(func() error) error) error {
				return s.openOther(of, func(do func() error) error {
					if err := do(); err != nil { // to load the kernels
						return err
					}
					return measure(do)
				})
			}})
		}
		return s.most(fewRounds, func() error { return s.measureWhole(w, runs...) })
	})
}

// measureOther measures Config.Against, if set.
func (s *session) measureOther(w whole, of work) error {
	a := s.config.Against
	if a == nil {
		return nil
	}
	return s.openOther(of, func(do func() error) error {
		return s.most(fewestOfOther, func() error { return s.measureWhole(w, always(do, a.params()...)) })
	})
}

// openOther calls then with work prepared on Config.Against, and restores the session's own device.
func (s *session) openOther(of work, then func(do func() error) error) error {
	a := s.config.Against
	defer func(arch string, dev *reprise.Device) { s.report.Arch, s.dev = arch, dev }(s.report.Arch, s.dev)
	err := s.open(a.Target, func() error {
		do, err := of()
		if err != nil {
			return err
		}
		return then(do)
	}, patient)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

// patient is for the vendor's simulator, which takes minutes for a millisecond of silicon.
var patient = reprise.WithHangTimeout(10 * time.Minute)

func (a *Against) params() []report.Param { return report.Params("device", a.Name) }

func (s *session) fillWhole(row *report.SummaryRow, w whole) {
	s.fill(row, w.id(""))
	s.addProcessorTime(row, w.id(processorSuffix))
	s.fillOther(row, w)
}

func (s *session) addProcessorTime(row *report.SummaryRow, id string) {
	if f, ok := s.report.Figure(id); ok {
		row.More = append(row.More, report.InNs(onProcessors, f.Min))
	}
}

// fillOther replaces a row's quotations by measurements of Config.Against.
func (s *session) fillOther(row *report.SummaryRow, w whole) {
	a := s.config.Against
	if a == nil {
		return
	}
	var measured []report.Other
	if f, ok := s.report.Figure(w.id("", a.params()...)); ok {
		measured = append(measured, report.Other{Quantity: report.InNs(a.Name, f.P50)})
	}
	if f, ok := s.report.Figure(w.id(processorSuffix, a.params()...)); ok {
		measured = append(measured, report.Other{Quantity: report.InNs(onProcessors, f.Min)})
	}
	if len(measured) > 0 {
		row.Others = measured
	}
}

// part sets the goal to a fraction of the first of the others.
func part(row *report.SummaryRow, name string, of float64) {
	if len(row.Others) > 0 {
		row.Goals = []report.Quantity{report.InNs(name, row.Others[0].Value/of)}
	}
}
