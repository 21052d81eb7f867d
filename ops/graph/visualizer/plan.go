package visualizer

import (
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// hidden are functions that are no operations in the visualizer; those that they call are (graph_report.py).
func hidden(name string) bool {
	for _, p := range []string{"ttnn::convert_python_tensor_to_tt_tensor", "tt::tt_metal::detail::convert_tt_tensor_to_framework_tensor",
		"Tensor::deallocate", "Tensor::to_device", "Tensor::reshape", "tt::tt_metal::to_dtype"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// operation is a row of the visualizer's operations.
type operation struct {
	id         int
	name       string
	start, end int // nodes; end is the last node if the operation didn't end
	finished   bool
	free       bool // a deallocation outside of any function: start and end are its node
}

// plan holds what the rows of one report are made from.
type plan struct {
	r    *graph.Report
	g    *graph.Graph
	ops  []operation
	of   []int // of each node: index of its operation, -1 for none
	dev  map[int64]int64
	buf  map[int]*graph.Node // allocation of a buffer's node
	base int
}

func newPlan(r *graph.Report, base int) *plan {
	p := &plan{r: r, g: r.Graph, base: base, dev: map[int64]int64{}, buf: map[int]*graph.Node{}}
	p.renumber()
	p.operations()
	for i := range p.g.Nodes {
		if n := &p.g.Nodes[i]; n.Type == graph.BufferAllocate {
			for _, c := range n.Connections {
				if m := p.at(c); m != nil && m.Type == graph.BufferNode {
					p.buf[c] = n
				}
			}
		}
	}
	return p
}

// at is a node, nil for a counter that no node has.
func (p *plan) at(c int) *graph.Node {
	if c < 0 || c >= len(p.g.Nodes) {
		return nil
	}
	return &p.g.Nodes[c]
}

// renumber gives devices small numbers from 0, in the order of theirs: the visualizer indexes lists with them.
func (p *plan) renumber() {
	ids := map[int64]bool{}
	for _, d := range p.r.Devices {
		ids[d.ID] = true
	}
	if len(ids) == 0 {
		for i := range p.g.Nodes {
			if d, ok := p.g.Nodes[i].Params.Int(graph.ParamDeviceID); ok {
				ids[d] = true
			}
		}
	}
	var sorted []int64
	for id := range ids {
		sorted = append(sorted, id)
	}
	slices.Sort(sorted)
	for i, id := range sorted {
		p.dev[id] = int64(i)
	}
}

// device is a device's number in the database. One that no list of devices has keeps its own.
func (p *plan) device(id int64) int64 {
	if n, ok := p.dev[id]; ok {
		return n
	}
	return id
}

// operations finds the functions that nothing but hidden ones called, and deallocations outside of any.
func (p *plan) operations() {
	calls := p.g.Calls()
	at := map[int]int{}              // of a start's node: its call
	seen := make([]bool, len(calls)) // the call is hidden, and so is all around it
	first := true
	for i, c := range calls {
		at[c.Start] = i
		if c.Parent >= 0 && !seen[c.Parent] {
			continue
		}
		if seen[i] = hidden(c.Name) || first && c.Parent < 0 && c.Name == "ttnn.from_torch"; seen[i] {
			continue
		}
		first = false
	}
	p.of = make([]int, len(p.g.Nodes))
	now, until, depth := -1, -1, 0
	for i := range p.g.Nodes {
		p.of[i] = -1
		n := &p.g.Nodes[i]
		if now >= 0 && until < i {
			now = -1
		}
		if k, ok := at[i]; ok {
			depth++
			c := calls[k]
			if top := c.Parent < 0 || seen[c.Parent]; top && !seen[k] {
				o := operation{id: p.base + 1 + len(p.ops), name: c.Name, start: i, end: c.End, finished: c.End >= 0}
				if !o.finished {
					o.end = len(p.g.Nodes) - 1
					if c.Parent >= 0 && calls[c.Parent].End >= 0 {
						o.end = calls[c.Parent].End - 1
					}
				}
				now, until = len(p.ops), o.end
				p.ops = append(p.ops, o)
			}
		} else if n.Type == graph.BufferDeallocate && now < 0 && depth == 0 {
			p.of[i] = len(p.ops)
			p.ops = append(p.ops, operation{id: p.base + 1 + len(p.ops), name: "ttnn::deallocate", start: i, end: i, finished: true, free: true})
			continue
		}
		if n.Type == graph.FunctionEnd {
			depth = max(depth-1, 0)
		}
		if now >= 0 && n.Type != graph.CaptureEnd {
			p.of[i] = now
		}
	}
}

// allocation is what a deallocation takes back, or nil. It is found over the buffer when the deallocation names that.
func (p *plan) allocation(n *graph.Node) *graph.Node {
	for _, c := range n.Connections {
		m := p.at(c)
		if m == nil {
			continue
		}
		if m.Type == graph.BufferAllocate {
			return m
		}
		if a := p.buf[c]; a != nil {
			return a
		}
	}
	return nil
}

// place says where a buffer is: a device and an address.
type place struct{ device, address int64 }

// live is a buffer that has memory.
type live struct {
	place
	alloc *graph.Node
	size  int64 // in the bank with most of it
	kind  int64
	lay   int64
}

// buffer makes what an allocation says.
func (p *plan) buffer(n *graph.Node) live {
	dev, _ := n.Params.Int(graph.ParamDeviceID)
	addr, _ := n.Params.Int(graph.ParamAddress)
	l := live{place: place{p.device(dev), addr}, alloc: n, kind: int64(kind(n.Params)), size: p.perBank(n, dev)}
	if v, ok := graph.ParseBufferLayout(n.Params[graph.ParamLayout]); ok {
		l.lay = int64(v)
	}
	return l
}

// kind is the kind of memory that parameters speak of, in any of the forms that they have.
func kind(q graph.Params) graph.BufferType {
	for _, k := range []string{graph.ParamBufferTypeValue, graph.ParamExactBufferType, graph.ParamBufferType, graph.ParamType} {
		if t, ok := graph.ParseBufferType(q[k]); ok {
			return t
		}
	}
	return graph.DRAM
}

// perBank is max_size_per_bank: what the report says, else what pages and banks give.
func (p *plan) perBank(n *graph.Node, device int64) int64 {
	q := n.Params
	if s, ok := q.Int(graph.ParamMaxPerBank); ok {
		return s
	}
	size, page, cores := q.Size(graph.ParamSize), q.Size(graph.ParamPageSize), q.Size(graph.ParamNumCores)
	if page <= 0 {
		return size
	}
	banks := cores
	if lay := q[graph.ParamLayout]; lay == "INTERLEAVED" || cores == 0 {
		banks = 0
		for _, d := range p.r.Devices {
			if d.ID == device {
				if banks = d.L1Banks; kind(q) == graph.DRAM {
					banks = d.DRAMChannels
				}
			}
		}
	}
	if banks <= 0 {
		return size
	}
	pages := size / page
	per := pages / banks
	if pages%banks != 0 {
		per++
	}
	return per * page // at most size + page, and a page that is larger than size has none
}
