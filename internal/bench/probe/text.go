package probe

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// WriteTable writes the snapshot for people.
func (s *Snapshot) WriteTable(w io.Writer) error {
	var b bytes.Buffer // takes everything, unlike w
	until := ""
	if s.Ended {
		until = ", until it ended"
	}
	fmt.Fprintf(&b, "process %d for %v%s: %v on processors, %v waiting for one, %d page faults (%d major)\n",
		s.PID, s.Elapsed.Round(time.Millisecond), until, s.Proc.On, s.Proc.Ready, s.Proc.Minor+s.Proc.Major, s.Proc.Major)
	if calls := s.Calls(); len(calls) > 0 {
		t := newTable(&b, table.Row{"system call", "of", "times", "failed", "together", "median below", "longest", "off processor"})
		for _, c := range calls {
			t.AppendRow(table.Row{c.Name, c.Command + " " + c.Device, c.Count, c.Errors, c.Total, c.Quantile(0.5), c.Max, c.Off})
		}
		t.Render()
	}
	if len(s.Threads) > 0 {
		t := newTable(&b, table.Row{"thread", "name", "calls", "switches", "preempted", "off processor", "of that ready", "longest",
			"page faults"})
		for _, th := range s.Threads {
			t.AppendRow(table.Row{th.TID, th.Name, th.Syscalls(), th.Voluntary + th.Preempted, th.Preempted, th.Off.Total, th.Ready.Total,
				th.Off.Max, th.Faults.Count})
		}
		t.Render()
	}
	if len(s.Functions) > 0 {
		t := newTable(&b, table.Row{"function of the kernel", "times", "together", "longest"})
		for _, f := range s.Functions {
			t.AppendRow(table.Row{f.Name, f.Count, f.Total, f.Max})
		}
		t.Render()
	}
	if m := s.Markers; m != nil {
		fmt.Fprintf(&b, "markers: %d submitted, %d completed, median below %v, longest %v\n", m.Submitted, m.Completed.Count,
			m.Completed.Quantile(0.5), m.Completed.Max)
	}
	for _, l := range s.LeftOut {
		fmt.Fprintf(&b, "left out: %s: %s\n", l.Probe, l.Why)
	}
	if s.Lost.Any() {
		fmt.Fprintf(&b, "LOST: %+v\n", s.Lost)
	}
	fmt.Fprintln(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func newTable(w io.Writer, head table.Row) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.DrawBorder = false
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(head)
	return t
}
