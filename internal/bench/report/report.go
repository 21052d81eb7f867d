// Package report holds measurements and writes them as tables, comparisons and JSON.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/observe"
)

// Schema is the version of a report's JSON form.
const Schema = 1

// Report holds the measurements of a run.
type Report struct {
	Schema int       `json:"schema"`
	When   time.Time `json:"when"`
	Device string    `json:"device"`
	Arch   string    `json:"arch,omitempty"`
	Host   Host      `json:"host"`
	Rounds int       `json:"rounds"`
	Warmup int       `json:"warmup_rounds"`
	// TimerOverheadNs is the cost of reading the counter, which every sample excludes.
	TimerOverheadNs float64           `json:"timer_overhead_ns"`
	Baselines       []*Figure         `json:"baselines"`
	Figures         []*Figure         `json:"figures"`
	Operations      []*Operation      `json:"operations,omitempty"`
	Summary         []*SummaryRow     `json:"summary,omitempty"`
	Refused         []Refusal         `json:"refused,omitempty"`
	LeftOut         []LeftOut         `json:"left_out,omitempty"` // requested, but can't be measured here
	Breakdown       *Breakdown        `json:"ebpf,omitempty"`
	Timeline        *observe.Timeline `json:"-"` // of a few replays; nil unless requested
	*ReplaySummary
}

// ReplaySummary holds the costs of a replay; nil means unknown.
type ReplaySummary struct {
	HostSubmitNsP50   float64  `json:"host_submit_ns_p50"`
	MemcpyNsP50       float64  `json:"memcpy_same_bytes_ns_p50"`
	NTStoreNs         *float64 `json:"nt_store_64B_ns"`
	BytesPerReplay    float64  `json:"bytes_per_replay"`
	AllocsPerReplay   float64  `json:"allocs_per_replay"`
	SyscallsPerReplay *float64 `json:"syscalls_per_replay"`
	Programs          int      `json:"programs"`
	// InstructionsPerProgram counts those of prefetcher and dispatchers for each program of a
	// trace.
	InstructionsPerProgram *float64 `json:"device_instructions_per_program"`
}

// LeftOut is a family, or a named part of it, that can't be measured.
type LeftOut struct {
	Family string `json:"family"`
	Why    string `json:"why"`
}

// Host is the machine that measured.
type Host struct {
	CPU    string `json:"cpu,omitempty"`
	CPUs   int    `json:"cpus"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel,omitempty"`
	Go     string `json:"go"`
}

