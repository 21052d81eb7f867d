package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
)

// Rounds of what takes long, of the target and of what it is compared with.
const (
	fewRounds     = 5
	fewestOfOther = 3
)

// summaryParts measure the rows of the summary, in the order of the table.
var summaryParts = [...]struct {
	name string
	run  func(context.Context, *session) error
}{
	{"submit", summarizeSubmit},
	{"instructions", summarizeInstructions},
	{"capture", summarizeCapture},
	{"waits", summarizeWaits},
	{"emulator", summarizeEmulator},
	{"programs", summarizePrograms},
	{"demo", summarizeDemo},
	{"processors", summarizeProcessors},
	{"chips", summarizeChips},
}

// measureSummary measures what users feel, by figures of other families, and makes a table of them.
func measureSummary(ctx context.Context, s *session) error {
	s.config.Programs = []int{1}
	for _, p := range summaryParts {
		runtime.GC()
		if err := p.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// rows adds rows, which have nothing yet.
func (s *session) rows(rows ...*SummaryRow) []*SummaryRow {
	s.report.Summary = append(s.report.Summary, rows...)
	return rows
}

// missing says of rows why they aren't measured.
func missing(rows []*SummaryRow, why string) {
	for _, r := range rows {
		r.Missing = why
	}
}

// fill gives a row the median of a figure, and percentiles by name.
func (s *session) fill(row *SummaryRow, id string, percentiles ...string) *Figure {
	f, ok := s.report.Figure(id)
	if !ok {
		row.Missing = "the chip's clock moved each time"
		return nil
	}
	row.Figure, row.Now = id, &Quantity{Value: f.P50, Unit: unitNs}
	for _, p := range percentiles {
		row.More = append(row.More, Quantity{p, map[string]float64{"p90": f.P90, "p99": f.P99, "max": f.Max}[p], unitNs})
	}
	if len(f.Ratios) > 0 {
		row.Ratio = &f.Ratios[0]
	} else if b, ok := s.report.Baseline(MemcpyHot); ok && b.P50 > 0 {
		row.Ratio = &Ratio{To: MemcpyHot, Ns: b.P50, Value: f.P50 / b.P50}
	}
	return f
}

// most does something with at most so many rounds of each figure, after one to warm up.
func (s *session) most(rounds int, do func() error) error {
	was := s.runner
	defer func() { s.runner = was }()
	s.runner.rounds, s.runner.warmup = min(was.rounds, rounds), min(was.warmup, 1)
	return do()
}

// processorSuffix ends the name of a figure of processor time, which rows call onProcessors.
const (
	processorSuffix = "_processor_time"
	onProcessors    = "processor time"
)

// whole is something that is measured as a whole, of the target and of what it is compared with.
type whole struct {
	name   string
	params []Param
	of     float64 // what a run is divided by; 0 means 1
}

// figure is an empty figure of it.
func (w whole) figure(suffix string, device ...Param) *Figure {
	return &Figure{Family: Summarized, Name: w.name + suffix, Params: append(slices.Clone(w.params), device...), PerSample: 1}
}

// measureWhole measures by the clock on the wall, and, in the same rounds, by the processor time of this process and its
// children.
func (s *session) measureWhole(ctx context.Context, w whole, do func(context.Context) error, device ...Param) error {
	busy, rounds, of := newSeries(), 0, cmp.Or(w.of, 1)
	f := w.figure("", device...)
	err := s.measure(ctx, f.Family, &job{name: f.Name, params: f.Params, per: 1, burst: 1, sample: func(ctx context.Context) (float64, error) {
		before, ok := familyTime()
		start := time.Now()
		err := do(ctx)
		took := time.Since(start)
		after, _ := familyTime()
		if rounds++; ok && rounds > s.runner.warmup {
			busy.add(float64(after-before) / of)
			busy.end()
		}
		return float64(took) / of, err
	}})
	if err != nil || len(busy.rounds) == 0 {
		return err
	}
	f = w.figure(processorSuffix, device...)
	busy.figure(f)
	s.report.Figures = append(s.report.Figures, f)
	return nil
}

// measureOther does the same with the device that the target is compared with, if there is one: work makes what is measured.
func (s *session) measureOther(ctx context.Context, w whole, work func(context.Context) (func(context.Context) error, error)) error {
	a := s.config.Against
	if a == nil {
		return nil
	}
	defer func(arch string) { s.report.Arch = arch }(s.report.Arch)
	err := s.open(ctx, a.Target, func() error {
		do, err := work(ctx)
		if err != nil {
			return err
		}
		return s.most(fewestOfOther, func() error { return s.measureWhole(ctx, w, do, param("device", a.Name)) })
	}, []reprise.Option{reprise.WithHangTimeout(10 * time.Minute)}) // a simulator takes its time
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

// fillWhole gives a row what was measured of the target and of what it is compared with.
func (s *session) fillWhole(row *SummaryRow, w whole) {
	s.fill(row, w.figure("").ID())
	s.addProcessorTime(row, w.figure(processorSuffix).ID())
	s.fillOther(row, w)
}

// addProcessorTime adds the median of a figure, if it was measured.
func (s *session) addProcessorTime(row *SummaryRow, id string) {
	if f, ok := s.report.Figure(id); ok {
		row.More = append(row.More, Quantity{onProcessors, f.P50, unitNs})
	}
}

// fillOther gives a row what was measured of what the target is compared with, in place of what is quoted.
func (s *session) fillOther(row *SummaryRow, w whole) {
	a := s.config.Against
	if a == nil {
		return
	}
	var measured []Other
	device := param("device", a.Name)
	for _, q := range []struct{ name, id string }{
		{a.Name, w.figure("", device).ID()}, {onProcessors, w.figure(processorSuffix, device).ID()},
	} {
		if f, ok := s.report.Figure(q.id); ok {
			measured = append(measured, Other{Quantity: Quantity{q.name, f.P50, unitNs}})
		}
	}
	if len(measured) > 0 {
		row.Others = measured
	}
}
