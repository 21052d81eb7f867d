package graph

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Sizes in a picture, in SVG units.
const (
	svgWide   = 250 // a box
	svgHigh   = 38
	svgDown   = 60  // from box to box
	svgColumn = 340 // from column to column, with room for arrows
	svgText   = 38  // characters in a line of a box
)

// SVG writes the data flow as a picture. A box is a function, of the outermost level that has
// several. Time runs down, in columns from left to right. An arrow goes from the maker of a tensor
// to each function that takes it, and is pale to another column.
func (g *Graph) SVG(w io.Writer) error {
	f := g.flow(g.severalLevel())
	n := max(1, len(f.functions))
	high := max(8, int(math.Ceil(math.Sqrt(float64(n*svgColumn)/svgDown)))) // in a column: about square
	place := func(i int) (x, y int) { return 20 + i/high*svgColumn, 20 + i%high*svgDown }
	b := bufio.NewWriter(w)
	width, height := 20+(n+high-1)/high*svgColumn, 20+min(n, high)*svgDown
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\">\n",
		width, height, width, height)
	fmt.Fprintln(b, `<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>`)
	for i, n := range f.functions {
		for _, from := range n.makers() {
			x, y := place(from)
			toX, toY := place(i)
			right, middle, toMiddle := x+svgWide, y+svgHigh/2, toY+svgHigh/2
			path, color := "", "#555"
			switch {
			case i/high != from/high:
				color = "#ccc"
				path = fmt.Sprintf("M%d,%d C%d,%d %d,%d %d,%d", right, middle, x+svgColumn, middle, toX-svgColumn+svgWide, toMiddle,
					toX, toMiddle)
			case i == from+1:
				path = fmt.Sprintf("M%d,%d L%d,%d", x+svgWide/2, y+svgHigh, toX+svgWide/2, toY)
			default: // past the boxes in between
				far := right + min(12+8*(i-from), svgColumn-svgWide)
				path = fmt.Sprintf("M%d,%d C%d,%d %d,%d %d,%d", right, middle, far, middle, far, toMiddle, right, toMiddle)
			}
			fmt.Fprintf(b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" marker-end=\"url(#arrow)\"/>\n", path, color)
		}
	}
	for i, n := range f.functions {
		x, y := place(i)
		c := &f.calls[n.call]
		names, shapes := []string{c.Name}, g.shapesOf(f.operands[n.call].Out)
		for up := c.Parent; up >= 0; up = f.calls[up].Parent {
			names = append(names, f.calls[up].Name)
		}
		slices.Reverse(names)
		fmt.Fprintf(b, "<rect id=\"node_%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" stroke=\"#444\"><title>%s</title></rect>"+
			"<text x=\"%d\" y=\"%d\">%s</text><text x=\"%d\" y=\"%d\" fill=\"#555\">%s</text>\n",
			c.Start, x, y, svgWide, svgHigh, clusterColor(c.Depth),
			xmlText(strings.Join(names, " › ")+"\ntakes "+g.shapesOf(f.operands[n.call].In)+"\nreturns "+shapes),
			x+6, y+15, xmlText(cut(fmt.Sprintf("%d  %s", i, c.Name))), x+6, y+30, xmlText(cut(shapes)))
	}
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

func (g *Graph) shapesOf(tensors []int) string {
	var out []string
	for _, t := range tensors {
		out = append(out, joined(ParseShape(g.Nodes[t].Params[ParamShape]), "×"))
	}
	return strings.Join(out, ", ")
}

// severalLevel returns the outermost level with more than one function, as one function may be
// around all.
func (g *Graph) severalLevel() int {
	var n []int
	for _, c := range g.Calls() {
		for c.Depth >= len(n) {
			n = append(n, 0)
		}
		n[c.Depth]++
	}
	return max(0, slices.IndexFunc(n, func(n int) bool { return n > 1 })) + 1
}

// makers returns the functions that made what a function takes, each once.
func (n *flowFunction) makers() []int {
	from := slices.Compact(slices.Sorted(slices.Values(n.from)))
	if len(from) > 0 && from[0] < 0 {
		return from[1:]
	}
	return from
}

func cut(s string) string {
	if utf8.RuneCountInString(s) <= svgText {
		return s
	}
	return string([]rune(s)[:svgText-1]) + "…"
}

func xmlText(s string) string { return html.EscapeString(drawn(s)) }

// drawn removes characters that XML doesn't allow.
func drawn(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= ' ' && r != 0xFFFE && r != 0xFFFF || r == '\t' || r == '\n' {
			return r
		}
		return -1
	}, s)
}

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
