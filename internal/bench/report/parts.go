package report

import (
	"fmt"

	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// AIClock is the clock of the chip's tiles in MHz, before, in the middle of and after the rounds of
// a figure.
type AIClock struct {
	Before float64 `json:"before"`
	During float64 `json:"during"`
	After  float64 `json:"after"`
}

// clockTolerance is the most by which the clock may move: the firmware's own readings jitter by
// less.
const clockTolerance = 0.005

// Moved reports whether the clock changed by more than its readings jitter.
func (c *AIClock) Moved() bool {
	low, high := min(c.Before, c.During, c.After), max(c.Before, c.During, c.After)
	return high-low > clockTolerance*high
}

// Refusal is a figure that was measured and is not in the report, because the chip's clock moved.
type Refusal struct {
	Figure string `json:"figure"`
	// AIClocks are the readings of each attempt.
	AIClocks []*AIClock `json:"aiclk_mhz"`
}

func (r *Refusal) String() string {
	s := r.Figure + ": not reported, since the clock of the chip moved while it was measured:"
	for _, c := range r.AIClocks {
		s += fmt.Sprintf(" %g, %g, %g MHz;", c.Before, c.During, c.After)
	}
	return s[:len(s)-1]
}

// Breakdown is what the kernel observed of replays: bursts of submissions on one thread, and the
// waits between them.
type Breakdown struct {
	Replays int `json:"replays"`
	// Stages are "submit", of the submitting thread alone, and "wait", of all threads of the
	// process: those of an emulated device as well.
	Stages []StageCost `json:"stages"`
	// Jitter is what made submissions take longer, by total time, longest first.
	Jitter []JitterSource `json:"jitter"`
	// Costs is the time that each probe takes for one event, measured before.
	Costs []probe.Cost `json:"probe_costs"`
	// Used are the probes, LeftOut those that don't work on this machine, Lost the events that the
	// figures lack.
	Used    []string        `json:"used"`
	LeftOut []probe.LeftOut `json:"left_out,omitempty"`
	Lost    probe.Lost      `json:"lost"`
}

// StageCost is one stage of a replay. All figures are for one replay; nil is what couldn't be
// measured.
type StageCost struct {
	Name string `json:"name"`
	// Ns is how long the stage takes, with the probes' own cost in it.
	Ns           float64  `json:"ns"`
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

// Markers is what uprobes observed of operations that are waited for. Each is done a number of
// times more, separately from what is measured, with a call of probe.MarkSubmitted after its
// submission and one of probe.MarkCompleted after the wait for its end; no measured path has
// either.
type Markers struct {
	Operations []Marked `json:"operations"`
	// Costs is the time that a marker takes the process while a probe is attached, measured before.
	Costs []probe.Cost `json:"probe_costs"`
	// LeftOut says why no probe is attached. The markers are called anyway, for a probe from
	// outside (`reprise probe --markers`).
	LeftOut []probe.LeftOut `json:"left_out,omitempty"`
	Lost    probe.Lost      `json:"lost"`
}

// Marked is what uprobes observed of one operation.
type Marked struct {
	// Figure is the figure that is measured without markers.
	Figure string `json:"figure"`
	// Done is how often the operation ran; Submitted and Completed how often the probes saw its
	// markers.
	Done      int    `json:"done"`
	Submitted uint64 `json:"submitted"`
	Completed uint64 `json:"completed"`
	// Times from one marker to the other of the same number, by the kernel's clock. P50Ns and P99Ns
	// are upper bounds of the quantiles: powers of two.
	MeanNs float64 `json:"ns_mean"`
	P50Ns  float64 `json:"ns_p50_at_most"`
	P99Ns  float64 `json:"ns_p99_at_most"`
	MaxNs  float64 `json:"ns_max"`
}

// Operation is what an operation on tensors takes of a device. Tensors are of BFloat16, in tiles,
// interleaved in DRAM.
type Operation struct {
	Name string `json:"op"`
	// Shape is, of a product, height, inner dimension and width; of conv2d, whose window is 3 by 3
	// with padding of 1, height, width, channels in and channels out; of max_pool2d, whose window
	// is 2 by 2, height, width and channels; of attention_decode, which has one query for each
	// head, heads, keys and width.
	Shape []int `json:"shape"`
	// Device is what is compared with, or empty for the device that is measured.
	Device string `json:"device,omitempty"`
	// Workers is how many workers the queue has.
	Workers int `json:"workers"`
	// ElapsedNs is the time of one run by the host's clock, from the submission to the end of the
	// wait.
	ElapsedNs float64 `json:"elapsed_ns"`
	// Clocks is the time of one run by the clock of the queue's dispatch core, with its launch; nil
	// for emulators, whose clocks say nothing of silicon.
	Clocks *float64 `json:"clocks,omitempty"`
	// Instructions is what all processors of an emulated device retire; nil for other devices.
	Instructions *float64 `json:"instructions,omitempty"`
	// Products is how many products of two tiles the operation has, PerClock that by its clocks,
	// and PeakShare the share of what the matrix units of all workers could compute: one of 16
	// instructions in four phases each in 64 clocks. 0 for operations without products, and nil
	// without clocks.
	Products  float64  `json:"tile_products,omitempty"`
	PerClock  *float64 `json:"tile_products_per_clock,omitempty"`
	PeakShare *float64 `json:"share_of_peak,omitempty"`
	// Alone are the clocks of parts of a product by themselves: the same program without the
	// others. LimitedBy is the part that takes longest, or the launch if that is more than half of
	// the product.
	Alone     *PartClocks `json:"clocks_alone,omitempty"`
	LimitedBy string      `json:"limited_by,omitempty"`
}

// PartClocks are the clocks of the parts of a product in blocks. Launch is in all of them.
type PartClocks struct {
	Launch  float64 `json:"launch"`  // starting and ending the program, in which no part does anything
	Readers float64 `json:"readers"` // reading tiles from DRAM, and sending them to rows and columns of cores
	Engines float64 `json:"engines"` // unpacking, multiplying and packing what is in L1
	Writers float64 `json:"writers"` // writing the result to DRAM, with what packs it
}

// Limit returns the name of what takes longest in a product of so many clocks.
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
