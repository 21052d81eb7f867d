package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/reprise-tt/reprise/kmd"
)

// AsJSON is the flag of commands whose output has a form for scripts.
type AsJSON struct {
	JSON bool `help:"Print one JSON object instead of text." name:"json"`
}

// Text is the output of a command for people. Print reports the first error of writing.
type Text struct{ *bufio.Writer }

// F writes a formatted text.
func (t Text) F(format string, args ...any) { fmt.Fprintf(t, format, args...) }

// Table is text in columns, which Flush writes.
type Table struct{ *tabwriter.Writer }

// Table begins a table; flags are those of package tabwriter.
func (t Text) Table(flags uint) Table { return Table{tabwriter.NewWriter(t, 0, 0, 2, ' ', flags)} }

// Row writes a row.
func (t Table) Row(cells ...any) {
	tab := ""
	for _, c := range cells {
		fmt.Fprint(t, tab, c)
		tab = "\t"
	}
	fmt.Fprintln(t)
}

// Print writes text.
func Print(w io.Writer, text func(Text)) error {
	t := Text{bufio.NewWriter(w)}
	text(t)
	return t.Flush()
}

// PrintJSON prints one JSON object.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Print prints the output of a command as one JSON object or as text.
func (s Streams) Print(asJSON bool, v any, text func(Text)) error {
	if asJSON {
		return PrintJSON(s.Out, v)
	}
	return Print(s.Out, text)
}

// Check is a check of what programs need, for scripts.
type Check struct {
	Name   string     `json:"name"`
	Device string     `json:"device,omitempty"`
	Status kmd.Status `json:"status"`
	Found  string     `json:"found"`
	Fix    string     `json:"fix"`
}

// PrintChecks prints checks as a table or as one JSON object. It returns an error if some failed.
func (s Streams) PrintChecks(asJSON bool, checks []Check) error {
	failed := 0
	for _, c := range checks {
		if c.Status == kmd.StatusFailed {
			failed++
		}
	}
	err := s.Print(asJSON, struct {
		OK     bool    `json:"ok"`
		Checks []Check `json:"checks"`
	}{failed == 0, append([]Check{}, checks...)}, func(t Text) {
		table, device := t.Table(0), ""
		for _, c := range checks {
			if c.Device != device {
				device = c.Device
				table.Flush()
				t.F("\n%s\n", device)
			}
			table.Row(c.Status, c.Name, c.Found)
			if c.Fix != "" {
				table.Row("", "", "fix: "+c.Fix)
			}
		}
		table.Flush()
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("doctor: %s failed", Count(failed, "check"))
	}
	return err
}

// BankRange is a part of a bank of DRAM.
type BankRange struct {
	Bank  int    `json:"bank"`
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}

// Grid is the size of a grid of cores.
type Grid struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

// Median returns the median in nanoseconds.
func Median(t []time.Duration) int64 {
	s := slices.Sorted(slices.Values(t))
	return s[len(s)/2].Nanoseconds()
}

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Nanoseconds prints a time in microseconds.
func Nanoseconds(ns int64) string {
	if ns < 10_000 {
		return fmt.Sprintf("%.2f µs", float64(ns)/1e3)
	}
	return fmt.Sprintf("%.1f µs", float64(ns)/1e3)
}

// Bytes prints a number of bytes with commas.
func Bytes[T ~int | ~int64 | ~uint32 | ~uint64](n T) string { return humanize.Comma(int64(n)) + " B" }

// Count returns a number and a noun in the singular or plural.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Dash returns a dash for an empty text.
func Dash(s string) string { return cmp.Or(s, "-") }

// Unit prints a value if it is known, or else a dash.
func Unit(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}
