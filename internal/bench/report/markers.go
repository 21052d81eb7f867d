package report

import (
	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// Markers is what uprobes observed of operations that are waited for. Each is done a number of times more, separately from
// what is measured, with a call of probe.MarkSubmitted after its submission and one of probe.MarkCompleted after the wait
// for its end; no measured path has either.
type Markers struct {
	Operations []Marked `json:"operations"`
	// Costs is the time that a marker takes the process while a probe is attached, measured before.
	Costs []probe.Cost `json:"probe_costs"`
	// LeftOut says why no probe is attached. The markers are called anyway, for a probe from outside
	// (`reprise probe --markers`).
	LeftOut []probe.LeftOut `json:"left_out,omitempty"`
	Lost    probe.Lost      `json:"lost"`
}

// Marked is what uprobes observed of one operation.
type Marked struct {
	// Figure is the figure that is measured without markers.
	Figure string `json:"figure"`
	// Done is how often the operation ran; Submitted and Completed how often the probes saw its markers.
	Done      int    `json:"done"`
	Submitted uint64 `json:"submitted"`
	Completed uint64 `json:"completed"`
	// Times from one marker to the other of the same number, by the kernel's clock. P50Ns and P99Ns are upper bounds of the
	// quantiles: powers of two.
	MeanNs float64 `json:"ns_mean"`
	P50Ns  float64 `json:"ns_p50_at_most"`
	P99Ns  float64 `json:"ns_p99_at_most"`
	MaxNs  float64 `json:"ns_max"`
}
