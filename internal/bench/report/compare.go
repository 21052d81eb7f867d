package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/perf/benchmath"
)

// Verdict says how a figure has changed.
type Verdict string

const (
	Same   Verdict = "same"           // no difference beyond the noise
	Faster Verdict = "faster"         // takes less time
	Slower Verdict = "slower"         // takes more time
	Gone   Verdict = "gone"           // only the old report has it
	New    Verdict = "new"            // only the new report has it
	TooFew Verdict = "too few rounds" // see EnoughRounds
)

// Change compares one figure of two reports.
type Change struct {
	ID       string  `json:"id"`
	Old      float64 `json:"old_ns_p50"`
	New      float64 `json:"new_ns_p50"`
	Relative float64 `json:"relative"` // New/Old, by the medians of the rounds; corrected for the machine if Scaled
	// Scaled says that the reports are of different machines: Relative compares ratios to the
	// figure's baseline.
	Scaled  bool    `json:"scaled"`
	P       float64 `json:"p"` // of the two-sided Mann-Whitney U test of the rounds' medians
	Verdict Verdict `json:"verdict"`
	Allocs  float64 `json:"allocs_change"` // per operation
	Bytes   float64 `json:"bytes_change"`  // per operation
}

// Thresholds of a significant difference.
const (
	significance = 0.01
	smallest     = 0.03
)

// Compare returns the changes from an old report to a new one, in the new report's order; figures
// that are gone come last.
//
// A figure is faster or slower if a test of its rounds gives p below 1 %, the medians differ by at
// least 3 %, and the middle halves of old and new rounds don't overlap, since other load varies
// more between runs than within one. On one machine this must hold for times and for ratios to a
// baseline: the figure's own, or else [MemcpyHot], which follows the processor's clock. Between
// machines it must hold for ratios to the figure's baseline.
func Compare(old, cur *Report) []Change {
	sameMachine := old.Host.sameMachine(cur.Host)
	processor := 1.0
	if o, ok := old.Baseline(MemcpyHot); ok && o.P50 > 0 {
		if n, ok := cur.Baseline(MemcpyHot); ok && n.P50 > 0 {
			processor = n.P50 / o.P50
		}
	}
	var out []Change
	for _, f := range cur.Figures {
		c := Change{ID: f.ID(), New: f.P50, Verdict: New}
		if o, ok := old.Figure(c.ID); ok {
			c.against(o, f, sameMachine, processor)
		}
		out = append(out, c)
	}
	for _, o := range old.Figures {
		if _, ok := cur.Figure(o.ID()); !ok {
			out = append(out, Change{ID: o.ID(), Old: o.P50, Verdict: Gone})
		}
	}
	return out
}

// sameMachine compares machines; kernel and Go may differ.
func (h Host) sameMachine(o Host) bool {
	return h.CPU == o.CPU && h.CPUs == o.CPUs && h.OS == o.OS && h.Arch == o.Arch
}

// against compares a figure. processor is the slow-down of the processor.
func (c *Change) against(old, cur *Figure, sameMachine bool, processor float64) {
	c.Old = old.P50
	base, has := baseChange(old, cur)
	machine := 1.0
	if c.Scaled = has && !sameMachine; c.Scaled {
		machine = base
	}
	c.Relative, c.P, c.Verdict = weigh(old.Rounds, cur.Rounds, machine)
	if !has {
		base = processor
	}
	if sameMachine {
		_, p, v := weigh(old.Rounds, cur.Rounds, base)
		if c.P = max(c.P, p); v != c.Verdict {
			c.Verdict = Same
		}
	}
	if !EnoughRounds(len(old.Rounds), len(cur.Rounds)) {
		c.Verdict = TooFew
	}
	c.Allocs, c.Bytes = difference(old.Allocs, cur.Allocs), difference(old.Bytes, cur.Bytes)
}

// EnoughRounds reports whether so many rounds can be compared: at least four each, and rounds
// without any overlap give half the limit of p, which leaves room for a little overlap.
func EnoughRounds(old, cur int) bool {
	if old < 4 || cur < 4 {
		return false
	}
	a, b := make([]float64, old), make([]float64, cur)
	for i := range a {
		a[i] = float64(i)
	}
	for i := range b {
		b[i] = float64(old + i)
	}
	return chance(a, b) < significance/2
}

// FewestRounds returns the smallest number of rounds that is enough for both reports.
func FewestRounds() int {
	n := 1
	for !EnoughRounds(n, n) {
		n++
	}
	return n
}

// weigh compares the rounds of two figures, the second divided by the machine's slow-down.
func weigh(old, cur []float64, machine float64) (relative, p float64, v Verdict) {
	a, b := slices.Clone(old), slices.Clone(cur)
	for i := range b {
		b[i] /= machine
	}
	p = chance(a, b)
	if m := Median(a); m > 0 {
		relative = Median(b) / m
	}
	slices.Sort(b)
	lower, upper := func(v []float64) float64 { return v[len(v)/4] }, func(v []float64) float64 { return v[len(v)-1-len(v)/4] }
	switch {
	case p >= significance || math.Abs(relative-1) < smallest:
		return relative, p, Same
	case relative < 1 && upper(b) < lower(a):
		return relative, p, Faster
	case relative > 1 && lower(b) > upper(a):
		return relative, p, Slower
	}
	return relative, p, Same
}

func difference(old, cur *float64) float64 {
	if old == nil || cur == nil {
		return 0
	}
	return *cur - *old
}

// baseChange returns the relative change of the first baseline that both figures have.
func baseChange(old, cur *Figure) (float64, bool) {
	for _, r := range cur.Ratios {
		for _, o := range old.Ratios {
			if o.To == r.To && o.Ns > 0 && r.Ns > 0 {
				return r.Ns / o.Ns, true
			}
		}
	}
	return 1, false
}

// chance returns the p-value of the hypothesis that two samples have one distribution; 1 for empty
// or equal samples.
func chance(a, b []float64) float64 {
	test := func(v []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(v), &benchmath.Thresholds{CompareAlpha: significance})
	}
	return benchmath.AssumeNothing.Compare(test(a), test(b)).P
}

// WriteComparison writes changes as a table.
func WriteComparison(w io.Writer, changes []Change) error {
	var rows []table.Row
	for _, c := range changes {
		row, verdict := table.Row{c.ID, "-", "-", "-", "-"}, string(c.Verdict)
		if c.Verdict != New {
			row[1] = duration(c.Old)
		}
		if c.Verdict != Gone {
			row[2] = duration(c.New)
		}
		if c.Verdict != New && c.Verdict != Gone {
			row[3], row[4] = fmt.Sprintf("%+.1f %%", (c.Relative-1)*100), fmt.Sprintf("%.2g", c.P)
			if c.Scaled {
				verdict += ", against the baseline"
			}
			if c.Allocs != 0 {
				verdict += fmt.Sprintf(", %+g allocations", c.Allocs)
			}
			if c.Bytes != 0 {
				verdict += fmt.Sprintf(", %+g B", c.Bytes)
			}
		}
		rows = append(rows, append(row, verdict))
	}
	return writeTo(w, func(b *bytes.Buffer) {
		grid(b, 2, 5, table.Row{"figure", "old", "new", "change", "p", "verdict"}, rows)
	})
}
