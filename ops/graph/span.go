package graph

import (
	"fmt"
	"io"
	"strings"
)

// Call is a function of a graph: from its start to its end.
type Call struct {
	Name   string
	Start  int // counter of the function_start
	End    int // counter of the function_end, -1 if the function didn't end
	Parent int // index of the call that it was made in, -1 for none
	Depth  int // calls around it
}

// Calls returns the functions of a graph in the order of their starts. An end belongs to the innermost open function of its
// name; functions inside of that one didn't end. An end without a start counts for nothing.
func (g *Graph) Calls() []Call {
	var out []Call
	var open []int
	names := map[string]int{} // of open functions
	for i := range g.Nodes {
		n := &g.Nodes[i]
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

// PrintTree writes which function was called in which, one a line.
func (g *Graph) PrintTree(w io.Writer) error {
	for _, c := range g.Calls() {
		s := strings.Repeat("  ", min(c.Depth, 100)) + c.Name
		if c.End < 0 {
			s += " (didn't end)"
		} else if d := g.Nodes[c.End].Duration; d > 0 {
			s += " " + d.String()
		}
		if _, err := fmt.Fprintln(w, s); err != nil {
			return err
		}
	}
	return nil
}
