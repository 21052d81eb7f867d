package visualizer

import "github.com/reprise-tt/reprise/ops/graph"

// operands are the tensors that operations take and return, by index of the operation.
type operands struct {
	in, out [][]int64
	used    map[int64]bool // tensors of any operation
}

// newOperands returns the operands by [graph.Graph.Operands]. A deallocation outside of functions
// takes the freed tensor.
func newOperands(p *plan) *operands {
	o := &operands{used: map[int64]bool{}}
	calls := p.g.Calls()
	at := map[int]int{} // calls by node of their start
	for i, c := range calls {
		at[c.Start] = i
	}
	all, freed := p.g.Operands(calls), p.g.Freed()
	for _, op := range p.ops {
		var of graph.Operands
		if !op.free {
			of = all[at[op.start]]
		} else if t, ok := freed[op.start]; ok {
			of.In = []int{t}
		}
		o.in, o.out = append(o.in, o.ids(p.g, of.In)), append(o.out, o.ids(p.g, of.Out))
	}
	return o
}

// ids returns the numbers of tensor nodes, and marks them as used. Tensors without a number are
// left out.
func (o *operands) ids(g *graph.Graph, nodes []int) []int64 {
	out := []int64{}
	for _, n := range nodes {
		if id, ok := g.Nodes[n].Params.Int(graph.ParamTensorID); ok {
			out = append(out, id)
			o.used[id] = true
		}
	}
	return out
}

func unique(ids []int64) []int64 {
	seen := map[int64]bool{}
	out := []int64{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}
