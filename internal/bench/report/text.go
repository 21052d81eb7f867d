package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/tables"
)

var (
	duration = tables.Duration[float64]
	count    = tables.Count
)

// text is a report for people.
type text = tables.Text

func writeProbes(b text, costs []probe.Cost, left []probe.LeftOut, lost probe.Lost) {
	b.F("\n")
	for _, c := range costs {
		b.F("probe of %s: %s for each %s\n", c.Probe, duration(c.Ns), c.Event)
	}
	for _, l := range left {
		b.F("left out: %s: %s\n", l.Probe, l.Why)
	}
	if lost.Any() {
		b.F("LOST: %+v: the figures are too small by that much\n", lost)
	}
}

func (d *Breakdown) print(b text) {
	b.F("\nwhat the kernel saw of %d replays of the smallest trace, for each of them\n", d.Replays)
	measured := func(v *float64) string { return known(v, func(v float64) string { return fmt.Sprintf("%.3g", v) }) }
	t := b.Table("stage", "time", "instructions", "system calls", "switches", "preempted", "page faults", "off processor", "of that ready")
	for _, s := range d.Stages {
		t.Row(s.Name, duration(s.Ns), measured(s.Instructions), measured(s.Syscalls), measured(s.Switches), measured(s.Preemptions),
			measured(s.Faults), known(s.OffNs, duration), known(s.ReadyNs, duration))
	}
	t.Flush()
	b.F("\"wait\" is of all threads of the process, those of an emulated device too\n")
	if len(d.Jitter) > 0 {
		b.F("\n")
		t := b.Table("jitter while submitting", "times", "together", "longest")
		for _, j := range d.Jitter {
			t.Row(j.Name, j.Count, duration(j.Ns), duration(j.MaxNs))
		}
		t.Flush()
	}
	writeProbes(b, d.Costs, d.LeftOut, d.Lost)
}

func (r *Report) writeSummary(b text) {
	var notes []string
	note := func(text string) string {
		i := slices.Index(notes, text)
		if i < 0 {
			i = len(notes)
			notes = append(notes, text)
		}
		return fmt.Sprintf("[%d]", i+1)
	}
	columns := 3
	if slices.ContainsFunc(r.Summary, func(row *SummaryRow) bool { return len(row.Goals) > 0 }) {
		columns++
	}
	writeVerdict(b, r.Summary)
	t := b.Table([]any{"what", "now", "peer or limit", "goal"}[:columns]...)
	for _, row := range r.Summary {
		t.Row(row.cells(note)[:columns]...)
	}
	t.Flush()
	for i, n := range notes {
		b.F("[%d] %s\n", i+1, n)
	}
	for i := range r.Refused {
		fmt.Fprintln(b, &r.Refused[i])
	}
}

// verdict says how the costs compare with those of peers, by their geometric mean: times and counts
// apart, measured and quoted ones apart.
func writeVerdict(b text, rows []*SummaryRow) {
	type basis struct{ what, source string }
	var order []basis
	peers, ratios := map[basis][]string{}, map[basis][]float64{}
	met, goals := 0, 0
	for _, row := range rows {
		for _, o := range row.Others {
			part := slices.ContainsFunc(row.More, func(q Quantity) bool { return q.Name == o.Name })
			if o.Limit || part || row.Now == nil || o.Unit != row.Now.Unit || o.Unit == Times || min(o.Value, row.Now.Value) <= 0 {
				continue
			}
			k := basis{"time", "measured in this run"}
			if o.Unit != Ns {
				k.what = "count"
			}
			if o.Source != nil {
				k.source = "quoted"
			}
			if len(ratios[k]) == 0 {
				order = append(order, k)
			}
			if ratios[k] = append(ratios[k], o.Value/row.Now.Value); !slices.Contains(peers[k], o.Name) {
				peers[k] = append(peers[k], o.Name)
			}
		}
		for _, q := range row.Goals {
			if now := row.like(q); now > 0 {
				goals++
				if now == q.Value || now < q.Value != (q.Unit == Times) {
					met++
				}
			}
		}
	}
	var lines []string
	for _, k := range order {
		mean := GeometricMean(ratios[k])
		words := map[string][2]string{"time": {"faster than", "slower than"}, "count": {"fewer than", "more than"}}[k.what]
		word, by := words[0], mean
		switch {
		case math.Abs(mean-1) < smallest:
			word = "the same as"
		case mean < 1:
			word, by = words[1], 1/mean
		}
		what := "one " + k.what
		if n := len(ratios[k]); n > 1 {
			what = fmt.Sprintf("geometric mean of %d %ss, from %s × to %s ×", n, k.what, count(slices.Min(ratios[k])),
				count(slices.Max(ratios[k])))
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s × (%s; peer's figure %s)", word, strings.Join(peers[k], ", "), count(by), what,
			k.source))
	}
	if goals > 0 {
		lines = append(lines, fmt.Sprintf("%d of %d goals met", met, goals))
	}
	t, head := b.Table(), "verdict:"
	for _, line := range lines {
		t.Row(head, line)
		head = ""
	}
	t.Row()
	t.Flush()
}

