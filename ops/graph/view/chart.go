package view

import (
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// line is a curve of a chart.
type line struct {
	Name, Color, Points string
}

// chart is the picture of the memory in use after each event.
type chart struct {
	Width, Height float64
	Most          int64
	Lines         []line
}

func newChart(g *graph.Graph) chart {
	c := chart{Width: width, Height: 200}
	sum := [3][]int64{} // L1 buffers, circular buffers, DRAM
	rows, dram := graph.Table(g), dramUse(g)
	at := 0
	for i := range g.Nodes {
		for at+1 < len(rows) && rows[at+1].Node <= i {
			at++
		}
		var now [3]int64
		if at < len(rows) && rows[at].Node <= i {
			now[0], now[1] = rows[at].Buffers, rows[at].Circular
		}
		now[2] = dram[i]
		for k, v := range now {
			sum[k] = append(sum[k], v)
			c.Most = max(c.Most, v)
		}
	}
	for k, name := range []string{"buffers in L1", "circular buffers of a core", "buffers in DRAM"} {
		c.draw(name, []string{l1Color, circularColor, "#4d7c0f"}[k], sum[k])
	}
	return c
}

// Colors of lines, and of circular buffers' rectangles.
const l1Color, circularColor, circularFill = "#1668b4", "#c2570c", "#f3b57a"

// newCoreChart charts the L1 in use on one core after each event, as far as the report has it.
func newCoreChart(r *graph.Report, on *core) chart {
	c := chart{Width: width, Height: 200}
	sum := [2][]int64{make([]int64, len(r.Graph.Nodes)+1), make([]int64, len(r.Graph.Nodes)+1)} // buffers, circular buffers
	for _, s := range spansOf(r, graph.L1, on) {
		k := 0
		if s.circular {
			k = 1
		}
		sum[k][s.from] += int64(s.size)
		sum[k][s.to] -= int64(s.size)
	}
	for k := range sum {
		now := int64(0)
		for i, change := range sum[k] {
			now += change
			sum[k][i] = now
			c.Most = max(c.Most, now)
		}
		sum[k] = sum[k][:len(r.Graph.Nodes)] // without the sum after the end, which is 0
	}
	where := fmt.Sprintf(" on core %d,%d", on.x, on.y)
	c.draw("buffers in L1"+where, l1Color, sum[0])
	c.draw("circular buffers"+where, circularColor, sum[1])
	return c
}

// draw adds a line with a value after each event.
func (c *chart) draw(name, color string, values []int64) {
	var b strings.Builder
	last := int64(-1)
	for i, v := range values {
		if v == last && i != len(values)-1 {
			continue
		}
		x := float64(i) / float64(len(values)) * width
		if last >= 0 { // in steps
			fmt.Fprintf(&b, "%.1f,%.1f ", x, c.y(last))
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", x, c.y(v))
		last = v
	}
	c.Lines = append(c.Lines, line{Name: name, Color: color, Points: b.String()})
}

func (c *chart) y(v int64) float64 {
	return c.Height - 5 - float64(v)/float64(max(c.Most, 1))*(c.Height-10)
}

// dramUse returns the DRAM that is allocated after each node, in bytes.
func dramUse(g *graph.Graph) []int64 {
	out := make([]int64, len(g.Nodes))
	live := map[int]int64{} // sizes by node of the buffer
	total := int64(0)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Type == graph.BufferAllocate || n.Type == graph.BufferDeallocate {
			b := bufferNode(g, n)
			total -= live[b]
			delete(live, b)
			if n.Type == graph.BufferAllocate && n.Params[graph.ParamType] == "DRAM" {
				live[b] = n.Params.Size(graph.ParamSize)
				total += live[b]
			}
		}
		out[i] = total
	}
	return out
}
