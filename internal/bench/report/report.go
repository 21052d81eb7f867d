// Package report holds measurements and writes them as tables, comparisons, plots and JSON.
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

// Report holds the measurements of a run.
type Report struct {
	Schema int       `json:"schema"`
	When   time.Time `json:"when"`
	Device string    `json:"device"`
	Arch   string    `json:"arch,omitempty"`
	Host   Host      `json:"host"`
	Rounds int       `json:"rounds"`        // of each figure
	Warmup int       `json:"warmup_rounds"` // before them
	// TimerOverheadNs is the cost of reading the counter, which every sample excludes.
	TimerOverheadNs float64           `json:"timer_overhead_ns"`
	Baselines       []*Figure         `json:"baselines"`
	Figures         []*Figure         `json:"figures"`
	Operations      []*Operation      `json:"operations,omitempty"`
	Summary         []*SummaryRow     `json:"summary,omitempty"`
	Refused         []Refusal         `json:"refused,omitempty"`
	LeftOut         []LeftOut         `json:"left_out,omitempty"` // requested, but can't be measured here
	Breakdown       *Breakdown        `json:"ebpf,omitempty"`     // nil unless requested
	Markers         *Markers          `json:"markers,omitempty"`  // nil unless requested
	Timeline        *observe.Timeline `json:"-"`                  // of a few replays; nil unless requested
	*ReplaySummary                    // of the replay family
}

// ReplaySummary holds the costs of a replay, for scripts. Pointers are nil where unknown.
type ReplaySummary struct {
	HostSubmitNsP50   float64  `json:"host_submit_ns_p50"`
	MemcpyNsP50       float64  `json:"memcpy_same_bytes_ns_p50"`
	NTStoreNs         *float64 `json:"nt_store_64B_ns"`
	BytesPerReplay    float64  `json:"bytes_per_replay"`
	AllocsPerReplay   float64  `json:"allocs_per_replay"`
	SyscallsPerReplay *float64 `json:"syscalls_per_replay"` // by eBPF
	Programs          int      `json:"programs"`            // of the measured trace
	// InstructionsPerProgram counts those of prefetcher and dispatchers for each program of a trace.
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

// Summarize completes the replay summary.
func (r *Report) Summarize() {
	if nt, ok := r.Baseline(NonTemporal); ok && r.ReplaySummary != nil {
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
