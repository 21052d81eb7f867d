package measure

import (
	"math"
	"testing"

	"github.com/reprise-tt/reprise/internal/bench/report"
)

func TestSeries(t *testing.T) {
	fill := func(last float64, n int) (f report.Figure) {
		s := NewSeries()
		for range n {
			s.Add(10)
		}
		s.Add(last)
		s.End()
		s.Fill(&f)
		return f
	}
	if f := fill(1e6, 999); f.Samples != 1000 || f.P50 != 10 || f.Max != 1e6 || math.Abs(f.Mean-1009.99) > 1e-6 {
		t.Errorf("with an outlier: %d samples, median %v, largest %v, mean %v", f.Samples, f.P50, f.Max, f.Mean)
	}
	for _, ns := range []float64{10.004, 0.001, 333.3333, 12345.678} { // which the histogram rounds
		if f := fill(ns, 0); f.Min != ns || f.P50 != ns || f.P99 != ns || f.P999 != nil || f.Max != ns {
			t.Errorf("one sample of %v ns: %+v", ns, f)
		}
	}
}
