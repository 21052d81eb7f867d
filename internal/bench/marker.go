package bench

import (
	"errors"

	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// marker repeats operations with markers around their halves, and reports what uprobes saw.
type marker struct {
	machine probe.Machine
	report  *report.Markers
	marked  uint64 // number of the last operation
}

func newMarker(m probe.Machine) (*marker, error) {
	costs, err := probe.Calibrate(m, probe.Marks)
	return &marker{machine: m, report: &report.Markers{Operations: []report.Marked{}, Costs: costs}}, err
}

// mark repeats the awaited operation of a figure. A nil marker does nothing.
func (m *marker) mark(id string, j *measure.Job, times int) (err error) {
	if m == nil || j.Submit == nil {
		return nil
	}
	p, err := probe.Start(probe.Config{Kinds: []probe.Kind{probe.Marks}, Machine: m.machine})
	switch {
	case errors.Is(err, probe.ErrMissing): // of the whole system
		m.report.LeftOut = []probe.LeftOut{{Probe: string(probe.Marks), Why: err.Error()}}
		p = nil
	case err != nil:
		return err
	default:
		defer func() { err = errors.Join(err, p.Close()) }()
	}
	done := report.Marked{Figure: id, Done: times}
	for range times {
		m.marked++
		if err := j.Submit(1); err != nil {
			return err
		}
		probe.MarkSubmitted(m.marked)
		if err := j.Finish(); err != nil {
			return err
		}
		probe.MarkCompleted(m.marked)
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
		m.report.LeftOut = sn.LeftOut
		m.report.Lost.Add(sn.Lost)
	}
	m.report.Operations = append(m.report.Operations, done)
	return nil
}
