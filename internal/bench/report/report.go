// Package report has what was measured as data, and writes it as tables, comparisons, plots and
// JSON.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/observe"
)

// Schema is the version of a report's JSON form.
const Schema = 1

// Report is what a run measured.
type Report struct {
	Schema int       `json:"schema"`
	When   time.Time `json:"when"`
	Device string    `json:"device"`
	Arch   string    `json:"arch,omitempty"`
	Host   Host      `json:"host"`
	// Rounds and Warmup are the rounds of each figure, and those before them that don't count.
	Rounds int `json:"rounds"`
	Warmup int `json:"warmup_rounds"`
	// TimerOverheadNs is the cost of reading the counter, which is subtracted from every sample.
	TimerOverheadNs float64   `json:"timer_overhead_ns"`
	Baselines       []*Figure `json:"baselines"`
	Figures         []*Figure `json:"figures"`
	// Operations are what operations on tensors take of devices.
	Operations []*Operation `json:"operations,omitempty"`
	// Summary is the table of the summary; nil if that wasn't measured.
	Summary []*SummaryRow `json:"summary,omitempty"`
	// Refused are figures that are not reported, because the chip's clock moved each time that they
	// were measured.
	Refused []Refusal `json:"refused,omitempty"`

	// LeftOut are families that were asked for by name and have nothing to measure here, in whole
	// or in part, with the reason.
	LeftOut []LeftOut `json:"left_out,omitempty"`

	// Breakdown is what the kernel saw of replays; nil if it wasn't asked for.
	Breakdown *Breakdown `json:"ebpf,omitempty"`

	// Markers is what uprobes of markers saw; nil if they weren't asked for.
	Markers *Markers `json:"markers,omitempty"`

	// Timeline is what host and queues did in a few replays; nil if it wasn't asked for.
	Timeline *observe.Timeline `json:"-"`

	// ReplaySummary is set when the replay family was measured.
	*ReplaySummary
}

// ReplaySummary is what one replay costs, for scripts. Pointers are nil where this machine can't
// tell.
type ReplaySummary struct {
	HostSubmitNsP50 float64  `json:"host_submit_ns_p50"`
	MemcpyNsP50     float64  `json:"memcpy_same_bytes_ns_p50"`
	NTStoreNs       *float64 `json:"nt_store_64B_ns"`
	BytesPerReplay  float64  `json:"bytes_per_replay"`
	AllocsPerReplay float64  `json:"allocs_per_replay"`
	// SyscallsPerReplay is measured by eBPF; nil where that can't run.
	SyscallsPerReplay *float64 `json:"syscalls_per_replay"`
	// Programs is the length of the trace that these are of.
	Programs int `json:"programs"`
	// InstructionsPerProgram is what prefetcher and dispatchers retire for each program of a trace;
	// nil where the device can't tell.
	InstructionsPerProgram *float64 `json:"device_instructions_per_program"`
}

// LeftOut is a family that has nothing to measure. If that is true of a part only, the part's name
// follows the family's.
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

// Figure returns the figure of an [Figure.ID].
func (r *Report) Figure(id string) (*Figure, bool) {
	for _, f := range r.Figures {
		if f.ID() == id {
			return f, true
		}
	}
	return nil, false
}

// Baseline returns a baseline by name.
func (r *Report) Baseline(name string) (*Figure, bool) {
	for _, f := range r.Baselines {
		if f.Name == name {
			return f, true
		}
	}
	return nil, false
}

// Summarize fills in the summary of a replay from the figures.
func (r *Report) Summarize() {
	if r.ReplaySummary == nil {
		return
	}
	if nt, ok := r.Baseline(NonTemporal); ok {
		r.NTStoreNs = &nt.P50
	}
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
