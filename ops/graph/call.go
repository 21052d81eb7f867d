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
	Last   int // the last node of the call: its end, if it has one
	Parent int // index of the caller in the result of Calls, -1 for none
	Depth  int // number of callers
}

// Calls returns the calls of a graph in the order of their starts. An end belongs to the innermost
// open function of its name; functions inside this one didn't end. An end without a start is
// ignored.
//
// A function of TT-NN's Python layer closes the innermost open function, even if that is one that
// failed inside. So a failure leaves the outermost function open, which then ends before the next
// one of that layer, as TT-NN 0.80 and later end it.
func (g *Graph) Calls() []Call {
	naive := g.calls(nil)
	if !slices.ContainsFunc(naive, func(c Call) bool { return c.End < 0 }) {
		return naive
	}
	return g.calls(naive)
}

// calls pairs starts and ends; naive are the same calls if nothing but their ends ended them.
func (g *Graph) calls(naive []Call) []Call {
	var out []Call
	var open []int
	names := map[string]int{} // of open functions
	closeTo := func(depth, last int) {
		for _, k := range open[depth:] {
			out[k].Last = last
			names[out[k].Name]--
		}
		open = open[:depth]
	}
	for i, n := range g.All() {
		switch n.Type {
		case FunctionStart:
			if naive != nil && inPython(n) {
				for depth, k := range open {
					// One that has called nothing can be what calls this function.
					if naive[k].End < 0 && (k < len(out)-1 || !inPython(&g.Nodes[naive[k].Start])) {
						closeTo(depth, i-1)
						break
					}
				}
			}
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
			depth := len(open) - 1
			for out[open[depth]].Name != n.Name() {
				depth--
			}
			c := &out[open[depth]]
			closeTo(depth+1, i-1)
			closeTo(depth, i)
			c.End = i
		}
	}
	closeTo(0, len(g.Nodes)-1)
	return out
}

// inPython reports whether a function is of TT-NN's Python layer, as ttnn.add; ttnn::add isn't.
func inPython(n *Node) bool { return strings.HasPrefix(n.Name(), "ttnn.") }

// Innermost returns the index of the innermost call around each node, or -1.
func (g *Graph) Innermost(calls []Call) []int {
	of := make([]int, len(g.Nodes))
	open, next := []int{-1}, 0
	for i := range g.Nodes {
		for len(open) > 1 && calls[open[len(open)-1]].Last < i {
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
		} else if g.Nodes[c.End].Params.Bool(ParamAborted) {
			s += " (failed)"
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
