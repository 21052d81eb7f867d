package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/reprise-tt/reprise/kmd"
)

// Check is a check of what programs need, for scripts.
type Check struct {
	Name   string     `json:"name"`
	Device string     `json:"device,omitempty"`
	Status kmd.Status `json:"status"`
	Found  string     `json:"found"`
	Fix    string     `json:"fix"`
}

// checksError says that checks failed; their list has been printed.
type checksError struct{ failed int }

func (e *checksError) Error() string {
	return fmt.Sprintf("doctor: %s failed", Count(e.failed, "check"))
}

// PrintChecks prints checks as a table or as one JSON object. It returns an error if some failed.
func PrintChecks(out io.Writer, asJSON bool, checks []Check) error {
	failed := 0
	for _, c := range checks {
		if c.Status == kmd.StatusFailed {
			failed++
		}
	}
	var err error
	if asJSON {
		err = PrintJSON(out, struct {
			OK     bool    `json:"ok"` // no check failed
			Checks []Check `json:"checks"`
		}{failed == 0, append([]Check{}, checks...)})
	} else {
		err = printTable(out, checks)
	}
	if err == nil && failed > 0 {
		err = &checksError{failed}
	}
	return err
}

func printTable(out io.Writer, checks []Check) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	device := ""
	for _, c := range checks {
		if c.Device != device {
			device = c.Device
			if err := w.Flush(); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "\n%s\n", device); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Status, c.Name, c.Found)
		if c.Fix != "" {
			fmt.Fprintf(w, "\t\tfix: %s\n", c.Fix)
		}
	}
	return w.Flush()
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

// PrintJSON prints what a command found out as one JSON object.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Print prints what a command found out as one JSON object or as text.
func (s Streams) Print(asJSON bool, v any, text func(io.Writer) error) error {
	if asJSON {
		return PrintJSON(s.Out, v)
	}
	return text(s.Out)
}

// Count returns a number and a noun in the singular or plural.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Dash returns a dash for nothing.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Unit prints a value if it is known, or else a dash.
func Unit(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}
