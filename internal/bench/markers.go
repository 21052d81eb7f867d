package bench

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

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

// calibrateMarkers prepares the report's markers, if they are asked for.
func (s *session) calibrateMarkers() (err error) {
	if !s.config.Markers {
		return nil
	}
	s.report.Markers = &Markers{Operations: []Marked{}}
	s.report.Markers.Costs, err = probe.Calibrate(s.machine(), probe.Marks)
	return err
}

// machine says which features of the kernel may be used.
func (s *session) machine() probe.Machine {
	if s.config.Machine != nil {
		return s.config.Machine
	}
	return probe.Detect()
}

// mark does a job's operation with markers, as often as it was measured.
func (s *session) mark(ctx context.Context, id string, j *job) (err error) {
	m := s.report.Markers
	if m == nil || j.submit == nil {
		return nil
	}
	p, err := probe.Start(probe.Config{Kinds: []probe.Kind{probe.Marks}, Machine: s.machine()})
	switch {
	case errors.Is(err, probe.ErrMissing): // nothing can be probed on this system at all
		m.LeftOut = []probe.LeftOut{{Probe: string(probe.Marks), Why: err.Error()}}
		p = nil
	case err != nil:
		return err
	default:
		defer func() { err = errors.Join(err, p.Close()) }()
	}
	done := Marked{Figure: id, Done: s.runner.rounds * j.burst}
	for range done.Done {
		s.marked++
		if err := j.submit(ctx, 1); err != nil {
			return err
		}
		probe.MarkSubmitted(s.marked)
		if err := j.finish(ctx); err != nil {
			return err
		}
		probe.MarkCompleted(s.marked)
	}
	if p != nil {
		sn, err := p.Snapshot()
		if err != nil {
			return err
		}
		if sn.Markers != nil {
			d := sn.Markers.Completed
			done.Submitted, done.Completed = sn.Markers.Submitted, d.Count
			if d.Count > 0 {
				done.MeanNs = float64(d.Total) / float64(d.Count)
			}
			done.P50Ns, done.P99Ns, done.MaxNs = float64(d.Quantile(0.5)), float64(d.Quantile(0.99)), float64(d.Max)
		}
		m.LeftOut = sn.LeftOut
		m.Lost.Add(sn.Lost)
	}
	m.Operations = append(m.Operations, done)
	return nil
}

// WriteTable writes what the probes saw as tables.
func (m *Markers) WriteTable(w io.Writer) error {
	if len(m.Operations) == 0 {
		_, err := fmt.Fprintln(w, "\nmarkers: no family was measured that waits for what it submits")
		return err
	}
	if _, err := fmt.Fprintln(w, "\nfrom marker to marker, by uprobes, measured separately"); err != nil {
		return err
	}
	t := newTable()
	t.AppendHeader(table.Row{"operation", "done", "submitted", "completed", "mean", "p50 up to", "p99 up to", "max"})
	for _, o := range m.Operations {
		row := table.Row{o.Figure, o.Done, "-", "-", "-", "-", "-", "-"}
		if len(m.LeftOut) == 0 {
			row = table.Row{o.Figure, o.Done, o.Submitted, o.Completed, duration(o.MeanNs), duration(o.P50Ns), duration(o.P99Ns), duration(o.MaxNs)}
		}
		t.AppendRow(row)
	}
	right(t, 2, 8)
	if err := render(w, t); err != nil {
		return err
	}
	return writeProbes(w, m.Costs, m.LeftOut, m.Lost)
}

// writeProbes writes what probes cost, which there aren't, and what they lost.
func writeProbes(w io.Writer, costs []probe.Cost, left []probe.LeftOut, lost probe.Lost) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	for _, c := range costs {
		if _, err := fmt.Fprintf(w, "probe of %s: %s for each %s\n", c.Probe, duration(c.Ns), c.Event); err != nil {
			return err
		}
	}
	for _, l := range left {
		if _, err := fmt.Fprintf(w, "left out: %s: %s\n", l.Probe, l.Why); err != nil {
			return err
		}
	}
	if lost.Any() {
		if _, err := fmt.Fprintf(w, "LOST: %+v: the figures are too small by that much\n", lost); err != nil {
			return err
		}
	}
	return nil
}
