package view

import (
	"time"

	"github.com/reprise-tt/reprise/ops/graph"
)

// timeline is the picture of operations over time. Functions are below their callers.
type timeline struct {
	Width, Height float64
	Rects         []rect
	Total         time.Duration
	More          int // functions that aren't drawn
}

// newTimeline lays functions out by duration. A report doesn't have their start times, so the functions inside of another one
// follow each other from its start on. A function that didn't end is as long as those that it called.
func newTimeline(g *graph.Graph) timeline {
	const row = 22
	calls := g.Calls()
	at := newTimes(g, calls)
	took, total := at.took, at.total
	t := timeline{Width: width, Height: row, Total: total}
	for i, c := range calls {
		if len(t.Rects) == maxRects {
			t.More++
			continue
		}
		r := rect{X: float64(at.start[i]) / float64(total) * width, Y: float64(c.Depth) * row, W: max(float64(took[i])/float64(total)*width, 0.5), H: row - 2, Color: colorOf(c.Name)}
		r.Title = c.Name
		if c.End < 0 {
			r.Title += "\nit didn't end"
			r.Color = "hsl(0,80%,60%)"
		} else {
			r.Title += "\n" + g.Nodes[c.End].Duration.String()
		}
		for _, a := range g.Nodes[c.Start].Arguments {
			r.Title += "\n" + truncate(a, 1000)
		}
		r.Text = truncate(c.Name, r.W)
		t.Rects = append(t.Rects, r)
		t.Height = max(t.Height, r.Y+row)
	}
	return t
}

// times are when calls ran, as far as their durations say.
type times struct {
	start, took []time.Duration
	total       time.Duration
}

// newTimes lays calls out by duration: those inside of another one follow each other from its start on. A call that didn't end
// took as long as those that it called.
func newTimes(g *graph.Graph, calls []graph.Call) times {
	t := times{start: make([]time.Duration, len(calls)), took: make([]time.Duration, len(calls))}
	within := make([]time.Duration, len(calls)) // sum of the calls inside
	for i := len(calls) - 1; i >= 0; i-- {
		if c := calls[i]; c.End >= 0 {
			t.took[i] = max(g.Nodes[c.End].Duration, 0)
		}
		t.took[i] = max(t.took[i], within[i], 1)
		if p := calls[i].Parent; p >= 0 {
			within[p] += t.took[i]
		} else {
			t.total += t.took[i]
		}
	}
	next := make([]time.Duration, len(calls)) // start of the next call inside
	var top time.Duration
	for i, c := range calls {
		at := &top
		if c.Parent >= 0 {
			at = &next[c.Parent]
		}
		t.start[i], next[i] = *at, *at
		*at += t.took[i]
	}
	return t
}
