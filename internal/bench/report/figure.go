package report

import (
	"fmt"
	"slices"
)

// Names of baselines.
const (
	MemcpyHot    = "memcpy_4KiB_hot"             // within the first-level cache
	MemcpyRing   = "memcpy_4KiB_into_64MiB_ring" // to successive places
	NonTemporal  = "nt_store_64B"                // past the caches, to successive places of 64 MiB
	EmptySyscall = "empty_syscall"               // the cheapest one
	TimerRead    = "timer_read"                  // time.Now
	MemcpySame   = "memcpy_same_bytes"           // as the operation, into a ring of an issue queue's size
	MemcpyPages  = "memcpy_same_pages"           // a byte, in pages of the operation's size, into a ring
)

// Figure is the result of one measurement. Times are nanoseconds for one operation.
type Figure struct {
	// Family, Name and Params, in printing order, identify the measurement.
	Family string  `json:"family"`
	Name   string  `json:"name"`
	Params []Param `json:"params,omitempty"`

	Samples   int64 `json:"samples"`
	PerSample int   `json:"operations_per_sample"`

	Min  float64 `json:"ns_min"`
	P50  float64 `json:"ns_p50"`
	P90  float64 `json:"ns_p90"`
	P99  float64 `json:"ns_p99"`
	P999 float64 `json:"ns_p99_9"`
	Max  float64 `json:"ns_max"`
	Mean float64 `json:"ns_mean"`
	// Rounds are the medians of the rounds. Their spread is the noise when reports are compared.
	Rounds []float64 `json:"ns_round_medians"`
	// Histogram has all samples, in 1/100 ns: HdrHistogram's V2 form, compressed, as base64.
	Histogram string `json:"histogram,omitempty"`

	// Of one operation; nil if unknown.
	Bytes    *float64 `json:"bytes_per_op,omitempty"`
	Commands *float64 `json:"commands_per_op,omitempty"`
	Allocs   *float64 `json:"allocs_per_op,omitempty"`

	AIClock *AIClock `json:"aiclk_mhz,omitempty"` // nil if unreadable
	Rate    *Rate    `json:"rate,omitempty"`      // the median as a rate, where that has a meaning
	Ratios  []Ratio  `json:"ratios,omitempty"`
	Peers   []Peer   `json:"peers,omitempty"`
}

// Param is a parameter of a measurement.
type Param struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Rate is a number of things per second.
type Rate struct {
	Of        string  `json:"of"`
	PerSecond float64 `json:"per_second"`
}

// Ratio is the median over rounds of a figure's time divided by that of a baseline beside it.
type Ratio struct {
	To    string  `json:"to"`
	Ns    float64 `json:"baseline_ns_p50"` // of the baseline, for one operation
	Value float64 `json:"value"`
}

// Peer is the published time of another runtime for the same job.
type Peer struct {
	Who   string  `json:"who"`
	To    string  `json:"to"` // the baseline that Value is a ratio to; empty if Ns is all there is
	Value float64 `json:"value,omitempty"`
	Ns    float64 `json:"ns"` // on the peer's machine
}

// ID returns family/name/key=value...
func (f *Figure) ID() string { return ID(f.Family, f.Name, f.Params...) }

// ID is the ID of a figure.
func ID(family, name string, params ...Param) string {
	id := family + "/" + name
	for _, p := range params {
		id += "/" + p.Key + "=" + p.Value
	}
	return id
}

// UnitsPerNs is the resolution of histograms.
const UnitsPerNs = 100

// Median returns the median of v, which it sorts.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// NewParam formats a value as a parameter.
func NewParam(key string, value any) Param { return Param{Key: key, Value: fmt.Sprint(value)} }

// Params formats alternating keys and values as parameters.
func Params(keysAndValues ...any) []Param {
	var out []Param
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		out = append(out, NewParam(fmt.Sprint(keysAndValues[i]), keysAndValues[i+1]))
	}
	return out
}
