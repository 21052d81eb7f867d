package view

import (
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// flow is the picture of the data flow between operations.
type flow struct {
	Width, Height float64
	Boxes         []rect
	Edges         []edge
	More          int
}

// edge is a curve from one box to another.
type edge struct{ Path string }

// merged merges the vertices of one tensor: newer reports have a node for each use.
func merged(vs []graph.Vertex) []graph.Vertex {
	first, place := map[string]int{}, make([]int, len(vs))
	var out []graph.Vertex
	for i, v := range vs {
		at, known := first[v.Name]
		if known = known && strings.HasPrefix(v.Name, "tensor["); !known {
			at = len(out)
			first[v.Name] = at
			v.In = nil
			out = append(out, v)
		}
		place[i] = at
	}
	for i, v := range vs {
		for _, from := range v.In {
			if from >= 0 && from < len(vs) && place[from] != place[i] {
				out[place[i]].In = append(out[place[i]].In, place[from])
			}
		}
	}
	return out
}

// newFlow places each vertex below the vertices that it takes inputs from.
func newFlow(vs []graph.Vertex) flow {
	const w, h, gapX, gapY, most = 170., 34., 14., 40., 2000
	f := flow{Width: w + gapX, Height: h + gapY}
	if len(vs) > most {
		f.More, vs = len(vs)-most, vs[:most]
	}
	vs = merged(vs)
	layer, count := make([]int, len(vs)), map[int]int{}
	for changed, round := true, 0; changed && round <= len(vs); round++ { // a damaged report may have cycles
		changed = false
		for i, v := range vs {
			for _, from := range v.In {
				if from >= 0 && from < len(vs) && from != i && layer[i] < layer[from]+1 && layer[from] < len(vs) {
					layer[i], changed = layer[from]+1, true
				}
			}
		}
	}
	for i, v := range vs {
		x, y := gapX/2+float64(count[layer[i]])*(w+gapX), gapY/2+float64(layer[i])*(h+gapY)
		count[layer[i]]++
		title := fmt.Sprintf("%s, level %d", v.Name, v.Level)
		for _, s := range append(append([]string{}, v.OutputShape...), v.Arguments...) {
			title += "\n" + truncate(s, 1000)
		}
		color := colorOf(v.Name)
		if strings.HasPrefix(v.Name, "tensor") {
			color = tensorFill
		}
		f.Boxes = append(f.Boxes, rect{X: x, Y: y, W: w, H: h, Color: color, Text: truncate(v.Name, w-8), Title: title})
		f.Width, f.Height = max(f.Width, x+w+gapX/2), max(f.Height, y+h+gapY/2)
	}
	for i, v := range vs {
		for _, from := range v.In {
			if from < 0 || from >= len(vs) {
				continue
			}
			a, b := f.Boxes[from], f.Boxes[i]
			x0, y0, x1, y1 := a.X+a.W/2, a.Y+a.H, b.X+b.W/2, b.Y
			f.Edges = append(f.Edges, edge{fmt.Sprintf("M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f", x0, y0, x0, y0+gapY/2, x1, y1-gapY/2, x1, y1)})
		}
	}
	return f
}

// tensorFill is the color of tensors.
const tensorFill = "#eeeeee"
