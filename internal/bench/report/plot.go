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

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Plot writes an HTML page with SVG pictures: ratios to each baseline, beside those of peers, and
// the cumulative distribution of the samples of each baseline and figure.
func (r *Report) Plot(w io.Writer) error {
	page := struct {
		Title    string
		Sections []section
	}{Title: strings.Join([]string{r.Device, r.Host.CPU, fmt.Sprintf("%s/%s", r.Host.OS, r.Host.Arch)}, ", ")}
	ratios := section{Name: "Ratios", Wide: true}
	for _, to := range r.baselinesOfBars() {
		bars := r.bars(to)
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

// add draws a picture of a size in inches.
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
	ours   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	barOur = color.RGBA{R: 0x9e, G: 0xc9, B: 0xe8, A: 0xff} // light enough for a label on it
	theirs = color.RGBA{R: 0xd3, G: 0xd3, B: 0xd3, A: 0xff}
)

// plot draws the cumulative distribution over a logarithmic time axis.
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
	p.Y.Min, p.Y.Max = 0, 100
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.StepStyle, line.Color, line.Width = plotter.PostStep, ours, vg.Points(1.5)
	p.Add(plotter.NewGrid(), line)
	logTime(&p.X, points[0].X, points[len(points)-1].X)
	return p, nil
}

// logTime sets up a logarithmic time axis with some margin.
func logTime(a *plot.Axis, low, high float64) {
	a.Scale = plot.LogScale{}
	a.Min, a.Max = low*0.8, high*1.25
	a.Tick.Label.Font.Size = vg.Points(9)
	a.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		var out []plot.Tick
		few := high/low < 1000
		for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
			for k := 1.0; k < 10; k++ {
				v := decade * k
				if v < low || v > high {
					continue
				}
				t := plot.Tick{Value: v}
				if k == 1 || few && (k == 2 || k == 5) {
					t.Label = duration(v)
				}
				out = append(out, t)
			}
		}
		return out
	})
}

// bar is one ratio.
type bar struct {
	name  string
	value float64
	own   bool
}

// baselinesOfBars returns the baselines that have bars.
func (r *Report) baselinesOfBars() []string {
	var out []string
	for _, f := range r.Figures {
		for _, o := range f.Ratios {
			if !slices.Contains(out, o.To) && len(r.bars(o.To)) > 0 {
				out = append(out, o.To)
			}
		}
	}
	return out
}

// bars returns the figures' ratios to a baseline, each followed by those of peers, which appear
// once. Ratios to a baseline other than MemcpySame are left out where peers have none.
func (r *Report) bars(to string) []bar {
	var out []bar
	for _, f := range r.Figures {
		for _, o := range f.Ratios {
			var peers []bar
			others := false
			for _, p := range f.Peers {
				if p.To != to || p.Value <= 0 {
					continue
				}
				others = true
				if b := (bar{name: p.Who, value: p.Value}); !slices.Contains(out, b) && !slices.Contains(peers, b) {
					peers = append(peers, b)
				}
			}
			if o.To == to && o.Value > 0 && (to == MemcpySame || others) {
				out = append(append(out, bar{name: f.ID(), value: o.Value, own: true}), peers...)
			}
		}
	}
	return out
}

// plotBars draws labelled ratios on a logarithmic axis that begins below the smallest.
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
		poly.Color, poly.LineStyle.Width = theirs, 0
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
