package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
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

// WriteTable writes the markers for people.
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

// writeSummary writes the summary as a table with notes below.
func (r *Report) writeSummary(b *bytes.Buffer) {
	var notes []string
	note := func(text string) string {
		i := slices.Index(notes, text)
		if i < 0 {
			i = len(notes)
			notes = append(notes, text)
		}
		return fmt.Sprintf("[%d]", i+1)
	}
	t := newTable()
	columns := 3
	if slices.ContainsFunc(r.Summary, func(row *SummaryRow) bool { return len(row.Goals) > 0 }) {
		columns++
	}
	t.AppendHeader(table.Row{"what", "now", "peer or limit", "goal"}[:columns])
	for _, row := range r.Summary {
		t.AppendRow(row.cells(note)[:columns])
	}
	fmt.Fprintln(b, t.Render())
	for i, n := range notes {
		fmt.Fprintf(b, "[%d] %s\n", i+1, n)
	}
	for i := range r.Refused {
		fmt.Fprintln(b, &r.Refused[i])
	}
}

// like returns the row's value that compares with q: the one of its name, or else Now; 0 for none.
func (row *SummaryRow) like(q Quantity) float64 {
	for _, m := range row.More {
		if m.Name == q.Name && m.Unit == q.Unit {
			return m.Value
		}
	}
	if row.Now != nil && row.Now.Unit == q.Unit {
		return row.Now.Value
	}
	return 0
}

// cells returns a row's table cells. note returns a mark for a note below the table.
func (row *SummaryRow) cells(note func(string) string) table.Row {
	var now, others, goals []string
	if row.Now == nil {
		now = append(now, "- "+note("not measured: "+row.Missing))
	} else {
		text := row.Now.String()
		if row.Note != "" {
			text += " " + note(row.Note)
		}
		now = append(now, text)
		for _, q := range row.More {
			now = append(now, q.String())
		}
		if row.Ratio != nil {
			now = append(now, fmt.Sprintf("%s × %s", count(row.Ratio.Value), row.Ratio.To))
		}
	}
	for _, o := range row.Others {
		text := o.Quantity.String()
		if now := row.like(o.Quantity); now > 0 && o.Unit != unitTimes {
			text += fmt.Sprintf(" = %s × now", count(o.Value/now))
		}
		switch {
		case o.Source != nil:
			text += " " + note(o.Source.String())
		case o.Unit != unitTimes:
			text += ", measured"
		}
		others = append(others, text)
	}
	for _, q := range row.Goals {
		goals = append(goals, q.String())
	}
	cell := func(lines []string) string {
		if len(lines) == 0 {
			return "-"
		}
		return strings.Join(lines, "\n")
	}
	return table.Row{row.What, cell(now), cell(others), cell(goals)}
}

// WriteTable writes the report as tables.
func (r *Report) WriteTable(w io.Writer) error { return writeTo(w, r.print) }

func (r *Report) print(b *bytes.Buffer) {
	head := fmt.Sprintf("%s, %s", r.Device, r.Host.line())
	how := fmt.Sprintf("%d rounds after %d to warm up; reading the clock costs %s, taken off", r.Rounds, r.Warmup,
		duration(r.TimerOverheadNs))
	if r.Warmup == 0 && r.TimerOverheadNs == 0 { // other processes have measured
		how = fmt.Sprintf("rounds: %d, of which the fastest counts", r.Rounds)
	}
	fmt.Fprintf(b, "%s\n%s\n\n", head, how)
	if r.Summary != nil {
		r.writeSummary(b)
		return
	}
	t := newTable()
	t.AppendHeader(table.Row{"baseline", "p50", "p90", "p99"})
	for _, f := range r.Baselines {
		t.AppendRow(table.Row{f.Name, duration(f.P50), duration(f.P90), duration(f.P99)})
	}
	right(t, 2, 4)
	fmt.Fprintln(b, t.Render())
	fmt.Fprintln(b)
	if len(r.Figures) > 0 || len(r.Operations) == 0 {
		r.writeFigures(b)
	}
	r.writeOperations(b)
	for i := range r.Refused {
		fmt.Fprintln(b, &r.Refused[i])
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(b, "%s: nothing to measure: %s\n", l.Family, l.Why)
	}
	if r.Markers != nil {
		r.Markers.print(b)
	}
	if r.Breakdown != nil {
		r.Breakdown.print(b)
	}
}

