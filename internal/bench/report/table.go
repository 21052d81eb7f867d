package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// writeProbes writes the costs of probes, those left out and the events lost.
func writeProbes(b *bytes.Buffer, costs []probe.Cost, left []probe.LeftOut, lost probe.Lost) {
	fmt.Fprintln(b)
	for _, c := range costs {
		fmt.Fprintf(b, "probe of %s: %s for each %s\n", c.Probe, duration(c.Ns), c.Event)
	}
	for _, l := range left {
		fmt.Fprintf(b, "left out: %s: %s\n", l.Probe, l.Why)
	}
	if lost.Any() {
		fmt.Fprintf(b, "LOST: %+v: the figures are too small by that much\n", lost)
	}
}

func newTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options.DrawBorder = false
	t.Style().Options.SeparateColumns = false
	t.Style().Format.Header = text.FormatDefault
	return t
}

func writeTo(w io.Writer, print func(b *bytes.Buffer)) error {
	var b bytes.Buffer
	print(&b)
	_, err := w.Write(b.Bytes())
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

// count formats a number with a metric prefix, to three digits.
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

// duration formats nanoseconds in a suitable unit, to three digits.
func duration(ns float64) string {
	for _, u := range []struct {
		ns   float64
		unit string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		// 999.5 of the smaller unit would round up to 1000.
		if ns >= u.ns*0.9995 {
			return fmt.Sprintf("%.3g %s", ns/u.ns, u.unit)
		}
	}
	return fmt.Sprintf("%.3g ns", ns)
}
