package report

import (
	"fmt"

	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// AIClock is the chip's clock in MHz before, in the middle of and after a figure's rounds.
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
	AIClocks []*AIClock `json:"aiclk_mhz"` // of each attempt
}

func (r *Refusal) String() string {
	s := r.Figure + ": not reported, since the clock of the chip moved while it was measured:"
	for _, c := range r.AIClocks {
		s += fmt.Sprintf(" %g, %g, %g MHz;", c.Before, c.During, c.After)
	}
	return s[:len(s)-1]
}

// Breakdown is what the kernel observed of bursts of submissions on one thread and of the waits
// between them.
type Breakdown struct {
	Replays int `json:"replays"`
	// Stages are "submit", of the submitting thread, and "wait", of all threads of the process.
	Stages  []StageCost     `json:"stages"`
	Jitter  []JitterSource  `json:"jitter"` // causes of slow submissions, longest first
	Costs   []probe.Cost    `json:"probe_costs"`
	Used    []string        `json:"used"` // working probes
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
	Ns    float64 `json:"ns"`     // together
	MaxNs float64 `json:"ns_max"` // the longest
}

// Markers is what uprobes observed of awaited operations. Each is repeated separately from its
// measurement, with a call of probe.MarkSubmitted after its submission and of probe.MarkCompleted
// after the wait.
type Markers struct {
	Operations []Marked     `json:"operations"`
	Costs      []probe.Cost `json:"probe_costs"` // of a marker with a probe
	// LeftOut says why no probe is attached. The markers are called anyway, for an external probe.
	LeftOut []probe.LeftOut `json:"left_out,omitempty"`
	Lost    probe.Lost      `json:"lost"`
}

// Marked is what uprobes observed of one operation.
type Marked struct {
	Figure string `json:"figure"` // ID of the figure measured without markers
	// Done counts runs of the operation, Submitted and Completed the markers that the probes saw.
	Done      int    `json:"done"`
	Submitted uint64 `json:"submitted"`
	Completed uint64 `json:"completed"`
	// Times from one marker to the other of the same number, by the kernel's clock. P50Ns and P99Ns
	// are powers of two, upper bounds of the quantiles.
	MeanNs float64 `json:"ns_mean"`
	P50Ns  float64 `json:"ns_p50_at_most"`
	P99Ns  float64 `json:"ns_p99_at_most"`
	MaxNs  float64 `json:"ns_max"`
}

// Operation holds the costs of an operation on tensors of BFloat16, in tiles, interleaved in DRAM.
type Operation struct {
	Name string `json:"op"`
	// Shape is height, inner dimension and width of a product; height, width, channels in and out
	// of conv2d (3 by 3, padding 1); height, width and channels of max_pool2d (2 by 2); heads, keys
	// and width of attention_decode, with one query for each head.
	Shape   []int  `json:"shape"`
	Device  string `json:"device,omitempty"` // compared with the target; empty for the target
	Workers int    `json:"workers"`
	// ElapsedNs is the time of a run by the host's clock, from submission to the end of the wait.
	ElapsedNs float64 `json:"elapsed_ns"`
	// Clocks is the time of a run, with its launch, by the clock of the queue's dispatch core; nil
	// for emulators, whose clocks say nothing about silicon.
	Clocks       *float64 `json:"clocks,omitempty"`
	Instructions *float64 `json:"instructions,omitempty"` // of all processors of an emulated device
	// Products counts products of two tiles. PerClock divides them by Clocks. PeakShare is the share
	// of the workers' peak: a product of 16 instructions in four phases each in 64 clocks.
	Products  float64  `json:"tile_products,omitempty"`
	PerClock  *float64 `json:"tile_products_per_clock,omitempty"`
	PeakShare *float64 `json:"share_of_peak,omitempty"`
	// Alone are the clocks of a product's parts by themselves, LimitedBy the slowest part, or the
	// launch if it takes more than half.
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