// GeometricMean returns the mean of ratios.
func GeometricMean(values []float64) float64 {
	logs := 0.0
	for _, v := range values {
		logs += math.Log(v)
	}
	return math.Exp(logs / float64(len(values)))
}

// like returns the row's value that compares with q, 0 for none.
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

// cells gets marks of notes below from note.
func (row *SummaryRow) cells(note func(string) string) []any {
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
		if now := row.like(o.Quantity); now > 0 && o.Unit != Times {
			text += fmt.Sprintf(" = %s × now", count(o.Value/now))
		}
		switch {
		case o.Source != nil:
			text += " " + note(o.Source.String())
		case o.Unit != Times:
			text += ", measured"
		}
		others = append(others, text)
	}
	for _, q := range row.Goals {
		goals = append(goals, q.String())
	}
	cell := func(lines []string) string { return cmp.Or(strings.Join(lines, "\n"), "-") }
	return []any{row.What, cell(now), cell(others), cell(goals)}
}

// WriteTable writes the report as tables.
func (r *Report) WriteTable(w io.Writer) error { return tables.Print(w, r.print) }

func (r *Report) print(b text) {
	how := fmt.Sprintf("%d rounds after %d to warm up; reading the clock costs %s, taken off", r.Rounds, r.Warmup,
		duration(r.TimerOverheadNs))
	if r.Warmup == 0 && r.TimerOverheadNs == 0 { // other processes have measured
		how = fmt.Sprintf("rounds: %d, of which the fastest counts", r.Rounds)
	}
	b.F("%s, %s\n%s\n\n", r.Device, r.Host.line(), how)
	if r.Summary != nil {
		r.writeSummary(b)
		return
	}
	t := b.Table("baseline", "p50", "p90", "p99")
	for _, f := range r.Baselines {
		t.Row(f.Name, duration(f.P50), duration(f.P90), duration(f.P99))
	}
	t.Flush()
	b.F("\n")
	if len(r.Figures) > 0 || len(r.Operations) == 0 {
		many := slices.ContainsFunc(r.Figures, func(f *Figure) bool { return f.P999 != nil })
		row := func(cells ...any) []any {
			if many {
				return cells
			}
			return slices.Delete(cells, 4, 5)
		}
		t.Head(row("figure", "p50", "p90", "p99", "p99.9", "max", "bytes", "allocs", "against")...)
		for _, f := range r.Figures {
			t.Row(row(f.ID(), duration(f.P50), duration(f.P90), duration(f.P99), known(f.P999, duration),
				duration(f.Max), optional(f.Bytes), optional(f.Allocs), strings.Join(f.against(), "\n"))...)
		}
		t.Flush()
	}
	r.writeOperations(b)
	for i := range r.Refused {
		fmt.Fprintln(b, &r.Refused[i])
	}
	for _, l := range r.LeftOut {
		b.F("%s: nothing to measure: %s\n", l.Family, l.Why)
	}
	if r.Breakdown != nil {
		r.Breakdown.print(b)
	}
}