func (r *Report) writeFigures(b *bytes.Buffer) {
	t := newTable()
	t.AppendHeader(table.Row{"figure", "p50", "p90", "p99", "p99.9", "max", "bytes", "allocs", "against"})
	for _, f := range r.Figures {
		t.AppendRow(table.Row{
			f.ID(), duration(f.P50), duration(f.P90), duration(f.P99), duration(f.P999), duration(f.Max),
			optional(f.Bytes), optional(f.Allocs), strings.Join(f.against(), "\n"),
		})
	}
	right(t, 2, 8)
	fmt.Fprintln(b, t.Render())
}

func (r *Report) writeOperations(b *bytes.Buffer) {
	if len(r.Operations) == 0 {
		return
	}
	t := newTable()
	t.AppendHeader(table.Row{"operation", "device", "elapsed", "instructions", "clocks", "tile products per clock", "of the peak", "launch",
		"readers", "engines", "writers", "limited by"})
	for _, o := range r.Operations {
		var shape []string
		for _, n := range o.Shape {
			shape = append(shape, strconv.Itoa(n))
		}
		row := table.Row{o.Name + " " + strings.Join(shape, " x "), cmp.Or(o.Device, r.Device), duration(o.ElapsedNs)}
		for _, v := range []*float64{o.Instructions, o.Clocks, o.PerClock} {
			row = append(row, known(v, count))
		}
		row = append(row, known(o.PeakShare, func(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }))
		if a := o.Alone; a != nil {
			row = append(row, count(a.Launch), count(a.Readers), count(a.Engines), count(a.Writers), o.LimitedBy)
		}
		t.AppendRow(row)
	}
	right(t, 3, 11)
	fmt.Fprintln(b)
	fmt.Fprintln(b, t.Render())
}

// against returns the figure's comparisons, a line each.
func (f *Figure) against() []string {
	var out []string
	if f.Rate != nil {
		out = append(out, fmt.Sprintf("%s %s in a second", count(f.Rate.PerSecond), f.Rate.Of))
	}
	for _, r := range f.Ratios {
		out = append(out, fmt.Sprintf("%.3g × %s", r.Value, r.To))
	}
	for _, p := range f.Peers {
		if p.To == "" {
			out = append(out, fmt.Sprintf("%s: %s", p.Who, duration(p.Ns)))
			continue
		}
		out = append(out, fmt.Sprintf("%s: %.3g × %s", p.Who, p.Value, p.To))
	}
	return out
}

func (h Host) line() string {
	s := fmt.Sprintf("%s/%s, %d processors, %s", h.OS, h.Arch, h.CPUs, h.Go)
	if h.CPU != "" {
		s = h.CPU + ", " + s
	}
	return s
}

// WriteHistogram writes the distribution of samples as bars up to the 99.9th percentile, and one
// line for those beyond.
func (f *Figure) WriteHistogram(w io.Writer) error {
	const lines, width = 16, 48
	h, err := hdrhistogram.Decode([]byte(f.Histogram))
	if err != nil {
		return fmt.Errorf("bench: %s: its histogram can't be read: %w", f.ID(), err)
	}
	low, high := f.Min, max(f.P999, f.Min+1e-3)
	counts := make([]int64, lines+1)
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		ns := float64(bar.From) / UnitsPerNs
		i := int((ns - low) / (high - low) * lines)
		counts[min(max(i, 0), lines)] += bar.Count
	}
	most := int64(1)
	for _, c := range counts {
		most = max(most, c)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %d samples\n", f.ID(), f.Samples)
	for i, c := range counts {
		from := "  beyond"
		if i < lines {
			from = fmt.Sprintf("%8s", duration(low+(high-low)*float64(i)/lines))
		}
		bar := strings.Repeat("█", int((c*width+most-1)/most))
		fmt.Fprintf(&b, "  %10s %-*s %d\n", from, width, bar, c)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// WriteBenchmark writes the rounds as Go benchmark lines for benchstat.
func (r *Report) WriteBenchmark(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: github.com/reprise-tt/reprise/internal/bench\ncpu: %s\ndevice: %s\n", r.Host.OS,
		r.Host.Arch, r.Host.CPU, r.Device)
	for _, f := range append(append([]*Figure{}, r.Baselines...), r.Figures...) {
		for _, ns := range f.Rounds {
			line := fmt.Sprintf("Benchmark%s %d %.4g ns/op", benchName(f.ID()), f.PerSample, ns)
			if f.Bytes != nil {
				line += fmt.Sprintf(" %s B-sent/op", optional(f.Bytes))
			}
			if f.Allocs != nil {
				line += fmt.Sprintf(" %g allocs/op", *f.Allocs)
			}
			fmt.Fprintln(&b, line)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// benchName returns an ID as a benchmark name, which begins in upper case.
func benchName(id string) string {
	return strings.ToUpper(id[:1]) + strings.ReplaceAll(id[1:], " ", "_")
}
