package report

import (
	"bytes"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
)

// WriteTable writes the breakdown for people.
func (d *Breakdown) WriteTable(w io.Writer) error { return writeTo(w, d.print) }

func (d *Breakdown) print(b *bytes.Buffer) {
	fmt.Fprintf(b, "\nwhat the kernel saw of %d replays of the smallest trace, for each of them\n", d.Replays)
	t := newTable()
	t.AppendHeader(table.Row{"stage", "time", "instructions", "system calls", "switches", "preempted", "page faults", "off processor",
		"of that ready"})
	for _, s := range d.Stages {
		t.AppendRow(table.Row{
			s.Name, duration(s.Ns), measured(s.Instructions), measured(s.Syscalls), measured(s.Switches), measured(s.Preemptions),
			measured(s.Faults), known(s.OffNs, duration), known(s.ReadyNs, duration),
		})
	}
	right(t, 2, 9)
	fmt.Fprintln(b, t.Render())
	fmt.Fprintln(b, "\"wait\" is of all threads of the process, those of an emulated device too")
	if len(d.Jitter) > 0 {
		fmt.Fprintln(b)
		t = newTable()
		t.AppendHeader(table.Row{"jitter while submitting", "times", "together", "longest"})
		for _, j := range d.Jitter {
			t.AppendRow(table.Row{j.Name, j.Count, duration(j.Ns), duration(j.MaxNs)})
		}
		right(t, 2, 4)
		fmt.Fprintln(b, t.Render())
	}
	writeProbes(b, d.Costs, d.LeftOut, d.Lost)
}

func measured(v *float64) string {
	return known(v, func(v float64) string { return fmt.Sprintf("%.3g", v) })
}

// WriteTable writes what the probes saw as tables.
func (m *Markers) WriteTable(w io.Writer) error { return writeTo(w, m.print) }

func (m *Markers) print(b *bytes.Buffer) {
	if len(m.Operations) == 0 {
		fmt.Fprintln(b, "\nmarkers: no family was measured that waits for what it submits")
		return
	}
	fmt.Fprintln(b, "\nfrom marker to marker, by uprobes, measured separately")
	t := newTable()
	t.AppendHeader(table.Row{"operation", "done", "submitted", "completed", "mean", "p50 up to", "p99 up to", "max"})
	for _, o := range m.Operations {
		row := table.Row{o.Figure, o.Done, "-", "-", "-", "-", "-", "-"}
		if len(m.LeftOut) == 0 {
			row = append(row[:2], o.Submitted, o.Completed, duration(o.MeanNs), duration(o.P50Ns), duration(o.P99Ns), duration(o.MaxNs))
		}
		t.AppendRow(row)
	}
	right(t, 2, 8)
	fmt.Fprintln(b, t.Render())
	writeProbes(b, m.Costs, m.LeftOut, m.Lost)
}
