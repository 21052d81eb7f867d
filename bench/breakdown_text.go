package bench

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
	t := newTable(w)
	t.AppendHeader(table.Row{"stage", "time", "instructions", "system calls", "switches", "preempted", "page faults", "off processor", "of that ready"})
	for _, s := range b.Stages {
		t.AppendRow(table.Row{
			s.Name, Duration(s.Ns), measured(s.Instructions), measured(s.Syscalls), measured(s.Switches), measured(s.Preemptions), measured(s.Faults),
			measuredNs(s.OffNs), measuredNs(s.ReadyNs),
		})
	}
	right(t, 2, 9)
	t.Render()
	if _, err := fmt.Fprintln(w, "\"wait\" is of all threads of the process, those of an emulated device too"); err != nil {
		return err
	}
	if len(b.Jitter) > 0 {
		fmt.Fprintln(w)
		t = newTable(w)
		t.AppendHeader(table.Row{"jitter while submitting", "times", "together", "longest"})
		for _, j := range b.Jitter {
			t.AppendRow(table.Row{j.Name, j.Count, Duration(j.Ns), Duration(j.MaxNs)})
		}
		right(t, 2, 4)
		t.Render()
	}
	fmt.Fprintln(w)
	for _, c := range b.Costs {
		if _, err := fmt.Fprintf(w, "probe of %s: %s for each %s\n", c.Probe, Duration(c.Ns), c.Event); err != nil {
			return err
		}
	}
	for _, l := range b.LeftOut {
		if _, err := fmt.Fprintf(w, "left out: %s: %s\n", l.Probe, l.Why); err != nil {
			return err
		}
	}
	if b.Lost.Any() {
		if _, err := fmt.Fprintf(w, "LOST: %+v: the figures are too small by that much\n", b.Lost); err != nil {
			return err
		}
	}
	return nil
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
	return Duration(*v)
}
