package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/term"
)

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
