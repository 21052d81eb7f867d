package visualizer

import (
	"maps"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// hidden reports whether a function is not an operation in the visualizer; the functions that it
// calls are (graph_report.py).
func hidden(name string) bool {
	return slices.ContainsFunc([]string{"ttnn::convert_python_tensor_to_tt_tensor", "Tensor::deallocate", "Tensor::to_device",
		"tt::tt_metal::detail::convert_tt_tensor_to_framework_tensor", "Tensor::reshape", "tt::tt_metal::to_dtype", graph.ControlPrefix},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

type operation struct {
	id         int
	name       string
	start, end int // end is where a failed one was left
	finished   bool
	free       bool // a deallocation outside of any function; start and end are its node
}

type plan struct {
	r     *graph.Report
	g     *graph.Graph
	calls []graph.Call
	call  []int // by node: the innermost call, -1 for none
	ops   []operation
	of    []int               // by node: index of its operation, -1 for none
	dev   map[int64]int64     // device numbers in the database by those in the report
	buf   map[int]*graph.Node // latest allocation by node of the buffer
	base  int                 // operations are numbered from base+1
}

func newPlan(r *graph.Report, base int) *plan {
	p := &plan{r: r, g: r.Graph, calls: r.Graph.Calls(), base: base, dev: map[int64]int64{}, buf: map[int]*graph.Node{}}
	p.call = p.g.Innermost(p.calls)
	p.renumber()
	p.operations()
	for _, n := range p.g.All(graph.BufferAllocate) {
		if b := p.g.First(n, graph.BufferNode); b != nil {
			p.buf[b.Counter] = n
		}
	}
	return p
}

// renumber numbers the devices from 0: the visualizer uses them as indexes.
func (p *plan) renumber() {
	ids := map[int64]bool{}
	for _, d := range p.r.Devices {
		ids[d.ID] = true
	}
	sorted, second := p.g.DeviceIDs()
	if len(ids) > 0 {
		sorted = slices.Sorted(maps.Keys(ids))
	}
	for i, id := range sorted {
		p.dev[id] = int64(i)
	}
	for mesh, chip := range second {
		if n, ok := p.dev[chip]; ok && !ids[mesh] {
			p.dev[mesh] = n
		}
	}
}

// device returns a device's number in the database. A device that the report doesn't list keeps its
// number.
func (p *plan) device(id int64) int64 {
	if n, ok := p.dev[id]; ok {
		return n
	}
	return id
}

// operations finds the operations: functions that have only hidden callers, and deallocations
// outside of any function.
func (p *plan) operations() {
	skip := make([]bool, len(p.calls)) // calls that are hidden and have only hidden callers
	first := true
	for i, c := range p.calls {
		if c.Parent >= 0 && !skip[c.Parent] {
			continue
		}
		if skip[i] = hidden(c.Name) || first && c.Parent < 0 && c.Name == "ttnn.from_torch"; skip[i] {
			continue
		}
		first = false
	}
	p.of = make([]int, len(p.g.Nodes))
	now, until := -1, -1
	for i, n := range p.g.All() {
		p.of[i] = -1
		if now >= 0 && until < i {
			now = -1
		}
		k := p.call[i]
		if k < 0 && n.Type == graph.BufferDeallocate {
			p.of[i] = p.add(operation{name: "ttnn::deallocate", start: i, end: i, finished: true, free: true})
			continue
		}
		if k >= 0 && p.calls[k].Start == i && !skip[k] {
			if c := p.calls[k]; c.Parent < 0 || skip[c.Parent] {
				o := operation{name: c.Name, start: i, end: c.Last, finished: c.End >= 0}
				now, until = p.add(o), o.end
			}
		}
		if now >= 0 && n.Type != graph.CaptureEnd {
			p.of[i] = now
		}
	}
}

func (p *plan) add(o operation) (index int) {
	o.id = p.base + 1 + len(p.ops)
	p.ops = append(p.ops, o)
	return len(p.ops) - 1
}

// operands are the tensors that operations take and return, by index of the operation.
type operands struct {
	in, out [][]int64
	nodes   [][]int        // of the outputs
	used    map[int64]bool // tensors of any operation
}

// newOperands returns the operands by [graph.Graph.Operands]. A deallocation outside of functions
// takes the freed tensor.
func newOperands(p *plan) *operands {
	o := &operands{used: map[int64]bool{}}
	all, freed := p.g.Operands(p.calls), p.g.Freed()
	for _, op := range p.ops {
		var of graph.Operands
		if !op.free {
			of = all[p.call[op.start]]
		} else if t, ok := freed[op.start]; ok {
			of.In = []int{t}
		}
		o.nodes = append(o.nodes, of.Out)
		o.in, o.out = append(o.in, tensorNumbers(p.g, of.In)), append(o.out, tensorNumbers(p.g, of.Out))
	}
	return o
}

// tensorNumbers returns the numbers of tensor nodes. Tensors without a number are left out.
func tensorNumbers(g *graph.Graph, nodes []int) []int64 {
	out := []int64{}
	for _, n := range nodes {
		if id, ok := g.Nodes[n].Params.Int(graph.ParamTensorID); ok {
			out = append(out, id)
		}
	}
	return out
}

// names replaces the tensors of an operation by those that Python's record of it names.
func (o *operands) names(i int, r *graph.PythonRecord) {
	if len(r.Inputs) > 0 {
		o.in[i] = unique(r.Inputs)
	}
	if len(r.Outputs) > 0 {
		o.out[i] = unique(r.Outputs)
	}
	for _, id := range slices.Concat(o.in[i], o.out[i]) {
		o.used[id] = true
	}
}

func unique(ids []int64) (out []int64) {
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
