package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

func clusterColor(depth int) string {
	return []string{"#e3f2fd", "#e8f5e9", "#fff8e1", "#fce4ec", "#ede7f6", "#e0f7fa"}[depth%6]
}

func (n *Node) label() []string {
	for _, k := range []string{ParamName, ParamTensorID, ParamShape, ParamErrorMessage} {
		if s := n.Params[k]; s != "" {
			return []string{string(n.Type), s}
		}
	}
	if s := n.Params[ParamSize]; s != "" {
		return []string{string(n.Type), s + " B " + n.Params[ParamType]}
	}
	return []string{string(n.Type)}
}

// Dot writes the graph in Graphviz's language: a box for each node, a frame around each function's
// nodes, an arrow for each connection.
func (g *Graph) Dot(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "digraph graph_trace {")
	fmt.Fprintln(b, "  rankdir=TB;\n  node [shape=box, style=filled, fillcolor=\"#DCDCDC\"];")
	calls, ends, depth := g.Calls(), make([]int, len(g.Nodes)), 0 // how many calls end with each node
	last := make([]int, len(calls))
	for i, c := range calls {
		last[i] = c.End
		if c.End < 0 {
			last[i] = len(g.Nodes) - 1
			if c.Parent >= 0 {
				last[i] = last[c.Parent]
			}
		}
		ends[last[i]]++
	}
	for i, n := range g.All() {
		if n.Type == FunctionStart {
			fmt.Fprintf(b, "  subgraph cluster_%d {\n  label=%s; style=filled; fillcolor=%q;\n", i, quote(n.Name()), clusterColor(depth))
			depth++
		}
		fmt.Fprintf(b, "  node_%d [label=%s];\n%s", i, quote(n.label()...), strings.Repeat("  }\n", ends[i]))
		depth -= ends[i]
	}
	for i := range g.Nodes {
		for _, c := range g.Nodes[i].Connections {
			if g.At(c) != nil {
				fmt.Fprintf(b, "  node_%d -> node_%d;\n", i, c)
			}
		}
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

func quote(lines ...string) string {
	r := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for i, s := range lines {
		lines[i] = r.Replace(drawn(s))
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}

// DotFlow writes the data flow in Graphviz's language: a box for each function up to maxLevel, at
// least 1, an ellipse for each tensor from outside, a frame around the callees of a function, and
// an arrow with the shape for each tensor that goes from one function to another.
func (g *Graph) DotFlow(w io.Writer, maxLevel int) error {
	if maxLevel < 1 {
		return fmt.Errorf("graph: data flow up to level %d: levels count from 1", maxLevel)
	}
	f := g.flow(maxLevel)
	calls := f.calls
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "digraph data_flow {\n  rankdir=TB;\n  node [shape=box, style=filled, fillcolor=\"#DCDCDC\"];")
	var open []int
	for i, c := range calls {
		for len(open) > 0 && open[len(open)-1] != c.Parent && c.Depth < maxLevel {
			fmt.Fprintln(b, "}")
			open = open[:len(open)-1]
		}
		switch {
		case c.Depth >= maxLevel:
		case f.inside[i] > 0:
			fmt.Fprintf(b, "subgraph cluster_%d { label=%s; style=filled; fillcolor=%q;\n", i, quote(c.Name), clusterColor(c.Depth))
			open = append(open, i)
		default:
			fmt.Fprintf(b, "  v%d [label=%s];\n", i, quote(c.Name))
		}
	}
	for range open {
		fmt.Fprintln(b, "}")
	}
	drawn := map[tensorKey]string{} // ellipses of tensors from outside
	for _, n := range f.functions {
		for k, t := range f.operands[n.call].In {
			key, shape := g.tensorKey(t), g.Nodes[t].Params[ParamShape]
			from := drawn[key]
			switch {
			case n.from[k] >= 0:
				from = fmt.Sprintf("v%d", f.functions[n.from[k]].call)
			case from == "":
				from = fmt.Sprintf("t%d", t)
				if key.id != "" {
					from = quote("tensor " + key.id)
				}
				drawn[key] = from
				fmt.Fprintf(b, "  %s [label=%s, shape=ellipse, fillcolor=white];\n", from, quote("tensor "+key.id, shape))
			}
			fmt.Fprintf(b, "  %s -> v%d [label=%s];\n", from, n.call, quote(joined(ParseShape(shape), "×")))
		}
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

// flow is the data flow between functions that have none inside, down to a level.
type flow struct {
	calls     []Call
	operands  []Operands // by call
	inside    []int      // functions down to the level in each call
	functions []flowFunction
}

type flowFunction struct {
	call int
	from []int // by tensor that it takes: the function that made it, -1 for none
}

func (g *Graph) flow(maxLevel int) *flow {
	f := &flow{calls: g.Calls()}
	f.operands, f.inside = g.Operands(f.calls), make([]int, len(f.calls))
	for _, c := range f.calls {
		if c.Parent >= 0 && c.Depth < maxLevel {
			f.inside[c.Parent]++
		}
	}
	makers := map[tensorKey]int{}
	for i, c := range f.calls {
		if c.Depth >= maxLevel || f.inside[i] > 0 {
			continue
		}
		n := flowFunction{call: i}
		for _, t := range f.operands[i].In {
			maker, ok := makers[g.tensorKey(t)]
			if !ok {
				maker = -1
			}
			n.from = append(n.from, maker)
		}
		for _, t := range f.operands[i].Out {
			makers[g.tensorKey(t)] = len(f.functions)
		}
		f.functions = append(f.functions, n)
	}
	return f
}
