package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/ops/graph"
)

// addresses is the picture of the addresses of buffers over events.
type addresses struct {
	Name          string
	Width, Height float64
	Low, High     uint64 // addresses at the lower and the upper edge
	Rects         []rect
	More          int
}

// span is the lifetime of a buffer.
type span struct {
	from, to  int // nodes
	low, size uint64
	title     string
	color     string
	circular  bool
}

// newAddresses draws the buffers in a kind of memory; if a core is given, only those on it, as far as the report has them.
func newAddresses(r *graph.Report, t graph.BufferType, on *core) addresses {
	m := addresses{Name: t.String(), Width: width, Height: 260}
	if on != nil {
		m.Name += fmt.Sprintf(" of core %d,%d", on.x, on.y)
	}
	m.place(spansOf(r, t, on), len(r.Graph.Nodes))
	return m
}

// spansOf lists the buffers in a kind of memory, or on a core.
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

// place converts spans to rectangles. Ranges of addresses that are never used are drawn as a small gap.
func (m *addresses) place(spans []span, nodes int) {
	const gap = 12.
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.low, b.low) })
	var used []span // ranges in use, in order, without overlaps
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
		if len(m.Rects) == maxRects {
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

// bufferSpan returns the span of an allocation in the bank with most of it, or on a core, or false if it has no page there.
// pages are those at the end of the capture, for allocations without pages of their own in the report.
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

// place is the address of a buffer on a device.
type place struct {
	device  int64
	address uint64
}

// pagesOf returns the pages on a core at the end of the capture.
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

// tensorsOf lists the tensors in a buffer as text.
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

// covers reports whether a set of cores contains a core.
func covers(set string, c *core) bool {
	for _, r := range graph.ParseCores(set) {
		if c.x >= int64(r.X0) && c.x <= int64(r.X1) && c.y >= int64(r.Y0) && c.y <= int64(r.Y1) {
			return true
		}
	}
	return false
}

// bufferNode returns the counter of the buffer of an allocation or deallocation, or -1.
func bufferNode(g *graph.Graph, n *graph.Node) int {
	for _, c := range n.Connections {
		if c >= 0 && c < len(g.Nodes) && g.Nodes[c].Type == graph.BufferNode {
			return c
		}
	}
	return -1
}
