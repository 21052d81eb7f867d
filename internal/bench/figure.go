package bench

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Figure is the result of one measurement. Times are nanoseconds for one operation.
type Figure struct {
	// Family and Name say what was measured, Params with which parameters, in the order in which they are printed.
	Family string  `json:"family"`
	Name   string  `json:"name"`
	Params []Param `json:"params,omitempty"`

	// Samples is the number of times that were taken, PerSample the number of operations in each.
	Samples   int64 `json:"samples"`
	PerSample int   `json:"operations_per_sample"`

	Min  float64 `json:"ns_min"`
	P50  float64 `json:"ns_p50"`
	P90  float64 `json:"ns_p90"`
	P99  float64 `json:"ns_p99"`
	P999 float64 `json:"ns_p99_9"`
	Max  float64 `json:"ns_max"`
	Mean float64 `json:"ns_mean"`
	// Rounds are the medians of the rounds, by which two reports are compared: their spread is the noise.
	Rounds []float64 `json:"ns_round_medians"`
	// Histogram has all samples, in 1/100 ns: HdrHistogram's V2 form, compressed, as base64.
	Histogram string `json:"histogram,omitempty"`

	// What one operation sends, in bytes and commands, and allocates; nil if unknown.
	Bytes    *float64 `json:"bytes_per_op,omitempty"`
	Commands *float64 `json:"commands_per_op,omitempty"`
	Allocs   *float64 `json:"allocs_per_op,omitempty"`

	// AIClock is the chip's clock during the measurement; nil if it can't be read.
	AIClock *AIClock `json:"aiclk_mhz,omitempty"`

	// Rate is the median as a number of operations in a second; nil where that means nothing.
	Rate *Rate `json:"rate,omitempty"`

	// Ratios are medians over rounds of this figure's time to a baseline's in the same round.
	Ratios []Ratio `json:"ratios,omitempty"`
	// Peers are published results of other runtimes for the same job.
	Peers []Peer `json:"peers,omitempty"`
}

// Param is a parameter of a measurement.
type Param struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Rate is a number of things in a second.
type Rate struct {
	Of        string  `json:"of"`
	PerSecond float64 `json:"per_second"`
}

// Ratio compares a figure with a baseline that was measured beside it.
type Ratio struct {
	To    string  `json:"to"`
	Ns    float64 `json:"baseline_ns_p50"` // of the baseline, for one operation
	Value float64 `json:"value"`
}

// Peer is the time of another runtime for the same job.
type Peer struct {
	Who   string  `json:"who"`
	To    string  `json:"to"` // the baseline that Value is a ratio to; empty if Ns is all there is
	Value float64 `json:"value,omitempty"`
	Ns    float64 `json:"ns"` // on the peer's machine
}

// ID names the figure: family/name/key=value...
func (f *Figure) ID() string {
	id := f.Family + "/" + f.Name
	for _, p := range f.Params {
		id += "/" + p.Key + "=" + p.Value
	}
	return id
}

// Times are counted in hundredths of a nanosecond, up to a hundred seconds, to three digits.
const (
	unitsPerNs = 100
	maxUnits   = 100e9 * unitsPerNs
)

// series collects the samples of one quantity.
type series struct {
	hist   *hdrhistogram.Histogram
	round  []float64
	rounds []float64
	min    float64
	max    float64
	sum    float64
}

func newSeries() *series {
	return &series{hist: hdrhistogram.New(1, maxUnits, 3), min: math.Inf(1)}
}

// add takes a sample, in nanoseconds.
func (s *series) add(ns float64) {
	s.round = append(s.round, ns)
}

// end ends a round. Samples go to the histogram only now, so that filling it doesn't disturb what is measured.
func (s *series) end() {
	if len(s.round) == 0 {
		return
	}
	for _, ns := range s.round {
		v := int64(math.Round(ns * unitsPerNs))
		_ = s.hist.RecordValue(min(max(v, 1), maxUnits)) // in range
		s.min, s.max, s.sum = min(s.min, ns), max(s.max, ns), s.sum+ns
	}
	slices.Sort(s.round)
	s.rounds = append(s.rounds, s.round[len(s.round)/2])
	s.round = s.round[:0]
}

// figure stores the series' statistics in f.
func (s *series) figure(f *Figure) {
	q := func(p float64) float64 { return float64(s.hist.ValueAtQuantile(p)) / unitsPerNs }
	f.Samples = s.hist.TotalCount()
	if f.Samples == 0 {
		return
	}
	f.Min, f.Max, f.Mean = s.min, s.max, s.sum/float64(f.Samples)
	// The histogram's buckets have an upper end that may lie above the largest sample, and its units are rounded, so that it may
	// lie below the smallest as well.
	within := func(p float64) float64 { return max(s.min, min(q(p), s.max)) }
	f.P50, f.P90, f.P99, f.P999 = within(50), within(90), within(99), within(99.9)
	f.Rounds = s.rounds
	if b, err := s.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
		f.Histogram = string(b)
	}
}

// median returns the median of v, which it sorts.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
