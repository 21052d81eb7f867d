package graph

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"
)

// Sizes in a picture, in SVG units.
const (
	svgRow    = 34 // from node to node
	svgBox    = 26 // height of a node
	svgWidth  = 340
	svgIndent = 18 // of a function in another
	svgDepth  = 40 // maximum levels of indentation
	svgText   = 44 // characters of a label
)

// SVG writes the graph as a picture: time runs down, a box is a node, a frame is a function, an
// arrow on the right is a connection.
func (g *Graph) SVG(w io.Writer) error {
	b := bufio.NewWriter(w)
	calls := g.Calls()
	depth := make([]int, len(g.Nodes)) // of functions around a node, itself included for starts and ends
	last, ends := g.lastOf(calls), g.endsAt(calls)
	deepest, open := 0, 0
	for i, n := range g.All() {
		if n.Type == FunctionStart {
			open++
		}
		depth[i] = min(open, svgDepth)
		deepest = max(deepest, depth[i])
		open -= ends[i]
	}
	left := func(d int) int { return 20 + d*svgIndent }
	right := left(deepest) + svgWidth
	wide, high := right+deepest*svgIndent+220, len(g.Nodes)*svgRow+40
	y := func(i int) int { return 20 + i*svgRow }
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\">\n", wide, high, wide, high)
	fmt.Fprintln(b, `<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>`)
	for i, c := range calls {
		d := min(c.Depth, svgDepth)
		top, bottom := y(c.Start)-5, y(last[i])+svgBox+5
		fmt.Fprintf(b, "<rect class=\"function\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#999\"><title>%s</title></rect>\n",
			left(d)+4, top, right-left(d)+(deepest-d)*svgIndent, bottom-top, clusterColor(c.Depth), xmlText(c.Name))
	}
	for i := range g.Nodes {
		for _, c := range g.Nodes[i].Connections {
			if g.At(c) == nil {
				continue
			}
			far := right + 30 + deepest*svgIndent + min(abs(c-i)*4, 170)
			fmt.Fprintf(b, "<path d=\"M%d,%d C%d,%d %d,%d %d,%d\" fill=\"none\" stroke=\"#555\" stroke-width=\"0.8\" marker-end=\"url(#arrow)\"/>\n",
				right, y(i)+svgBox/2+4, far, y(i)+svgBox/2, far, y(c)+svgBox/2, right, y(c)+svgBox/2-4)
		}
	}
	for i := range g.Nodes {
		x := left(depth[i]) + 10
		text := fmt.Sprintf("%d  %s", i, strings.Join(g.Nodes[i].label(), ": "))
		fmt.Fprintf(b, "<rect id=\"node_%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#DCDCDC\" stroke=\"#444\"><title>%s</title></rect><text x=\"%d\" y=\"%d\">%s</text>\n",
			i, x, y(i), right-x, svgBox, xmlText(text), x+6, y(i)+17, xmlText(cut(text)))
	}
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

func abs(n int) int { return max(n, -n) }

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