func (r *Report) writeOperations(b text) {
	if len(r.Operations) == 0 {
		return
	}
	b.F("\n")
	t := b.Table("operation", "device", "elapsed", "instructions", "clocks", "tile products per clock", "of the peak", "launch",
		"readers", "engines", "writers", "limited by")
	for _, o := range r.Operations {
		shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Shape), " ", " x "), "[]")
		row := []any{o.Name + " " + shape, cmp.Or(o.Device, r.Device), duration(o.ElapsedNs)}
		for _, v := range []*float64{o.Instructions, o.Clocks, o.PerClock} {
			row = append(row, known(v, count))
		}
		row = append(row, known(o.PeakShare, func(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }))
		if a := o.Alone; a != nil {
			row = append(row, count(a.Launch), count(a.Readers), count(a.Engines), count(a.Writers), o.LimitedBy)
		}
		t.Row(row...)
	}
	t.Flush()
}

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
		} else {
			out = append(out, fmt.Sprintf("%s: %.3g × %s", p.Who, p.Value, p.To))
		}
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

func (f *Figure) bars() ([]hdrhistogram.Bar, error) {
	h, err := hdrhistogram.Decode([]byte(f.Histogram))
	if err != nil {
		return nil, fmt.Errorf("its histogram can't be read: %w", err)
	}
	return slices.DeleteFunc(h.Distribution(), func(b hdrhistogram.Bar) bool { return b.Count == 0 }), nil
}

// WriteHistogram draws samples up to the 99.9th percentile as bars, and counts those beyond.
func (f *Figure) WriteHistogram(w io.Writer) error {
	const lines, width = 16, 48
	bars, err := f.bars()
	if err != nil {
		return fmt.Errorf("bench: %s: %w", f.ID(), err)
	}
	low, high := f.Min, f.Max
	if f.P999 != nil {
		high = *f.P999
	}
	high = max(high, low+1e-3)
	counts := make([]int64, lines+1)
	for _, bar := range bars {
		i := int((float64(bar.From)/UnitsPerNs - low) / (high - low) * lines)
		counts[min(max(i, 0), lines)] += bar.Count
	}
	most := max(1, slices.Max(counts))
	return tables.Print(w, func(b text) {
		b.F("%s: %d samples\n", f.ID(), f.Samples)
		for i, c := range counts {
			from := "  beyond"
			if i < lines {
				from = fmt.Sprintf("%8s", duration(low+(high-low)*float64(i)/lines))
			}
			b.F("  %10s %-*s %d\n", from, width, strings.Repeat("█", int((c*width+most-1)/most)), c)
		}
	})
}

// WriteBenchmark writes the rounds as Go benchmark lines for benchstat.
func (r *Report) WriteBenchmark(w io.Writer) error {
	return tables.Print(w, func(b text) {
		b.F("goos: %s\ngoarch: %s\npkg: github.com/reprise-tt/reprise/internal/bench\ncpu: %s\ndevice: %s\n", r.Host.OS,
			r.Host.Arch, r.Host.CPU, r.Device)
		for _, f := range slices.Concat(r.Baselines, r.Figures) {
			id := f.ID()
			for _, ns := range f.Rounds {
				b.F("Benchmark%s %d %.4g ns/op", strings.ToUpper(id[:1])+strings.ReplaceAll(id[1:], " ", "_"), f.PerSample, ns)
				if f.Bytes != nil {
					b.F(" %s B-sent/op", optional(f.Bytes))
				}
				if f.Allocs != nil {
					b.F(" %g allocs/op", *f.Allocs)
				}
				b.F("\n")
			}
		}
	})
}

// known formats a value, or a dash for nil.
func known(v *float64, print func(float64) string) string {
	if v == nil {
		return "-"
	}
	return print(*v)
}

func optional(v *float64) string {
	return known(v, func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) })
}
