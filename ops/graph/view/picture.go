package view

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/ops/graph"
)

// width is that of all pictures, mostRects how much is drawn of something: browsers take long beyond.
const width, mostRects = 1200., 20000

// rect is a part of a picture, with what is said when it is pointed at.
type rect struct {
	X, Y, W, H float64
	Color      string
	Text       string // on it, if it fits
	Title      string
}

// colorOf gives the same name the same color.
func colorOf(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("hsl(%d,55%%,72%%)", h.Sum32()%360)
}

// fits cuts a text to what a rectangle has room for.
func fits(s string, w float64) string {
	n := int(w / 7)
	switch r := []rune(s); {
	case n < 3:
		return ""
	case len(r) > n:
		return string(r[:n-1]) + "…"
	}
	return s
}

// timeline shows operations over time: what was called inside of another one is below it.
type timeline struct {
	Width, Height float64
	Rects         []rect
	Total         time.Duration
	More          int // that aren't drawn
}

// newTimeline lays functions out by how long they took. A report doesn't say when they began, so those inside of another one
// follow each other from its start on; one that didn't end takes as long as what it called.
func newTimeline(g *graph.Graph) timeline {
	const row = 22
	calls := g.Calls()
	took := make([]time.Duration, len(calls))
	within := make([]time.Duration, len(calls)) // of those that it called
	var total time.Duration
	for i := len(calls) - 1; i >= 0; i-- {
		if c := calls[i]; c.End >= 0 {
			took[i] = max(g.Nodes[c.End].Duration, 0)
		}
		took[i] = max(took[i], within[i], 1)
		if p := calls[i].Parent; p >= 0 {
			within[p] += took[i]
		} else {
			total += took[i]
		}
	}
	t := timeline{Width: width, Height: row, Total: total}
	next := make([]time.Duration, len(calls)) // where the next one inside begins
	var top time.Duration
	for i, c := range calls {
		at := &top
		if c.Parent >= 0 {
			at = &next[c.Parent]
		}
		next[i] = *at
		*at += took[i]
		if len(t.Rects) == mostRects {
			t.More++
			continue
		}
		r := rect{X: float64(next[i]) / float64(total) * width, Y: float64(c.Depth) * row, W: max(float64(took[i])/float64(total)*width, 0.5), H: row - 2, Color: colorOf(c.Name)}
		r.Title = c.Name
		if c.End < 0 {
			r.Title += "\nit didn't end"
			r.Color = "hsl(0,80%,60%)"
		} else {
			r.Title += "\n" + g.Nodes[c.End].Duration.String()
		}
		for _, a := range g.Nodes[c.Start].Arguments {
			r.Title += "\n" + fits(a, 1000)
		}
		r.Text = fits(c.Name, r.W)
		t.Rects = append(t.Rects, r)
		t.Height = max(t.Height, r.Y+row)
	}
	return t
}

// line is a curve of a chart.
type line struct {
	Name, Color, Points string
}

// chart shows how much memory was in use behind each event.
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

// The colors of lines, and that of circular buffers' rectangles.
const l1Color, circularColor, circularFill = "#1668b4", "#c2570c", "#f3b57a"

// newCoreChart shows how much of a core's L1 was in use behind each event, as far as the report says.
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
		sum[k] = sum[k][:len(r.Graph.Nodes)] // behind the last event all is over
	}
	where := fmt.Sprintf(" on core %d,%d", on.x, on.y)
	c.draw("buffers in L1"+where, l1Color, sum[0])
	c.draw("circular buffers"+where, circularColor, sum[1])
	return c
}

// draw adds a line: a value behind each event.
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