// NewHost describes this machine.
func NewHost() Host {
	h := Host{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
	h.CPU, h.Kernel = machine()
	return h
}

// Figure returns the figure with an [Figure.ID].
func (r *Report) Figure(id string) (*Figure, bool) {
	return find(r.Figures, func(f *Figure) bool { return f.ID() == id })
}

// Baseline returns a baseline by name.
func (r *Report) Baseline(name string) (*Figure, bool) {
	return find(r.Baselines, func(f *Figure) bool { return f.Name == name })
}

func find(all []*Figure, is func(*Figure) bool) (*Figure, bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return nil, false
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// ReadReport reads what [Report.WriteJSON] wrote.
func ReadReport(rd io.Reader) (*Report, error) {
	var r Report
	if err := json.NewDecoder(io.LimitReader(rd, 1<<28)).Decode(&r); err != nil {
		var syntax *json.SyntaxError
		var form *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			err = fmt.Errorf("byte %d: %w", syntax.Offset, err)
		case errors.As(err, &form):
			err = fmt.Errorf("byte %d: %w", form.Offset, err)
		}
		return nil, fmt.Errorf("bench: read report: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("bench: read report: its form is version %d, this program reads version %d: measure again", r.Schema, Schema)
	}
	if slices.Contains(r.Figures, nil) || slices.Contains(r.Baselines, nil) || slices.Contains(r.Operations, nil) ||
		slices.Contains(r.Summary, nil) {
		return nil, errors.New("bench: read report: a figure is null: nothing that this program writes has that")
	}
	return &r, nil
}

// Names of baselines.
const (
	MemcpyHot    = "memcpy_4KiB_hot"             // within the first-level cache
	MemcpyRing   = "memcpy_4KiB_into_64MiB_ring" // to successive places
	NonTemporal  = "nt_store_64B"                // past the caches, to successive places of 64 MiB
	EmptySyscall = "empty_syscall"
	TimerRead    = "timer_read"        // time.Now
	MemcpySame   = "memcpy_same_bytes" // as the operation, into a ring of an issue queue's size
	MemcpyPages  = "memcpy_same_pages" // a byte, in pages of the operation's size, into a ring
)

// Figure is the result of one measurement. Times are nanoseconds for one operation.
type Figure struct {
	// In printing order, these identify the measurement.
	Family string  `json:"family"`
	Name   string  `json:"name"`
	Params []Param `json:"params,omitempty"`

	Samples   int64 `json:"samples"`
	PerSample int   `json:"operations_per_sample"`

	Min float64 `json:"ns_min"`
	P50 float64 `json:"ns_p50"`
	P90 float64 `json:"ns_p90"`
	P99 float64 `json:"ns_p99"`
	// P999 is null below [EnoughForP999] samples.
	P999 *float64 `json:"ns_p99_9"`
	Max  float64  `json:"ns_max"`
	Mean float64  `json:"ns_mean"`
	// Rounds are the medians of the rounds; their spread is the noise.
	Rounds []float64 `json:"ns_round_medians"`
	// Histogram has all samples, in 1/100 ns: HdrHistogram's V2 form, compressed, as base64.
	Histogram string `json:"histogram,omitempty"`

	// Of one operation; nil if unknown.
	Bytes    *float64 `json:"bytes_per_op,omitempty"`
	Commands *float64 `json:"commands_per_op,omitempty"`
	Allocs   *float64 `json:"allocs_per_op,omitempty"`

	AIClock *AIClock `json:"aiclk_mhz,omitempty"`
	Rate    *Rate    `json:"rate,omitempty"` // the median as a rate, where that has a meaning
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

func ID(family, name string, params ...Param) string {
	id := family + "/" + name
	for _, p := range params {
		id += "/" + p.Key + "=" + p.Value
	}
	return id
}

// EnoughForP999 is the least number of samples for a percentile of 99.9: ten lie beyond it. With
// fewer, one outlier moves the percentile, and below 1000 samples it is the maximum.
const EnoughForP999 = 10_000

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

// Params formats alternating keys and values as parameters.
func Params(keysAndValues ...any) []Param {
	var out []Param
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		out = append(out, Param{fmt.Sprint(keysAndValues[i]), fmt.Sprint(keysAndValues[i+1])})
	}
	return out
}

// AIClock is the chip's clock in MHz before, in the middle of and after the rounds.
type AIClock struct {
	Before float64 `json:"before"`
	During float64 `json:"during"`
	After  float64 `json:"after"`
}

// clockTolerance exceeds the jitter of the firmware's readings.
const clockTolerance = 0.005

// Moved reports whether the clock changed by more than the jitter of its readings.
func (c *AIClock) Moved() bool {
	low, high := min(c.Before, c.During, c.After), max(c.Before, c.During, c.After)
	return high-low > clockTolerance*high
}

// Refusal is a figure left out because the chip's clock changed during each attempt.
type Refusal struct {
	Figure   string     `json:"figure"`
	AIClocks []*AIClock `json:"aiclk_mhz"`
}

func (r *Refusal) String() string {
	s := r.Figure + ": not reported, since the clock of the chip moved while it was measured:"
	for _, c := range r.AIClocks {
		s += fmt.Sprintf(" %g, %g, %g MHz;", c.Before, c.During, c.After)
	}
	return s[:len(s)-1]
}

// Breakdown is what the kernel observed of bursts of submissions and of the waits between them.
type Breakdown struct {
	Replays int `json:"replays"`
	// Stages are "submit", of the submitting thread, and "wait", of all threads of the process.
	Stages  []StageCost     `json:"stages"`
	Jitter  []JitterSource  `json:"jitter"`
	Costs   []probe.Cost    `json:"probe_costs"`
	Used    []string        `json:"used"`
	LeftOut []probe.LeftOut `json:"left_out,omitempty"`
	Lost    probe.Lost      `json:"lost"`
}

// StageCost is a stage of a replay. Figures are per replay; nil means not measured.
type StageCost struct {
	Name         string   `json:"name"`
	Ns           float64  `json:"ns"` // with the probes' cost
	Instructions *float64 `json:"instructions"`
	Syscalls     *float64 `json:"syscalls"`
	Switches     *float64 `json:"switches"`
	Preemptions  *float64 `json:"preemptions"`
	Faults       *float64 `json:"faults"`
	// OffNs is time off the processor, of which ReadyNs was spent waiting for one.
	OffNs   *float64 `json:"off_ns"`
	ReadyNs *float64 `json:"ready_ns"`
}

// JitterSource is one reason for submissions to take longer.
type JitterSource struct {
	Name  string  `json:"name"`
	Count uint64  `json:"count"`
	Ns    float64 `json:"ns"`
	MaxNs float64 `json:"ns_max"`
}

// Operation holds the costs of an operation on tensors of BFloat16, in tiles, interleaved in DRAM.
type Operation struct {
	Name string `json:"op"`
	// Shape is height, inner dimension and width of a product; height, width, channels in and out
	// of conv2d (3 by 3, padding 1); height, width and channels of max_pool2d (2 by 2); heads, keys
	// and width of attention_decode.
	Shape   []int  `json:"shape"`
	Device  string `json:"device,omitempty"` // compared with the target; empty for the target
	Workers int    `json:"workers"`
	// ElapsedNs is the host's time from submission to the end of the wait.
	ElapsedNs float64 `json:"elapsed_ns"`
	// Clocks is the time by the clock of the queue's dispatch core; nil for emulators.
	Clocks       *float64 `json:"clocks,omitempty"`
	Instructions *float64 `json:"instructions,omitempty"` // of all processors of an emulated device
	// Products counts products of two tiles. PerClock divides them by Clocks. PeakShare is the
	// share of the workers' peak: a product of 16 instructions in four phases each in 64 clocks.
	Products  float64  `json:"tile_products,omitempty"`
	PerClock  *float64 `json:"tile_products_per_clock,omitempty"`
	PeakShare *float64 `json:"share_of_peak,omitempty"`
	// Alone are the clocks of a product's parts, LimitedBy the slowest, or the launch.
	Alone     *PartClocks `json:"clocks_alone,omitempty"`
	LimitedBy string      `json:"limited_by,omitempty"`
}

// PartClocks are the clocks of the parts of a product in blocks, each including the launch.
type PartClocks struct {
	Launch  float64 `json:"launch"`  // starting and ending the program
	Readers float64 `json:"readers"` // reading tiles from DRAM, and sending them to rows and columns of cores
	Engines float64 `json:"engines"` // unpacking, multiplying and packing in L1
	Writers float64 `json:"writers"` // packing the result and writing it to DRAM
}

// Limit returns the part that limits a product of so many clocks.
func (p *PartClocks) Limit(clocks float64) string {
	if p.Launch > clocks/2 {
		return "launch"
	}
	switch max(p.Readers, p.Engines, p.Writers) {
	case p.Engines:
		return "engines"
	case p.Readers:
		return "readers"
	}
	return "writers"
}

// SummaryRow is a cost beside those of peers or limits, and its goal.
type SummaryRow struct {
	What    string     `json:"what"`
	Figure  string     `json:"figure,omitempty"` // ID of the figure whose median is Now, if of one
	Now     *Quantity  `json:"now"`
	Missing string     `json:"missing,omitempty"`
	More    []Quantity `json:"more,omitempty"`  // details of Now, such as percentiles and parts
	Ratio   *Ratio     `json:"ratio,omitempty"` // to the figure's own baseline; nil without one
	// Others and Goals compare with the quantity of their name among More, or else with Now.
	Others []Other    `json:"others,omitempty"`
	Goals  []Quantity `json:"goals,omitempty"`
	Note   string     `json:"note,omitempty"`
}

// Quantity is a number with a unit.
type Quantity struct {
	Name  string  `json:"name,omitempty"`
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit"`
}

// Other is a peer's cost, measured in the same run or quoted, or a limit.
type Other struct {
	Quantity
	Source *Source `json:"source,omitempty"`
	Limit  bool    `json:"limit,omitempty"`
}

// Source is the origin of a quotation.
type Source struct {
	From string `json:"from"`
	Date string `json:"date"` // of the measurement, or when it was read
}

func (s *Source) String() string { return fmt.Sprintf("quoted: %s, %s", s.From, s.Date) }

func (q Quantity) String() string {
	text := ""
	switch q.Unit {
	case Ns:
		text = duration(q.Value)
	case Share:
		text = fmt.Sprintf("%.3g %%", 100*q.Value)
	case Times:
		text = fmt.Sprintf("%.3g ×", q.Value)
	case Instructions:
		text = humanize.Commaf(float64(int64(q.Value + 0.5)))
	default:
		text = humanize.Commaf(q.Value) + " " + string(q.Unit)
	}
	return strings.TrimSpace(q.Name + " " + text)
}

// Unit is what a [Quantity] counts.
type Unit string

// Units. A share is in parts of 1, and printed as per cent.
const (
	Ns           Unit = "ns"
	Bytes        Unit = "B"
	Instructions Unit = "instructions"
	Share        Unit = "share"
	Times        Unit = "times"
)

// Of makes a quantity.
func (u Unit) Of(name string, v float64) Quantity { return Quantity{name, v, u} }
