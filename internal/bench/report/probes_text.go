package report

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
)

// WriteTable writes the breakdown for people.
func (b *Breakdown) WriteTable(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "\nwhat the kernel saw of %d replays of the smallest trace, for each of them\n", b.Replays); err != nil {
		return err
	}
	t := newTable()
	t.AppendHeader(table.Row{"stage", "time", "instructions", "system calls", "switches", "preempted", "page faults", "off processor",
		"of that ready"})
	for _, s := range b.Stages {
		t.AppendRow(table.Row{
			s.Name, duration(s.Ns), measured(s.Instructions), measured(s.Syscalls), measured(s.Switches), measured(s.Preemptions),
			measured(s.Faults),
			measuredNs(s.OffNs), measuredNs(s.ReadyNs),
		})
	}
	right(t, 2, 9)
	if err := render(w, t); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "\"wait\" is of all threads of the process, those of an emulated device too"); err != nil {
		return err
	}
	if len(b.Jitter) > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		t = newTable()
		t.AppendHeader(table.Row{"jitter while submitting", "times", "together", "longest"})
		for _, j := range b.Jitter {
			t.AppendRow(table.Row{j.Name, j.Count, duration(j.Ns), duration(j.MaxNs)})
		}
		right(t, 2, 4)
		if err := render(w, t); err != nil {
			return err
		}
	}
	return writeProbes(w, b.Costs, b.LeftOut, b.Lost)
}

func measured(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g", *v)
}

func measuredNs(v *float64) string {
	if v == nil {
		return "-"
	}
	return duration(*v)
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
			row = table.Row{
				o.Figure,
				o.Done,
				o.Submitted,
				o.Completed,
				duration(o.MeanNs),
				duration(o.P50Ns),
				duration(o.P99Ns),
				duration(o.MaxNs),
			}
		}
		t.AppendRow(row)
	}
	right(t, 2, 8)
	if err := render(w, t); err != nil {
		return err
	}
	return writeProbes(w, m.Costs, m.LeftOut, m.Lost)
}
