package report

import (
	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// Breakdown is what the kernel observed of replays: bursts of submissions on one thread, and the waits between them.
type Breakdown struct {
	Replays int `json:"replays"`
	// Stages are "submit", of the submitting thread alone, and "wait", of all threads of the process: those of an emulated
	// device as well.
	Stages []StageCost `json:"stages"`
	// Jitter is what made submissions take longer, by total time, longest first.
	Jitter []JitterSource `json:"jitter"`
	// Costs is the time that each probe takes for one event, measured before.
	Costs []probe.Cost `json:"probe_costs"`
	// Used are the probes, LeftOut those that don't work on this machine, Lost the events that the figures lack.
	Used    []string        `json:"used"`
	LeftOut []probe.LeftOut `json:"left_out,omitempty"`
	Lost    probe.Lost      `json:"lost"`
}

// StageCost is one stage of a replay. All figures are for one replay; nil is what couldn't be measured.
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
