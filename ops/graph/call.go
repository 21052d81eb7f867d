package graph

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Call is one call of a function, from its start to its end.
type Call struct {
	Name   string
	Start  int
	End    int // -1 if the function didn't end
	Parent int // index of the caller in the result of Calls, -1 for none
	Depth  int // number of callers
}

// Calls returns the calls of a graph in the order of their starts. An end belongs to the innermost
// open function of its name; functions inside this one didn't end. An end without a start is
// ignored.
func (g *Graph) Calls() []Call {
	var out []Call
	var open []int
	names := map[string]int{} // of open functions
	for i, n := range g.All() {
		switch n.Type {
		case FunctionStart:
			c := Call{Name: n.Name(), Start: i, End: -1, Parent: -1, Depth: len(open)}
			if len(open) > 0 {
				c.Parent = open[len(open)-1]
			}
			open = append(open, len(out))
			names[c.Name]++
			out = append(out, c)
		case FunctionEnd:
			if names[n.Name()] == 0 {
				continue
			}
			for closed := false; !closed; {
				c := &out[open[len(open)-1]]
				open = open[:len(open)-1]
				names[c.Name]--
				if closed = c.Name == n.Name(); closed {
					c.End = i
				}
			}
		}
	}
	return out
}

// Innermost returns the index of the innermost call around each node, or -1. A call without an end
// reaches to the end of the graph.
func (g *Graph) Innermost(calls []Call) []int {
	of := make([]int, len(g.Nodes))
	open, next := []int{-1}, 0
	for i := range g.Nodes {
		for len(open) > 1 && calls[open[len(open)-1]].End >= 0 && calls[open[len(open)-1]].End < i {
			open = open[:len(open)-1]
		}
		if next < len(calls) && calls[next].Start == i {
			open = append(open, next)
			next++
		}
		of[i] = open[len(open)-1]
	}
	return of
}

// PrintTree writes the tree of calls, one line each, with durations on the host and of programs on
// the device where they were measured.
func (r *Report) PrintTree(w io.Writer) error {
	g, times := r.Graph, r.DeviceTimes()
	for _, c := range g.Calls() {
		s := strings.Repeat("  ", min(c.Depth, 100)) + c.Name
		if c.End < 0 {
			s += " (didn't end)"
		} else if d := g.Nodes[c.End].Duration; d > 0 {
			s += " " + d.String()
		}
		if t := times[c.Start]; t.Programs > 0 {
			s += fmt.Sprintf(", device %v", t.Time)
			if t.Programs > 1 {
				s += fmt.Sprintf(" in %d programs", t.Programs)
			}
		}
		if _, err := fmt.Fprintln(w, s); err != nil {
			return err
		}
	}
	return nil
}

// CallTrace returns the names of all functions in the order of their starts.
func CallTrace(g *Graph) []string {
	var out []string
	for _, n := range g.All(FunctionStart) {
		out = append(out, n.Name())
	}
	return out
}

// Durations returns the duration of each function by name, of its last call.
func Durations(g *Graph) map[string]time.Duration {
	m := map[string]time.Duration{}
	for _, n := range g.All(FunctionEnd) {
		if n.Duration > 0 {
			m[n.Name()] = n.Duration
		}
	}
	return m
}

// ArgumentsOf are the arguments of a call.
type ArgumentsOf struct {
	Name      string
	Arguments []string
}

// Arguments returns the arguments of all calls that recorded some, in the order of the calls.
func Arguments(g *Graph) []ArgumentsOf {
	var out []ArgumentsOf
	for _, n := range g.All() {
		if len(n.Arguments) > 0 {
			out = append(out, ArgumentsOf{n.Name(), slices.Clone(n.Arguments)})
		}
	}
	return out
}
