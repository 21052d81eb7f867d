package measure

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/reprise-tt/reprise/internal/bench/report"
)

// maxUnits is a hundred seconds, the histogram's longest time.
const maxUnits = 100e9 * report.UnitsPerNs

// Series collects the samples of one quantity.
type Series struct {
	hist   *hdrhistogram.Histogram
	round  []float64
	Rounds []float64
	min    float64
	max    float64
	sum    float64
}

// NewSeries returns an empty series.
func NewSeries() *Series {
	return &Series{hist: hdrhistogram.New(1, maxUnits, 3), min: math.Inf(1)}
}

// Add takes a sample, in nanoseconds.
func (s *Series) Add(ns float64) {
	s.round = append(s.round, ns)
}

// End ends a round. Only now samples enter the histogram, so that this doesn't disturb the
// measurement.
func (s *Series) End() {
	if len(s.round) == 0 {
		return
	}
	for _, ns := range s.round {
		v := int64(math.Round(ns * report.UnitsPerNs))
		_ = s.hist.RecordValue(min(max(v, 1), maxUnits)) // in range
		s.min, s.max, s.sum = min(s.min, ns), max(s.max, ns), s.sum+ns
	}
	slices.Sort(s.round)
	s.Rounds = append(s.Rounds, s.round[len(s.round)/2])
	s.round = s.round[:0]
}

// Fill stores the series' statistics in f.
func (s *Series) Fill(f *report.Figure) {
	q := func(p float64) float64 { return float64(s.hist.ValueAtQuantile(p)) / report.UnitsPerNs }
	f.Samples = s.hist.TotalCount()
	if f.Samples == 0 {
		return
	}
	f.Min, f.Max, f.Mean = s.min, s.max, s.sum/float64(f.Samples)
	// The histogram rounds: a bucket's end may exceed the largest sample, or fall below the
	// smallest.
	within := func(p float64) float64 { return max(s.min, min(q(p), s.max)) }
	f.P50, f.P90, f.P99, f.P999 = within(50), within(90), within(99), within(99.9)
	f.Rounds = s.Rounds
	if b, err := s.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
		f.Histogram = string(b)
	}
}
