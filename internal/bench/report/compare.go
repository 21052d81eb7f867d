package report

import (
	"fmt"
	"io"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/reprise-tt/reprise/internal/tables"
)

// Verdict says how a figure has changed.
type Verdict string

// Verdicts.
const (
	Same   Verdict = "same"
	Faster Verdict = "faster"
	Slower Verdict = "slower"
	Gone   Verdict = "gone"
	New    Verdict = "new"
	TooFew Verdict = "too few rounds"
)

// Change compares one figure of two reports.
type Change struct {
	ID  string  `json:"id"`
	Old float64 `json:"old_ns_p50"`
	New float64 `json:"new_ns_p50"`
	// Relative is New/Old by the medians of the rounds: of times on one machine, otherwise of times
	// in units of the baseline, whose name is Basis.
	Relative float64 `json:"relative"`
	Basis    string  `json:"basis"`
	Scaled   bool    `json:"scaled"` // Basis is a baseline
	P        float64 `json:"p"`      // of the two-sided Mann-Whitney U test of the rounds' medians
	Verdict  Verdict `json:"verdict"`
	Alike    bool    `json:"baseline_alike,omitempty"` // the baseline has changed as well
	Allocs   float64 `json:"allocs_change"`
	Bytes    float64 `json:"bytes_change"`
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
// least 3 %, and the middle halves of old and new rounds don't overlap, since load varies more
// between runs than within one.
//
// On one machine, times are compared; one that changed like its baseline is the same. Between
// machines, times relative to a baseline are compared. The baseline is the figure's own, or else
// [MemcpyHot], which follows the processor's clock.
func Compare(old, cur *Report) []Change {
	o, n := old.Host, cur.Host
	here := o.CPU == n.CPU && o.CPUs == n.CPUs && o.OS == n.OS && o.Arch == n.Arch
	hot := Ratio{To: basisTime, Value: 1}
	if o, ok := old.Baseline(MemcpyHot); ok && o.P50 > 0 {
		if n, ok := cur.Baseline(MemcpyHot); ok && n.P50 > 0 {
			hot = Ratio{To: MemcpyHot, Value: n.P50 / o.P50}
		}
	}
	var out []Change
	for _, f := range cur.Figures {
		c := Change{ID: f.ID(), New: f.P50, Verdict: New}
		if o, ok := old.Figure(c.ID); ok {
			c.against(o, f, here, hot)
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

const basisTime = "time"

func (c *Change) against(old, cur *Figure, here bool, base Ratio) {
	c.Old, c.New = Median(slices.Clone(old.Rounds)), Median(slices.Clone(cur.Rounds))
	if own, ok := baseChange(old, cur); ok {
		base = own
	}
	c.Basis = base.To
	c.Relative, c.P, c.Verdict = weigh(old.Rounds, cur.Rounds, base.Value)
	if v := c.Verdict; here {
		c.Basis = basisTime
		c.Relative, c.P, c.Verdict = weigh(old.Rounds, cur.Rounds, 1)
		if c.Alike = c.Verdict != Same && v != c.Verdict; c.Alike {
			c.Verdict = Same
		}
	}
	c.Scaled = c.Basis != basisTime
	if !EnoughRounds(len(old.Rounds), len(cur.Rounds)) {
		c.Verdict = TooFew
	}
	c.Allocs, c.Bytes = difference(old.Allocs, cur.Allocs), difference(old.Bytes, cur.Bytes)
}

// EnoughRounds: at least four each, and rounds without any overlap give half the limit of p, which
// leaves room for a little overlap.
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
func baseChange(old, cur *Figure) (Ratio, bool) {
	for _, r := range cur.Ratios {
		for _, o := range old.Ratios {
			if o.To == r.To && o.Ns > 0 && r.Ns > 0 {
				return Ratio{To: r.To, Value: r.Ns / o.Ns}, true
			}
		}
	}
	return Ratio{}, false
}

func chance(a, b []float64) float64 {
	test := func(v []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(v), &benchmath.Thresholds{CompareAlpha: significance})
	}
	return benchmath.AssumeNothing.Compare(test(a), test(b)).P
}

// WriteComparison writes changes as a table below a verdict.
func WriteComparison(w io.Writer, changes []Change) error {
	return tables.Print(w, func(b text) {
		n := map[Verdict]int{}
		var all []float64
		for _, c := range changes {
			if n[c.Verdict]++; c.Relative > 0 {
				all = append(all, c.Relative)
			}
		}
		if len(all) > 0 {
			verdict := Same
			for _, v := range []Verdict{Faster, Slower, TooFew} {
				if n[v] > 0 {
					verdict = v
				}
			}
			basis := "times, on one machine"
			if slices.ContainsFunc(changes, func(c Change) bool { return c.Scaled }) {
				basis = "times relative to baselines, on two machines"
			}
			b.F("verdict: %s: %d of %d figures slower, %d faster; geometric mean %+.1f %%; basis: %s\n\n", verdict, n[Slower],
				len(changes), n[Faster], (GeometricMean(all)-1)*100, basis)
		}
		t := b.Table("figure", "old", "new", "change", "p", "verdict")
		for _, c := range changes {
			row, verdict := []any{c.ID, "-", "-", "-", "-"}, string(c.Verdict)
			if c.Verdict != New {
				row[1] = duration(c.Old)
			}
			if c.Verdict != Gone {
				row[2] = duration(c.New)
			}
			if c.Verdict != New && c.Verdict != Gone {
				row[3], row[4] = fmt.Sprintf("%+.1f %%", (c.Relative-1)*100), fmt.Sprintf("%.2g", c.P)
				if c.Scaled {
					verdict += ", by " + c.Basis
				}
				if c.Alike {
					verdict += ", like the baseline"
				}
				if c.Allocs != 0 {
					verdict += fmt.Sprintf(", %+g allocations", c.Allocs)
				}
				if c.Bytes != 0 {
					verdict += fmt.Sprintf(", %+g B", c.Bytes)
				}
			}
			t.Row(append(row, verdict)...)
		}
		t.Flush()
	})
}
