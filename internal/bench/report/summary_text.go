package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// writeSummary writes the summary as a table, with the sources of what is quoted below it.
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
