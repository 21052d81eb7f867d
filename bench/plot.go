package bench

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Plot draws the report into a directory, which is created if it doesn't exist: for each figure how its samples are spread, as
// the fraction of samples that took at most so long, and one chart of ratios to baselines, ours beside those of others.
// Each is a PNG and an SVG file, named after the figure.
func (r *Report) Plot(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("bench: plot: %w", err)
	}
	for _, f := range append(append([]*Figure{}, r.Baselines...), r.Figures...) {
		p, err := f.plot()
		if err == nil {
			err = save(p, 7, 4, filepath.Join(dir, fileName(f.ID())))
		}
		if err != nil {
			return fmt.Errorf("bench: plot %s: %w", f.ID(), err)
		}
	}
	bars := r.bars()
	if len(bars) == 0 {
		return nil
	}
	p, err := plotBars(bars)
	if err == nil {
		err = save(p, 11, 1.5+0.3*float64(len(bars)), filepath.Join(dir, "ratios"))
	}
	if err != nil {
		return fmt.Errorf("bench: plot ratios: %w", err)
	}
	return nil
}

// fileName makes a file's name of a figure's.
func fileName(id string) string { return strings.NewReplacer("/", "_", " ", "_").Replace(id) }

// save writes both forms. Sizes are inches.
func save(p *plot.Plot, width, height float64, name string) error {
	var errs []error
	for _, ext := range []string{".png", ".svg"} {
		errs = append(errs, p.Save(vg.Length(width)*vg.Inch, vg.Length(height)*vg.Inch, name+ext))
	}
	return errors.Join(errs...)
}

var (
	ours   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	theirs = color.RGBA{R: 0xb0, G: 0xb0, B: 0xb0, A: 0xff}
)

// newPlot returns an empty plot with some room around it.
func newPlot() *plot.Plot {
	p := plot.New()
	p.Title.Padding = vg.Points(6)
	p.Title.TextStyle.Font.Size = vg.Points(11)
	return p
}

// plot draws the figure's cumulative distribution over a logarithmic axis of time.
func (f *Figure) plot() (*plot.Plot, error) {
	h, err := hdrhistogram.Decode([]byte(f.Histogram))
	if err != nil {
		return nil, fmt.Errorf("its histogram can't be read: %w", err)
	}
	var points plotter.XYs
	var n int64
	for _, b := range h.Distribution() {
		if b.Count == 0 {
			continue
		}
		ns := max(float64(b.To)/unitsPerNs, 1.0/unitsPerNs)
		if len(points) == 0 {
			points = append(points, plotter.XY{X: ns, Y: 0})
		}
		n += b.Count
		points = append(points, plotter.XY{X: ns, Y: 100 * float64(n) / float64(max(1, f.Samples))})
	}
	if len(points) == 0 {
		return nil, errors.New("there are no samples")
	}
	p := newPlot()
	p.Title.Text = fmt.Sprintf("%s, %d samples: median %s, p99 %s, max %s", f.ID(), f.Samples, duration(f.P50), duration(f.P99), duration(f.Max))
	p.X.Label.Text, p.Y.Label.Text = "time", "% of samples that take at most so long"
	p.Y.Min, p.Y.Max = 0, 100
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.StepStyle, line.Color, line.Width = plotter.PostStep, ours, vg.Points(1.5)
	grid := plotter.NewGrid()
	p.Add(grid, line)
	logTime(&p.X, points[0].X, points[len(points)-1].X)
	return p, nil
}

// logTime makes an axis one of times between two, with some room beside them.
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

// bars returns the ratios to baselines of figures that others have as well, with theirs.
func (r *Report) bars() []bar {
	var out []bar
	for _, f := range r.Figures {
		for _, o := range f.Ratios {
			var peers []bar
			for _, p := range f.Peers {
				if p.To == o.To && p.Value > 0 {
					peers = append(peers, bar{name: p.Who, value: p.Value})
				}
			}
			if o.Value > 0 && (o.To == MemcpySame || len(peers) > 0) {
				out = append(append(out, bar{name: f.ID() + " to " + o.To, value: o.Value, own: true}), peers...)
			}
		}
	}
	return out
}

// plotBars draws ratios from the top down, on a logarithmic axis that begins below the smallest.
func plotBars(bars []bar) (*plot.Plot, error) {
	p := newPlot()
	p.Title.Text = "times as ratios to a baseline measured beside them: ours blue, others' grey"
	p.X.Label.Text = "times the baseline"
	low, high := math.Inf(1), 0.0
	for _, b := range bars {
		low, high = min(low, b.value), max(high, b.value)
	}
	low = math.Pow(10, math.Floor(math.Log10(low*0.9)))
	names := make([]string, len(bars))
	for i, b := range bars {
		at := float64(len(bars) - 1 - i)
		names[len(bars)-1-i] = fmt.Sprintf("%s: %.3g", b.name, b.value)
		poly, err := plotter.NewPolygon(plotter.XYs{{X: low, Y: at - 0.35}, {X: b.value, Y: at - 0.35}, {X: b.value, Y: at + 0.35}, {X: low, Y: at + 0.35}})
		if err != nil {
			return nil, err
		}
		poly.Color, poly.LineStyle.Width = theirs, 0
		if b.own {
			poly.Color = ours
		}
		p.Add(poly)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(bars))-0.4
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.X.Min, p.X.Max = low, high*1.3
	return p, nil
}
