package report

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/perf/benchmath"
)

// Verdict is how a figure has changed.
type Verdict string

// Verdicts.
const (
	Same   Verdict = "same"           // no difference beyond the noise
	Faster Verdict = "faster"         // takes less time
	Slower Verdict = "slower"         // takes more time
	Gone   Verdict = "gone"           // only the old report has it
	New    Verdict = "new"            // only the new report has it
	TooFew Verdict = "too few rounds" // to say anything: see EnoughRounds
)

// Change compares one figure of two reports.
type Change struct {
	ID       string  `json:"id"`
	Old      float64 `json:"old_ns_p50"`
	New      float64 `json:"new_ns_p50"`
	Relative float64 `json:"relative"` // New/Old, by the medians of the rounds; corrected for the machine if Scaled
	// Scaled says that the reports are of different machines, and that Relative compares ratios to
	// the baseline beside the figure instead of times.
	Scaled  bool    `json:"scaled"`
	P       float64 `json:"p"` // of the two-sided Mann-Whitney U test of the rounds' medians
	Verdict Verdict `json:"verdict"`
	// Allocs and Bytes are how much more an operation allocates and sends; they don't vary within a
	// report.
	Allocs float64 `json:"allocs_change"`
	Bytes  float64 `json:"bytes_change"`
}

// Differences below these aren't called one: chance or too small to matter.
const (
	significance = 0.01
	smallest     = 0.03
)

// Compare returns what has changed from an old report to a new one. Figures have the new report's
// order; those that are gone come last.
//
// A figure is faster or slower if three things hold: a test of its rounds gives p below 1 %, the
// medians differ by 3 % at least, and the middle halves of its old and new rounds don't overlap,
// because other load on a machine changes more from run to run than within one. On the same machine
// this must hold for the times and for their ratios to a baseline, which is the one beside the
// figure or else [MemcpyHot], which follows the processor's clock. Between machines it must hold
// for the ratios to the baseline beside the figure. Figures of too few rounds are [TooFew].
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

// sameMachine reports whether two machines are the same by their descriptions; kernel and Go may
// differ.
func (h Host) sameMachine(o Host) bool {
	return h.CPU == o.CPU && h.CPUs == o.CPUs && h.OS == o.OS && h.Arch == o.Arch
}

// against compares a figure. processor is by how much slower the machine's processor has become.
func (c *Change) against(old, cur *Figure, sameMachine bool, processor float64) {
	c.Old = old.P50
	base, has := baseChange(old, cur)
	c.Scaled = has && !sameMachine
	if c.Scaled {
		c.Relative, c.P, c.Verdict = weigh(old.Rounds, cur.Rounds, base)
	} else {
		c.Relative, c.P, c.Verdict = weigh(old.Rounds, cur.Rounds, 1)
	}
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

// EnoughRounds reports whether figures with so many rounds can be compared: there are at least four
// of each, and the test gives p below 0.5 % for rounds that don't overlap at all. That is half of
// the limit, so that rounds that overlap a little can stay below it too.
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

// FewestRounds is the smallest number of rounds that is enough if both reports have it.
func FewestRounds() int {
	n := 1
	for !EnoughRounds(n, n) {
		n++
	}
	return n
}

// weigh compares the rounds of two figures, after those of the second are divided by how much
// slower the machine was.
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

// baseChange returns by how much the first baseline that both figures have has changed, if there is
// one.
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

// chance returns the probability that two samples as far apart come from one distribution. It is 1
// for samples that are empty or all alike.
func chance(a, b []float64) float64 {
	test := func(v []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(v), &benchmath.Thresholds{CompareAlpha: significance})
	}
	return benchmath.AssumeNothing.Compare(test(a), test(b)).P
}

// WriteComparison writes changes as a table.
func WriteComparison(w io.Writer, changes []Change) error {
	t := newTable()
	t.AppendHeader(table.Row{"figure", "old", "new", "change", "p", "verdict"})
	for _, c := range changes {
		row := table.Row{c.ID, "-", "-", "-", "-", string(c.Verdict)}
		if c.Verdict != New {
			row[1] = duration(c.Old)
		}
		if c.Verdict != Gone {
			row[2] = duration(c.New)
		}
		if c.Verdict != New && c.Verdict != Gone {
			row[3], row[4] = fmt.Sprintf("%+.1f %%", (c.Relative-1)*100), fmt.Sprintf("%.2g", c.P)
			if c.Scaled {
				row[5] = row[5].(string) + ", against the baseline"
			}
			if c.Allocs != 0 {
				row[5] = fmt.Sprintf("%s, %+g allocations", row[5], c.Allocs)
			}
			if c.Bytes != 0 {
				row[5] = fmt.Sprintf("%s, %+g B", row[5], c.Bytes)
			}
		}
		t.AppendRow(row)
	}
	right(t, 2, 5)
	_, err := fmt.Fprintln(w, t.Render())
	return err
}
