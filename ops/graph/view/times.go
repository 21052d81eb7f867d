package view

import (
	"time"

	"github.com/reprise-tt/reprise/ops/graph"
)

// times are the starts and durations of calls, as far as known.
type times struct {
	start, took []time.Duration
	total       time.Duration
}

// newTimes lays calls out by duration: calls inside another one follow each other from its start. A
// call that didn't end took as long as the calls inside.
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
