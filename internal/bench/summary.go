package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
)

// SummaryRow is a line of the summary: what something takes, beside what it takes others, or what limits it, and what it should take.
type SummaryRow struct {
	What string `json:"what"`
	// Figure is the ID of the figure whose median Now is; empty for what is counted and for what was made of several figures.
	Figure string `json:"figure,omitempty"`
	// Now is nil if it isn't measured here, and Missing says why.
	Now     *Quantity `json:"now"`
	Missing string    `json:"missing,omitempty"`
	// More says more of Now, such as percentiles and parts.
	More []Quantity `json:"more,omitempty"`
	// Ratio is to the baseline beside the figure, or else to [MemcpyHot], which was measured before all figures; nil for what is
	// counted.
	Ratio *Ratio `json:"ratio,omitempty"`
	// Others are what it takes other runtimes and simulators, and what nothing can be faster than. One compares with Now, or with
	// what has its name among More.
	Others []Other `json:"others,omitempty"`
	// Goals are what Now, and of More what has the same name, should be.
	Goals []Quantity `json:"goals,omitempty"`
	// Note is what there is to know of how it was measured.
	Note string `json:"note,omitempty"`
}

// Quantity is a number with a unit: ns, B, instructions, share (of 1) or times.
type Quantity struct {
	Name  string  `json:"name,omitempty"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Other is what something else takes: measured in the same run, or quoted.
type Other struct {
	Quantity
	Source *Source `json:"source,omitempty"` // nil if it was measured
}

// Source is where a quoted figure is from.
type Source struct {
	From string `json:"from"`
	Date string `json:"date"` // of the measurement, or when it was read
}

func (s *Source) String() string { return fmt.Sprintf("quoted: %s, %s", s.From, s.Date) }

// String prints the value with its unit, after the name if there is one.
func (q Quantity) String() string {
	text := ""
	switch q.Unit {
	case unitNs:
		text = duration(q.Value)
	case unitShare:
		text = fmt.Sprintf("%.3g %%", 100*q.Value)
	case unitTimes:
		text = fmt.Sprintf("%.3g ×", q.Value)
	case unitInstructions:
		text = humanize.Commaf(float64(int64(q.Value + 0.5)))
	default:
		text = humanize.Commaf(q.Value) + " " + q.Unit
	}
	return strings.TrimSpace(q.Name + " " + text)
}

// Units of quantities.
const (
	unitNs           = "ns"
	unitBytes        = "B"
	unitInstructions = "instructions"
	unitShare        = "share"
	unitTimes        = "times"
)

// writeSummary writes the summary as a table, with the sources of what is quoted below it.
func (r *Report) writeSummary(w io.Writer) error {
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
	if err := render(w, t); err != nil {
		return err
	}
	for i, n := range notes {
		if _, err := fmt.Fprintf(w, "[%d] %s\n", i+1, n); err != nil {
			return err
		}
	}
	for i := range r.Refused {
		if _, err := fmt.Fprintln(w, &r.Refused[i]); err != nil {
			return err
		}
	}
	return nil
}

// like returns what of the row another's quantity compares with: what has its name, or else the row's own; 0 for none.
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

// cells are what the table has of a row. note returns a mark for a note below the table.
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
