package report

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/reprise-tt/reprise/internal/tables"
)

// Plot writes an HTML page with the ratios to baselines and the distribution of each figure.
func (r *Report) Plot(w io.Writer) error {
	page := struct {
		Title    string
		Sections []section
	}{Title: strings.Join([]string{r.Device, r.Host.CPU, fmt.Sprintf("%s/%s", r.Host.OS, r.Host.Arch)}, ", ")}
	ratios := section{Name: "Ratios", Wide: true}
	order, all := r.bars()
	for _, to := range order {
		bars := all[to]
		p, err := plotBars(bars)
		if err == nil {
			err = ratios.add("Times "+to+", measured beside them: ours blue, others' grey", p, 9.5, 0.9+0.3*float64(len(bars)))
		}
		if err != nil {
			return fmt.Errorf("bench: plot ratios to %s: %w", to, err)
		}
	}
	if len(ratios.Pictures) > 0 {
		page.Sections = append(page.Sections, ratios)
	}
	family := ""
	for _, f := range slices.Concat(r.Baselines, r.Figures) {
		if f.Family != family || len(page.Sections) == 0 {
			family = f.Family
			page.Sections = append(page.Sections, section{Name: family})
		}
		p, err := f.plot()
		if err == nil {
			err = page.Sections[len(page.Sections)-1].add(fmt.Sprintf("%s: median %s, p99 %s, max %s; %d samples", f.ID(), duration(f.P50),
				duration(f.P99), duration(f.Max), f.Samples), p, 4.7, 2.6)
		}
		if err != nil {
			return fmt.Errorf("bench: plot %s: %w", f.ID(), err)
		}
	}
	if err := plotPage.Execute(w, page); err != nil {
		return fmt.Errorf("bench: plot: %w", err)
	}
	return nil
}

type section struct {
	Name     string
	Wide     bool
	Pictures []picture
}

type picture struct {
	Caption string
	SVG     template.HTML
}

func (s *section) add(caption string, p *plot.Plot, width, height float64) error {
	to, err := p.WriterTo(vg.Length(width)*vg.Inch, vg.Length(height)*vg.Inch, "svg")
	if err != nil {
		return err
	}
	var b strings.Builder
	if _, err := to.WriteTo(&b); err != nil {
		return err
	}
	_, svg, ok := strings.Cut(b.String(), "<svg ")
	if !ok {
		return errors.New("the picture is no SVG")
	}
	// The layout uses this font's widths; give systems without it fonts of the same widths.
	svg = strings.ReplaceAll(svg, "font-family:Liberation Serif", "font-family:'Liberation Serif','Times New Roman',Tinos,Times,serif")
	s.Pictures = append(s.Pictures, picture{caption, template.HTML("<svg " + svg)})
	return nil
}

//go:embed plot.html
var plotHTML string

var plotPage = template.Must(template.New("plot").Parse(plotHTML))

var (
	ours      = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	barOur    = color.RGBA{R: 0x9e, G: 0xc9, B: 0xe8, A: 0xff} // light enough for a label on it
	peerColor = color.RGBA{R: 0xd3, G: 0xd3, B: 0xd3, A: 0xff}
)

func (f *Figure) plot() (*plot.Plot, error) {
	bars, err := f.bars()
	if err != nil {
		return nil, err
	}
	if len(bars) == 0 {
		return nil, errors.New("there are no samples")
	}
	var points plotter.XYs
	var n int64
	for _, b := range bars {
		ns := max(float64(b.To)/UnitsPerNs, 1.0/UnitsPerNs)
		if n == 0 {
			points = append(points, plotter.XY{X: ns, Y: 0})
		}
		n += b.Count
		points = append(points, plotter.XY{X: ns, Y: 100 * float64(n) / float64(max(1, f.Samples))})
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "time", "% of samples"
	p.Y.Min, p.Y.Max = 0, 102 // so that the line at 100 has its whole width
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.StepStyle, line.Color, line.Width = plotter.PostStep, ours, vg.Points(1.5)
	p.Add(plotter.NewGrid(), line)
	logTime(&p.X, points[0].X, points[len(points)-1].X)
	return p, nil
}

func logTime(a *plot.Axis, low, high float64) {
	a.Scale = plot.LogScale{}
	a.Min, a.Max = low*0.8, high*1.25
	a.Tick.Label.Font.Size = vg.Points(9)
	a.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		var out []plot.Tick
		few := high/low < 1000
		inner := high * math.Pow(low/high, 0.06) // a label beyond would be cut off by the picture's edge
		for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
			for k := 1.0; k < 10; k++ {
				v := decade * k
				if v < low || v > high {
					continue
				}
				t := plot.Tick{Value: v}
				if v <= inner && (k == 1 || few && (k == 2 || k == 5)) {
					t.Label = duration(v)
				}
				out = append(out, t)
			}
		}
		return out
	})
}

type bar struct {
	name  string
	value float64
	own   bool
}

// bars returns baselines and the ratios to each, those of peers too. Ratios to another baseline
// than MemcpySame are left out where peers have none.
func (r *Report) bars() (order []string, all map[string][]bar) {
	all = map[string][]bar{}
	for _, f := range r.Figures {
		for _, o := range f.Ratios {
			peers := slices.DeleteFunc(slices.Clone(f.Peers), func(p Peer) bool { return p.To != o.To || p.Value <= 0 })
			if o.Value <= 0 || o.To != MemcpySame && len(peers) == 0 {
				continue
			}
			if all[o.To] == nil {
				order = append(order, o.To)
			}
			bars := append(all[o.To], bar{name: f.ID(), value: o.Value, own: true})
			for _, p := range peers {
				if b := (bar{name: p.Who, value: p.Value}); !slices.Contains(bars, b) {
					bars = append(bars, b)
				}
			}
			all[o.To] = bars
		}
	}
	return order, all
}

func plotBars(bars []bar) (*plot.Plot, error) {
	p := plot.New()
	low, high := math.Inf(1), 0.0
	for _, b := range bars {
		low, high = min(low, b.value), max(high, b.value)
	}
	low = math.Pow(10, math.Floor(math.Log10(low*0.9)))
	high = max(high*1.3, low*10)
	var names plotter.XYLabels
	for i, b := range bars {
		at := float64(len(bars) - 1 - i)
		names.XYs = append(names.XYs, plotter.XY{X: low, Y: at})
		names.Labels = append(names.Labels, fmt.Sprintf("%s: %.3g", b.name, b.value))
		poly, err := plotter.NewPolygon(plotter.XYs{{X: low, Y: at - 0.4}, {X: b.value, Y: at - 0.4}, {X: b.value, Y: at + 0.4},
			{X: low, Y: at + 0.4}})
		if err != nil {
			return nil, err
		}
		poly.Color, poly.LineStyle.Width = peerColor, 0
		if b.own {
			poly.Color = barOur
		}
		p.Add(poly)
	}
	labels, err := plotter.NewLabels(names)
	if err != nil {
		return nil, err
	}
	labels.Offset.X = vg.Points(4)
	for i := range labels.TextStyle {
		labels.TextStyle[i].YAlign = draw.YCenter
		labels.TextStyle[i].Font.Size = vg.Points(11)
	}
	p.Add(labels)
	p.HideY()
	p.Y.Min, p.Y.Max = -0.6, float64(len(bars))-0.4
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.X.Min, p.X.Max = low, high
	return p, nil
}

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
