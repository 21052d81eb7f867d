package measure

import (
	"math"
	"testing"

	"github.com/reprise-tt/reprise/internal/bench/report"
)

// series keeps outliers: percentiles and the largest are over all samples.
func TestSeriesKeepsOutliers(t *testing.T) {
	s := NewSeries()
	for range 999 {
		s.Add(10)
	}
	s.Add(1e6)
	s.End()
	var f report.Figure
	s.Fill(&f)
	if f.Samples != 1000 || f.P50 != 10 || f.Max != 1e6 || math.Abs(f.Mean-1009.99) > 1e-6 {
		t.Errorf("%d samples, median %v, largest %v, mean %v", f.Samples, f.P50, f.Max, f.Mean)
	}
}

// A percentile is among the samples, although the histogram rounds them.
func TestSeriesRounds(t *testing.T) {
	for _, ns := range []float64{10.004, 0.001, 333.3333, 12345.678} {
		s := NewSeries()
		s.Add(ns)
		s.End()
		var f report.Figure
		s.Fill(&f)
		if f.Min != ns || f.P50 != ns || f.P999 != ns || f.Max != ns {
			t.Errorf("one sample of %v ns: %v, %v, %v, %v", ns, f.Min, f.P50, f.P999, f.Max)
		}
	}
}