// dramUse is how much DRAM was allocated behind each node.
func dramUse(g *graph.Graph) []int64 {
	out := make([]int64, len(g.Nodes))
	live := map[int]int64{} // by the buffer's node
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

// bufferNode is the counter of the buffer that an allocation or deallocation is about, or -1.
func bufferNode(g *graph.Graph, n *graph.Node) int {
	for _, c := range n.Connections {
		if c >= 0 && c < len(g.Nodes) && g.Nodes[c].Type == graph.BufferNode {
			return c
		}
	}
	return -1
}

// addresses shows which buffer lay where, from event to event.
type addresses struct {
	What          string
	Width, Height float64
	Low, High     uint64 // addresses of the lower and the upper edge
	Rects         []rect
	More          int
}

// span is a buffer while it lives.
type span struct {
	from, to  int // nodes
	low, size uint64
	title     string
	color     string
	circular  bool
}

// newAddresses draws the buffers of a kind of memory; of a core, only what lies on it, as far as the report says.
func newAddresses(r *graph.Report, t graph.BufferType, on *core) addresses {
	m := addresses{What: t.String(), Width: width, Height: 260}
	if on != nil {
		m.What += fmt.Sprintf(" of core %d,%d", on.x, on.y)
	}
	m.place(spansOf(r, t, on), len(r.Graph.Nodes))
	return m
}

// spansOf lists what was in a kind of memory, or on a core.
func spansOf(r *graph.Report, t graph.BufferType, on *core) []span {
	g := r.Graph
	var spans []span
	live, circular := map[int]int{}, []int{} // in spans
	pages := pagesOf(r, on)
	closeAt := func(k, i int) { spans[k].to = i }
	for i := range g.Nodes {
		n := &g.Nodes[i]
		switch n.Type {
		case graph.BufferAllocate:
			if (n.Params[graph.ParamType] == "DRAM") != (t == graph.DRAM) {
				continue
			}
			s, ok := bufferSpan(r, n, on, pages)
			if !ok {
				continue
			}
			if b := bufferNode(g, n); b >= 0 {
				live[b] = len(spans)
				s.title += tensorsOf(g, b)
			}
			s.from, s.to = i, len(g.Nodes)
			spans = append(spans, s)
		case graph.BufferDeallocate:
			if k, ok := live[bufferNode(g, n)]; ok {
				closeAt(k, i)
				delete(live, bufferNode(g, n))
			}
		case graph.CircularAllocate:
			if t == graph.DRAM || n.Params.Bool(graph.ParamGloballyAllocated) || on != nil && !covers(n.Params[graph.ParamCoreRangeSet], on) {
				continue
			}
			at, _ := n.Params.Int(graph.ParamAddress)
			size := n.Params.Size(graph.ParamSize)
			circular = append(circular, len(spans))
			spans = append(spans, span{from: i, to: len(g.Nodes), low: uint64(max(at, 0)), size: uint64(size), color: circularFill, circular: true,
				title: fmt.Sprintf("circular buffer\n%s at %#x\non %s", humanize.IBytes(uint64(size)), max(at, 0), n.Params[graph.ParamCoreRangeSet])})
		case graph.CircularDeallocate:
			for _, k := range circular {
				closeAt(k, i)
			}
			circular = circular[:0]
		}
	}
	return spans
}

// place makes rectangles of spans. Addresses at which nothing ever lies are left out but for a gap.
func (m *addresses) place(spans []span, nodes int) {
	const gap = 12.
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.low, b.low) })
	var used []span // where something lies, in order and apart
	for _, s := range spans {
		if k := len(used) - 1; k >= 0 && s.low <= used[k].low+used[k].size {
			used[k].size = max(used[k].size, s.low-used[k].low+s.size)
			continue
		}
		used = append(used, span{low: s.low, size: s.size})
	}
	total := uint64(0)
	for _, u := range used {
		total += u.size
	}
	if len(used) > 0 {
		m.Low, m.High = used[0].low, used[len(used)-1].low+used[len(used)-1].size
	}
	room := m.Height - 2
	apart := min(gap, room/float64(2*max(len(used), 1)))
	scale := (room - apart*float64(max(len(used)-1, 0))) / float64(max(total, 1))
	k, bottom := 0, m.Height-1
	for _, s := range spans {
		for s.low >= used[k].low+used[k].size && k+1 < len(used) && s.low >= used[k+1].low {
			bottom -= float64(used[k].size)*scale + apart
			k++
		}
		if len(m.Rects) == mostRects {
			m.More++
			continue
		}
		h := max(float64(s.size)*scale, 1)
		m.Rects = append(m.Rects, rect{
			X: float64(s.from) / float64(nodes) * width, W: max(float64(s.to-s.from)/float64(nodes)*width, 0.5),
			Y: bottom - float64(s.low-used[k].low)*scale - h, H: h, Color: s.color, Title: s.title,
		})
	}
}

// bufferSpan is what an allocation takes of the bank that has most of it, or of a core. It is false if that is nothing.
// Pages are those at the end of the capture: they count for allocations that the report has no pages of.
func bufferSpan(r *graph.Report, n *graph.Node, on *core, pages map[place][]graph.Page) (span, bool) {
	at, _ := n.Params.Int(graph.ParamAddress)
	size := n.Params.Size(graph.ParamSize)
	bank := n.Params.Size(graph.ParamMaxPerBank)
	if bank == 0 {
		bank = size
	}
	s := span{low: uint64(max(at, 0)), size: uint64(bank), color: colorOf(fmt.Sprint(n.Counter))}
	s.title = fmt.Sprintf("%s, %s\n%s at %#x, up to %s in a bank", n.Params[graph.ParamType], n.Params[graph.ParamLayout], humanize.IBytes(uint64(size)), s.low, humanize.IBytes(s.size))
	if on == nil {
		return s, true
	}
	device, _ := n.Params.Int(graph.ParamDeviceID)
	here := pages[place{device, s.low}]
	for _, v := range r.PagesByAddress[s.low] {
		if v.Allocation == n.Counter {
			here = v.Pages
		}
	}
	low, high := uint64(0), uint64(0)
	for _, p := range here {
		if p.CoreX != on.x || p.CoreY != on.y {
			continue
		}
		if high == 0 || p.PageAddr < low {
			low = p.PageAddr
		}
		high = max(high, p.PageAddr+uint64(max(p.PageSize, 0)))
	}
	s.low, s.size = low, high-low
	return s, high > low
}

// place is where a buffer begins, on a device.
type place struct {
	device  int64
	address uint64
}

// pagesOf finds the pages that a core has at the end of the capture.
func pagesOf(r *graph.Report, on *core) map[place][]graph.Page {
	out := map[place][]graph.Page{}
	if on == nil {
		return out
	}
	for _, p := range r.BufferPages {
		if p.CoreX == on.x && p.CoreY == on.y {
			k := place{p.Device, p.Address}
			out[k] = append(out[k], p)
		}
	}
	return out
}

// tensorsOf says which tensors lie in a buffer.
func tensorsOf(g *graph.Graph, buffer int) string {
	out, seen := "", map[string]bool{}
	for _, c := range g.Nodes[buffer].Connections {
		if c < 0 || c >= len(g.Nodes) || g.Nodes[c].Type != graph.TensorNode {
			continue
		}
		p := g.Nodes[c].Params
		if t := fmt.Sprintf("\ntensor %s %s", p[graph.ParamTensorID], p[graph.ParamShape]); !seen[t] {
			seen[t] = true
			out += t
		}
	}
	return out
}

// covers says whether a set of cores has one.
func covers(set string, c *core) bool {
	for _, r := range graph.ParseCores(set) {
		if c.x >= int64(r.X0) && c.x <= int64(r.X1) && c.y >= int64(r.Y0) && c.y <= int64(r.Y1) {
			return true
		}
	}
	return false
}
