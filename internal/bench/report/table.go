package report

import (
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// writeProbes writes what probes cost, which there aren't, and what they lost.
func writeProbes(w io.Writer, costs []probe.Cost, left []probe.LeftOut, lost probe.Lost) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	for _, c := range costs {
		if _, err := fmt.Fprintf(w, "probe of %s: %s for each %s\n", c.Probe, duration(c.Ns), c.Event); err != nil {
			return err
		}
	}
	for _, l := range left {
		if _, err := fmt.Fprintf(w, "left out: %s: %s\n", l.Probe, l.Why); err != nil {
			return err
		}
	}
	if lost.Any() {
		if _, err := fmt.Fprintf(w, "LOST: %+v: the figures are too small by that much\n", lost); err != nil {
			return err
		}
	}
	return nil
}

func newTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options.DrawBorder = false
	t.Style().Options.SeparateColumns = false
	t.Style().Format.Header = text.FormatDefault
	return t
}

// render writes a table: its own method for that drops errors.
func render(w io.Writer, t table.Writer) error {
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// right aligns the columns from first to last to the right.
func right(t table.Writer, first, last int) {
	var c []table.ColumnConfig
	for n := first; n <= last; n++ {
		c = append(c, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(c)
}

// count prints a large number in the unit that suits it, to three digits.
func count(n float64) string {
	for _, u := range []struct {
		n    float64
		unit string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if n >= u.n*0.9995 {
			return fmt.Sprintf("%.3g%s", n/u.n, u.unit)
		}
	}
	return fmt.Sprintf("%.3g", n)
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// duration prints nanoseconds in the unit that suits them, to three digits.
func duration(ns float64) string {
	for _, u := range []struct {
		ns   float64
		unit string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		// What would round up to a thousand of the smaller unit is one of this.
		if ns >= u.ns*0.9995 {
			return fmt.Sprintf("%.3g %s", ns/u.ns, u.unit)
		}
	}
	return fmt.Sprintf("%.3g ns", ns)
}
